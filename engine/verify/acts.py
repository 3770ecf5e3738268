"""What a question wants done: the main verbs, apart from participles that only describe (restore a *deleted* project)."""

# ruff: noqa: SIM905 — lists of words and patterns read, diff and are searched better as one text
from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

# One group of like acts a line; a verb may stand in several. Verbs of groups that share none are different acts.
_ENGLISH = """
enable activate turn_on switch_on set_up start
disable deactivate turn_off switch_off
set_up configure create install
start launch run begin boot open resume initiate
stop end halt quit kill terminate shut_down finish
restart reboot relaunch
pause suspend hold freeze
resume continue reactivate
cancel end stop terminate unsubscribe withdraw
delete remove erase clear drop uninstall destroy purge
close delete cancel deactivate
close shut lock
bring carry take pack
exit quit leave close
get receive obtain claim request apply
get buy find see check
check see view find know tell look_up
change switch move transfer
send submit file report
help fix treat
set_up register open create sign_up
make write create prepare book
make change turn increase decrease
take get make
have get keep
put enter add save insert
enter type input apply use
leave quit stop cancel
start begin learn create plant
block stop
continue keep preserve
hire employ use
apply use utilize employ
determine set
extend run
exchange switch swap
hold keep
recover retrieve
resolve settle
add lend
access return retrieve get load read
load select
define set_up
decide choose determine
share provide
write save print
contact speak talk reach get
cook make boil
draft compose write
merge join concatenate combine append
kill end stop terminate
clean remove wash
remove clear drop strip filter
remove take get
add insert append attach include put
create make build generate write develop set_up add draft produce
write save store
read open load parse import view see
change modify edit update alter adjust set switch replace
rename | amend | archive | unarchive | merge combine join | split divide separate
reset restore recover
restore recover undelete
undo revert reverse
revert restore roll_back
reverse invert
rotate | revoke invalidate | renew extend | expire
replace swap exchange substitute
return send_back refund | exchange
buy purchase order get obtain
sell | rent hire lease | borrow | lend
use redeem apply spend
use employ utilize
order request place
repeat reorder
track follow trace check see view monitor
follow | unfollow | mute | block | unblock
check verify see view find test confirm
find locate search look_up see get access
download get obtain save fetch retrieve
upload submit post
submit send file
send ship deliver mail post dispatch
receive get obtain accept
share send invite
invite add
contact reach call email message speak talk
export save convert extract
import load
convert transform turn change translate
translate | encrypt | decrypt | encode | decode | compress zip | decompress unzip extract
sort order rank arrange
filter | group | count | sum | list show display view see | print
hide | show reveal display
lock | unlock
pay settle
register enroll sign_up join apply subscribe create
subscribe sign_up join
login log_in sign_in access
logout log_out sign_out
connect link pair attach join
disconnect unlink unpair detach
install add deploy
upgrade update
downgrade
fix repair resolve solve troubleshoot correct
break
clean wash clear
cook make prepare bake roast boil fry
freeze | thaw defrost melt
grow plant cultivate
lose shed reduce
gain increase raise improve boost grow
reduce decrease lower cut minimize lessen
increase raise extend
learn study
teach
schedule book plan arrange reserve
book reserve
reschedule move postpone
move transfer migrate shift relocate
transfer send move
copy duplicate clone
back_up copy save
clone | fork | commit | push | pull | rebase | deploy | test | debug | compile build
deposit | withdraw
claim request
report | appeal | accept approve | reject decline
approve | assign | unassign
treat cure heal relieve
prevent avoid stop
diagnose
measure calculate compute determine
calculate compute find determine
draw paint | sing | dance | drive | ride | walk | swim | run
eat consume | drink
define declare
choose select pick
keep store save preserve
wait
mount | unmount | scan | crop resize | pin | unpin | tie | untie | knit | sew
"""
_CHINESE = """
开启 打开 启用 开通 激活 设置
关闭 关掉 停用 禁用 停止
启动 运行 开始 打开 执行
停止 终止 结束 中止 退出
重启 重新启动
暂停 中断
继续 恢复
取消 撤销 退订 终止
删除 移除 删掉 清除 去掉 卸载
移出 移除
添加 增加 新增 加入 插入
创建 新建 建立 生成 注册 添加
注册 开通 申请
注销 删除
修改 更改 变更 编辑 更新 调整 设置 改
更换 替换 更新 换
换货 退换
退货 退换
退款
重置 重设 找回
恢复 还原 找回
撤销 撤回 回滚 还原
吊销 撤销
购买 买 订购
出售 卖
使用 用 兑换
兑换 换
查询 查看 查 看 跟踪 追踪 查找
查找 搜索 找
下载 获取 保存
上传 提交
提交 发送
发送 寄 送 寄送 邮寄 发
接收 收取
导出 另存
导入
转换 转成 转为 换算
翻译
读取 打开 读
写入 保存 写
编写 写 创建
加密
解密
压缩 打包
解压
安装 装 部署
卸载
升级 更新
降级
续订 续费
订阅
归档 存档
合并
拆分 分割
反转 倒序
排序
遍历
邀请 添加
移动 转移 迁移
复制 拷贝 克隆
备份
连接 绑定
断开 解绑
登录 登陆
登出 退出
锁定
解锁
修复 修 解决 修理
清洗 洗 清洁
治疗 缓解
预防 避免
支付 付款 缴费
提现 取款
充值 存款
分享 发送
申请 办理
预约 预订
改签
隐藏
显示 查看
限制
测试
计算 算
学习 学
"""


def _groups(text: str) -> dict[str, frozenset[int]]:
    found: dict[str, set[int]] = {}
    for number, group in enumerate(text.strip().replace("|", "\n").split("\n")):
        for word in group.split():
            found.setdefault(word, set()).add(number)
    return {word: frozenset(numbers) for word, numbers in found.items()}


ENGLISH = _groups(_ENGLISH)
CHINESE = _groups(_CHINESE)
# A verb here directly after one of these, in its base form, is what is wanted; elsewhere it may be a noun or describe one.
_BEFORE = frozenset("i we you they one to please not and or".split())
_ALSO = frozenset("can could should do will would must how me".split())
_LONG = sorted((word for word in CHINESE if len(word) > 1), key=len, reverse=True)
_VERB = re.compile("|".join(_LONG))
_DESCRIBES = re.compile(
    rf"(?:正在|已经|已|被|刚刚|刚|尚未|未)?(?:{'|'.join(_LONG)})(?:过|中|好|了)?的(?=[^,，。？?！!吗呢])|(?:正在|已经|已|被)(?:{'|'.join(_LONG)})"
)


_PLACE_VERBS = frozenset("make makes making".split())
_CHANGE = frozenset(
    "bigger larger smaller faster slower better worse easier harder longer shorter louder quieter brighter darker more less".split()
)


def english(words: Sequence[str]) -> list[str]:
    """Return the verbs of a question that stand where what is wanted stands."""
    found = []
    for place, word in enumerate(words):
        if word in _PLACE_VERBS and _CHANGE.intersection(words[place + 1 :]):
            continue  # make the font bigger: to increase it
        if word in ENGLISH and (place == 0 or words[place - 1] in _BEFORE or words[place - 1] in _ALSO):
            found.append(word)
    return sorted(set(found))


def chinese(text: str) -> list[str]:
    """Return the known verbs of two or more characters but for those before 的 and after 已 or 正在."""
    return sorted(set(_VERB.findall(_DESCRIBES.sub("", text))))


def alike(one: str, other: str, *, lang: str) -> bool:
    """Return whether two verbs can be the same act; a verb that is not listed is like none but itself."""
    groups = CHINESE if lang == "zh" else ENGLISH
    return one == other or bool(groups.get(one, frozenset()) & groups.get(other, frozenset()))


def differ(left: Iterable[str], right: Iterable[str], *, lang: str) -> bool:
    """Return whether both sides name acts and none of one side can be one of the other."""
    mine, theirs = list(left), list(right)
    return bool(mine and theirs) and not any(alike(one, other, lang=lang) for one in mine for other in theirs)

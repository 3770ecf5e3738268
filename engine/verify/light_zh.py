"""Chinese words that ask, and words that may be added without another thing being asked. Written for this project."""

# ruff: noqa: SIM905 — lists of words read, diff and are searched better as one text
from __future__ import annotations

import re

# What asks and names nothing; and what may be added without another thing being asked.
QUESTION_WORDS = tuple(
    """怎么 为什么 是什么 什么 多少 哪里 哪些 哪个 哪 几 多久 什么时候 有没有 是否 能 要 会 有 吗 呢 谁
    需要""".split()
)
LIGHT = tuple(
    """一个 一篇 一封 一首 一种 这个 那个 这 那 进行 办理 方法 步骤 操作 时候 时 情况 概念 原理 标准 官方
    预计 具体 到底 大概 一般 正确 命令 关于 功能 方面 相关 自己 手机 上 中 里面 里 下 给 把 将 用 去
    来 到 被 让 对 于 个 种 条 位 次 家 本 张 份 和 与 跟 以 为 做 弄 请 想 才 就 也 还 都 过
    着 最好 比较 目前 大家 一般来说 通常 主要 原因 问题 内容 东西 出现 发生 之间 当中 用什么 办法 方式
    城市 国家 地方 时间 享受 成为 使用 收到 可 这么 那么 很 太 非常""".split()
)
# Things named by one character: beside a longer word they are another thing, not the same in another wording.
THINGS = frozenset("茶酒水奶糖盐油醋肉鱼虾蟹蛋粥鸡鸭鹅牛羊猪狗猫兔鸟鼠蛇龟梨桃枣杏葱姜蒜藕笋车")
_LIGHT = re.compile("|".join(sorted(map(re.escape, LIGHT), key=len, reverse=True)))
_QUESTION = re.compile("|".join(sorted(map(re.escape, QUESTION_WORDS), key=len, reverse=True)))


def without_light(text: str) -> str:
    """Return the text without the words that may be added to a question and leave it the same."""
    return _LIGHT.sub("", text)


def without_question(text: str) -> str:
    """Return the text without its question words, which stand now first and now last."""
    return _QUESTION.sub("", text)

"""Names that are written in lower case as often as not, or in Chinese: places, languages, brands, tools. Written for this project."""

# ruff: noqa: E501, SIM905 — lists of words and patterns read, diff and are searched better as one text
from __future__ import annotations

ENGLISH = frozenset(
    """afghanistan albania algeria argentina australia austria bangladesh belgium bolivia brazil britain bulgaria cambodia cameroon canada
    chile china colombia croatia cuba cyprus denmark ecuador egypt england estonia ethiopia finland france georgia germany ghana greece
    guatemala haiti hungary iceland india indonesia iran iraq ireland israel italy jamaica japan jordan kazakhstan kenya korea kuwait laos
    latvia lebanon libya lithuania luxembourg malaysia malta mexico moldova mongolia morocco myanmar nepal netherlands nigeria norway oman
    pakistan panama paraguay peru philippines poland portugal qatar romania russia rwanda scotland senegal serbia singapore slovakia slovenia
    somalia spain sudan sweden switzerland syria taiwan tanzania thailand tunisia turkey uganda ukraine uruguay venezuela vietnam wales yemen
    zambia zimbabwe africa asia europe america amsterdam athens atlanta bangkok barcelona beijing berlin boston brussels budapest cairo
    chicago copenhagen dallas delhi denver dubai dublin edinburgh florence geneva glasgow guangzhou hamburg helsinki houston istanbul jakarta
    karachi kyoto lagos lima lisbon liverpool london lyon madrid manchester manila melbourne miami milan montreal moscow mumbai munich nairobi
    naples osaka oslo ottawa paris philadelphia phoenix prague rome seattle seoul shanghai shenzhen stockholm sydney taipei tokyo toronto
    vancouver venice vienna warsaw zurich california texas florida
    english german french spanish italian portuguese russian chinese japanese korean arabic hindi dutch swedish norwegian danish finnish
    polish turkish greek hebrew latin mandarin cantonese thai vietnamese
    python java javascript typescript rust golang kotlin swift ruby php perl scala haskell elixir julia matlab cobol fortran bash powershell
    react angular vue svelte django flask rails laravel spring numpy pandas pytorch tensorflow keras
    mysql postgres postgresql sqlite mongodb redis oracle mariadb cassandra elasticsearch kafka rabbitmq
    docker kubernetes podman terraform ansible jenkins git github gitlab bitbucket nginx apache
    linux ubuntu debian fedora centos windows macos android ios chrome firefox safari edge
    excel word powerpoint outlook gmail slack teams zoom whatsapp telegram signal facebook instagram twitter tiktok youtube netflix spotify
    amazon google microsoft apple samsung huawei xiaomi sony nokia intel nvidia tesla toyota honda ford bmw audi volkswagen ikea walmart
    paypal visa mastercard bitcoin ethereum json yaml xml csv html css sql pdf aws azure gcp iphone ipad macbook pixel galaxy kindle xbox
    playstation nintendo photoshop illustrator wordpress shopify notion trello jira salesforce vim emacs""".split()
)

# Given once here: a word of another meaning that also stands in the list does not count in lower case.
AMBIGUOUS = frozenset("turkey jordan georgia phoenix apple oracle amazon swift ruby rust spring flask rails word edge teams zoom signal visa ford pixel galaxy notion safari latin polish polish excel vim chile china julia florence".split())  # fmt: skip

# What belongs to a country, and the country: the German minimum wage is that of Germany.
NATIONS = dict(pair.split("/") for pair in """german/germany french/france spanish/spain italian/italy portuguese/portugal russian/russia chinese/china
    japanese/japan korean/korea american/america british/britain english/england irish/ireland scottish/scotland welsh/wales canadian/canada
    mexican/mexico brazilian/brazil polish/poland turkish/turkey greek/greece swedish/sweden norwegian/norway danish/denmark finnish/finland
    dutch/netherlands belgian/belgium swiss/switzerland austrian/austria hungarian/hungary ukrainian/ukraine egyptian/egypt israeli/israel
    indian/india pakistani/pakistan thai/thailand vietnamese/vietnam australian/australia european/europe african/africa asian/asia""".split())  # fmt: skip

CHINESE = tuple(
    sorted(
        """中国 美国 英国 法国 德国 日本 韩国 朝鲜 俄罗斯 印度 巴西 加拿大 澳大利亚 新西兰 意大利 西班牙 葡萄牙 荷兰 比利时 瑞士 瑞典 挪威 丹麦 芬兰 波兰 奥地利
    希腊 土耳其 埃及 南非 墨西哥 阿根廷 智利 秘鲁 泰国 越南 新加坡 马来西亚 印度尼西亚 菲律宾 柬埔寨 缅甸 蒙古 伊朗 伊拉克 以色列 沙特 阿联酋 乌克兰 爱尔兰 匈牙利 捷克
    非洲 欧洲 亚洲 美洲 南美洲 北美洲 大洋洲 北京 上海 广州 深圳 天津 重庆 成都 杭州 南京 武汉 西安 苏州 长沙 郑州 青岛 大连 厦门 福州 济南 沈阳 哈尔滨 长春 昆明 贵阳 南宁
    海口 三亚 拉萨 兰州 西宁 银川 乌鲁木齐 合肥 南昌 太原 石家庄 宁波 无锡 佛山 东莞 珠海 香港 澳门 台湾 台北 广东 广西 湖南 湖北 河南 河北 山东 山西 江苏 浙江 安徽 福建
    江西 四川 云南 贵州 陕西 甘肃 青海 海南 辽宁 吉林 黑龙江 新疆 西藏 内蒙古 宁夏 东京 大阪 京都 首尔 曼谷 伦敦 巴黎 柏林 罗马 马德里 里斯本 莫斯科 纽约 洛杉矶 芝加哥
    旧金山 华盛顿 波士顿 西雅图 多伦多 温哥华 悉尼 墨尔本 迪拜 开罗 维也纳 布拉格 里昂 米兰 威尼斯 英语 法语 德语 日语 韩语 俄语 西班牙语 葡萄牙语 意大利语 阿拉伯语 中文 英文
    日文 汉语 粤语 普通话 苹果 华为 小米 三星 微软 谷歌 亚马逊 特斯拉 网飞 腾讯 阿里巴巴 阿里 百度 京东 淘宝 拼多多 美团 滴滴 抖音 快手 微信 支付宝 微博 知乎 钉钉 飞书 安卓 鸿蒙
    工商银行 建设银行 农业银行 中国银行 招商银行 交通银行 花呗 借呗 余额宝 中国移动 中国联通 中国电信 丰田 本田 大众 宝马 奔驰 奥迪 比亚迪 蔚来 理想 小鹏 顺丰 圆通 中通 申通 韵达""".split(),
        key=len,
        reverse=True,
    )
)
TITLES = "医生|老师|教授|经理|先生|女士|主任|律师|总监|同学|师傅|小姐"

ALIASES = {
    "postgresql": "postgres", "js": "javascript", "ts": "typescript", "usa": "america", "us": "america", "uk": "britain", "k8s": "kubernetes",
    "golang": "go", "mongo": "mongodb", "macos": "mac", "osx": "mac", "powershell": "powershell", "wifi": "wi-fi", "2fa": "two-factor",
}  # fmt: skip
SURNAMES = "张王李赵刘陈杨黄吴周徐孙马朱胡林郭何高罗郑梁谢宋唐许邓冯韩曹曾彭萧蔡潘田董袁余叶蒋杜苏魏程吕丁沈任姚卢傅钟姜崔谭廖范汪陆金石戴贾韦夏邱方侯邹熊孟秦白江阎薛尹段雷黎史龙陶贺顾毛郝龚邵万钱严武莫孔"

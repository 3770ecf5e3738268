"""Units in both languages: name -> (dimension, canonical unit, factor to the dimension's base unit; 0 = no fixed factor)."""

# ruff: noqa: E501, SIM905 — lists of words and patterns read, diff and are searched better as one text
from __future__ import annotations

_TABLE = """
length m 1 m meter meters metre metres 米
length km 1000 km kilometer kilometers kilometre kilometres 公里 千米
length cm 0.01 cm centimeter centimeters centimetre centimetres 厘米
length mm 0.001 mm millimeter millimeters millimetre millimetres 毫米
length mile 1609.344 mile miles mi 英里
length foot 0.3048 foot feet ft 英尺
length inch 0.0254 inch inches 英寸
length yard 0.9144 yard yards yd 码
mass kg 1 kg kgs kilo kilos kilogram kilograms 公斤 千克
mass g 0.001 g gram grams gramme grammes 克
mass mg 0.000001 mg milligram milligrams 毫克
mass t 1000 ton tons tonne tonnes 吨
mass lb 0.45359237 lb lbs pound_weight pounds_weight 磅
mass oz 0.028349523 oz ounce ounces 盎司
mass jin 0.5 斤
mass liang 0.05 两重
mass stone 6.35029318 stone stones
volume l 1 l liter liters litre litres 升
volume ml 0.001 ml milliliter milliliters millilitre millilitres 毫升
volume gal 3.785411784 gallon gallons gal 加仑
volume pint 0 pint pints
volume cup 0 cup cups 杯
volume tbsp 0 tbsp tablespoon tablespoons 汤匙
volume tsp 0 tsp teaspoon teaspoons 茶匙
area m2 1 sqm m2 平方米 平米
area km2 1000000 km2 sqkm 平方公里 平方千米
area ft2 0.09290304 sqft 平方英尺
area acre 4046.8564224 acre acres 英亩
area ha 10000 hectare hectares 公顷
area mu 666.6667 亩
time s 1 s sec secs second seconds 秒 秒钟
time ms 0.001 ms millisecond milliseconds 毫秒
time min 60 min mins minute minutes 分钟
time h 3600 h hr hrs hour hours hourly 小时 个小时 钟头
time day 86400 day days daily 天 个工作日
time week 604800 week weeks weekly 周 个星期 星期
time month 0 month months monthly 个月
time year 0 year years yearly annual annually yr yrs 年
data byte 1 byte bytes 字节
data kb 1000 kb kilobyte kilobytes
data mb 1000000 mb megabyte megabytes 兆
data gb 1000000000 gb gigabyte gigabytes
data tb 1000000000000 tb terabyte terabytes
data bit 0.125 bit bits 比特
temperature c 0 celsius centigrade °c 摄氏度 摄氏
temperature f 0 fahrenheit °f 华氏度 华氏
temperature k 0 kelvin 开尔文
money usd 0 usd dollar dollars $ 美元 美金
money eur 0 eur euro euros € 欧元
money gbp 0 gbp £ 英镑
money jpy 0 jpy yen 日元
money cny 0 cny rmb yuan 元 块 块钱 人民币
money krw 0 krw won_currency 韩元
money inr 0 inr rupee rupees ₹ 卢比
money hkd 0 hkd 港币 港元
money chf 0 chf franc francs 瑞郎
money yuanyen 0 ¥
share percent 0 % percent per_cent pct
share permille 0 ‰
speed kmh 0 kmh kph km/h
speed mph 0 mph
power w 1 watt watts w 瓦
power kw 1000 kw kilowatt kilowatts 千瓦
energy kcal 0 kcal calorie calories 卡路里 大卡
energy kj 0 kj kilojoule kilojoules 千焦
voltage v 0 volt volts 伏
count person 0 people person persons 人 位 名
count box 0 箱
count bottle 0 瓶
count age 0 岁
"""

UNITS: dict[str, tuple[str, str, float]] = {}
for _line in _TABLE.strip().split("\n"):
    _dimension, _unit, _factor, *_names = _line.split()
    for _name in _names:
        UNITS[_name] = (_dimension, _unit, float(_factor))
BY_CODE = {unit: (dimension, factor) for dimension, unit, factor in UNITS.values()}
HAN_UNITS = tuple(sorted((name for name in UNITS if name[0] > "\u3000"), key=len, reverse=True))
SIGNS = "$€£¥₹"
# Words that are units only beside a number: on its own each is something else more often.
NEEDS_NUMBER = frozenset("m g l s h t w k mi min ms second seconds stone stones people person persons % foot feet bit bits mb gb kb tb cup cups 人 位 名 码 块 元 周 天 年 升 克 伏 瓦 箱 瓶 岁 杯 兆 星期".split())  # fmt: skip

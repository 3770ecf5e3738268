"""Numbers, quantities, dates and times of a text, in one written form each, so that equal ones compare equal."""

# ruff: noqa: E501, SIM905 — lists of words and patterns read, diff and are searched better as one text
from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from engine.verify import lexicon_en as en
from engine.verify import lexicon_zh as zh
from engine.verify import units
from engine.verify.marked import Marks

_WORDS = "|".join(sorted((*en.NUMBER_WORDS, "hundreds", "thousands", "millions"), key=len, reverse=True))
_NUMBER_WORDS = re.compile(rf"\b(?:{_WORDS})(?:(?:\s+and\s+|[\s-]+)(?:{_WORDS}))*\b", re.I)
_ORDINALS = re.compile(rf"\b(?:{'|'.join(en.ORDINAL_WORDS)})\b", re.I)
_SECOND = re.compile(r"(?:^|\b(?:the|my|our|your|his|her|their|this|a|on|in|every)\s+)second\b(?!s)", re.I)
_FIRST = re.compile(r"\bfirst\b", re.I)
_ROMAN = {"I": 1, "II": 2, "III": 3, "IV": 4, "V": 5, "VI": 6, "VII": 7, "VIII": 8, "IX": 9, "X": 10}
# What is counted in Roman numerals. After another word II is a numeral all the same; I, V and X are not, nor is `ix` or `vi` in small letters.
_COUNTED = "[Ww]ar|[Tt]ype|[Pp]art|[Cc]hapter|[Pp]hase|[Ss]tage|[Ll]evel|[Vv]olume|[Ss]ection|[Tt]itle|[Gg]rade|[Cc]lass|[Aa]ct|[Aa]rticle|[Tt]ier|[Ff]actor"
_VERB_AFTER_I = "am|was|should|can|could|will|would|must|may|might|need|want|have|had|do|did|don't|use|get|like|prefer|choose|pick|buy"
_NUMERAL = re.compile(
    rf"(?:(?<=[A-Za-z]{{3}}\s)(?P<plain>II|III|IV|VI|VII|VIII|IX|iii?|viii?)|(?P<noun>\b(?:{_COUNTED})\s+)(?P<counted>[Ii]|V|X|IX|ix|vi)"
    r"|(?P<name>(?:^|(?<=[a-z]\s))[A-Z][a-z]{3,}\s+)(?P<regnal>I))\b"
    rf"(?!['.-]\w)(?!\s+(?:{_VERB_AFTER_I})\b)"
)
_NOT_A_NUMBER_BEFORE_ONE = frozenset(
    "which that this the no any every each some other another good better best new right wrong last next first".split()
)
_HALF = re.compile(r"\bhalf an? (?=hour|day|year|mile|minute|kilo|litre|liter|dozen)", re.I)
_TIMES = re.compile(r"\b(?:twice|thrice)\b", re.I)
_HAN_NUMBER = re.compile(
    r"(?P<share>百分之)?(?P<ord>第)?(?P<num>[零〇一二两三四五六七八九十百千万亿]+)(?P<half>点[零一二三四五六七八九]+)?"
)
_MONTH_NAMES = "|".join(sorted(en.MONTHS, key=len, reverse=True))
_DAY_NAMES = "|".join(sorted((*en.WEEKDAYS, *en.RELATIVE_DAYS, *en.DAY_NAMES), key=len, reverse=True))

_DATE_PATTERNS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], list[str]]], ...] = (
    (re.compile(r"(?<!\d)(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?!\d)"), lambda m: _date(m[1], m[2], m[3])),
    (re.compile(r"(?<![\d/])(\d{1,2})/(\d{1,2})/(\d{4}|\d{2})(?![\d/])"), lambda m: [f"{int(m[1])}/{int(m[2])}/{m[3]}"]),
    (re.compile(r"(?<!\d)(\d{4}|\d{2})年(?:(\d{1,2})月(?:份)?)?(?:(\d{1,2})[日号])?"), lambda m: _date(m[1], m[2], m[3])),
    (re.compile(r"(?<!\d)(\d{1,2})月(?:份)?(?:(\d{1,2})[日号])?"), lambda m: _date(None, m[1], m[2])),
    (re.compile(r"(?<!\d)(\d{1,2})[日号](?!楼|线|店)"), lambda m: _date(None, None, m[1])),
    (re.compile(rf"\b(\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?({_MONTH_NAMES})\b\.?(?:,?\s+(\d{{4}}))?", re.I), lambda m: _date(m[3], m[2], m[1])),
    (re.compile(rf"\b({_MONTH_NAMES})\.?\s+(\d{{1,2}})(?:st|nd|rd|th)?\b(?:,?\s+(\d{{4}}))?", re.I), lambda m: _date(m[3], m[1], m[2])),
    (re.compile(rf"\b({_MONTH_NAMES})\.?,?\s+(\d{{4}})\b", re.I), lambda m: _date(m[2], m[1], None)),
    # May and March are months by their capital and a preposition only.
    (re.compile(r"\b(?:[Ii]n|[Oo]f|[Ss]ince|[Uu]ntil|[Bb]y|[Ll]ast|[Nn]ext|[Tt]his|[Ff]or|[Dd]uring|[Ee]arly|[Ll]ate|[Ff]rom|[Tt]o)\s+(May|March)\b"),
     lambda m: _date(None, m[1], None)),
    (re.compile(r"\b(january|february|april|june|july|august|september|october|november|december)\b", re.I), lambda m: _date(None, m[1], None)),
    (re.compile(r"\b(\d{1,2})(?::(\d{2}))?(?::\d{2})?\s*([ap])\.?m\b\.?", re.I), lambda m: _time(m[1], m[2], m[3].lower())),
    (re.compile(r"(上午|早上|清晨|凌晨|中午|下午|傍晚|晚上|夜里|今晚|明晚)\s*(\d{1,2})(?:点钟|点|时|:)(?:(\d{1,2})分?|(半))?"),
     lambda m: _time(m[2], "30" if m[4] else m[3], "p" if m[1] in {"下午", "傍晚", "晚上", "夜里", "今晚", "明晚"} else "a")),
    (re.compile(r"(?<![\d:])(\d{1,2}):(\d{2})(?![\d:])"), lambda m: _time(m[1], m[2], "")),
    (re.compile(r"(?<![\d.])(\d{1,2})(?:点钟|点)(?:(\d{1,2})分?|(半))?(?!\d)"), lambda m: _time(m[1], "30" if m[3] else m[2], "?")),
    (re.compile(r"\b(\d{1,2})\s*o'?clock\b", re.I), lambda m: _time(m[1], None, "?")),
    (re.compile(r"\b(?:noon|midday)\b", re.I), lambda m: ["T12:00"]),
    (re.compile(r"\bmidnight\b", re.I), lambda m: ["T00:00"]),
    (re.compile(r"(?:周|星期|礼拜)([一二三四五六日天1-7])(?!期|个)"), lambda m: ["W" + str("一二三四五六日".find(m[1].replace("天", "日")) + 1 or m[1])]),
    (re.compile(rf"\b({_DAY_NAMES})\b", re.I), lambda m: [_day(m[1].lower())]),
    (re.compile(r"\b(last|this|next|past|previous|coming|current)\s+(day|week|weekend|month|quarter|year|night|semester|season)s?\b", re.I),
     lambda m: [f"R{ {'previous': 'last', 'past': 'last', 'coming': 'next', 'current': 'this'}.get(m[1].lower(), m[1].lower()) }-{m[2].lower()}"]),
    (re.compile("|".join(sorted((*zh.RELATIVE, *zh.HOLIDAYS), key=len, reverse=True))), lambda m: ["R" + m[0]]),
)  # fmt: skip


def _han_unit(name: str) -> str:
    # 升 is a litre, but 升级 an upgrade: 版本2升级到3.
    return name + "(?![级序至高华])" if name == "升" else re.escape(name)


_NUMBER = re.compile(
    rf"(?P<sign>[{units.SIGNS}])?\s?(?<![A-Za-z\d_.])(?<![A-Za-z_]-)(?P<num>\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?|\d+(?:\.\d+)*)"
    r"(?P<ord>st|nd|rd|th)?(?P<scale>[kK](?![A-Za-z])|\s?(?:thousand|million|billion|trillion|万亿|千万|百万|万|亿)(?![A-Za-z]))?"
    rf"(?:(?P<han>{'|'.join(map(_han_unit, units.HAN_UNITS))})|(?P<unit>\s?-?(?:square |degrees? )?(?:[A-Za-z]+(?:/h)?|[°%‰][CF]?|[{units.SIGNS}]))?(?![A-Za-z\d]))",
)
_VERSION = re.compile(r"\b[vV](\d+(?:\.\d+)*)\b")
_SCALES = {"k": 1000, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12, "万": 10**4, "百万": 10**6, "千万": 10**7, "亿": 10**8, "万亿": 10**12}  # fmt: skip


@dataclass(slots=True)
class Quantities:
    """numbers: `value` or `value|unit`. ordinals: whole numbers. dates: parts such as Y1776, M7, D4, W2, T17:00, t05:00 (morning or evening). rest: the other text.

    marked: the other text with a mark in each value's place.
    """

    numbers: list[str] = field(default_factory=list)
    ordinals: list[str] = field(default_factory=list)
    dates: list[str] = field(default_factory=list)
    rest: str = ""
    marked: str = ""
    marks: Marks = field(default_factory=Marks)


def extract(text: str, *, han: bool, marks: Marks | None = None) -> Quantities:
    """Return the quantities of an NFKC-normalised text. marks: of the values that are out of it already. Never raises."""
    found = Quantities(marks=marks or Marks())
    if han:
        # Before numerals become digits: in 周二 and 五一 the numeral is part of a name.
        text = _take_dates(text, found, _DATE_PATTERNS[15:16] + _DATE_PATTERNS[18:])
        text = _HAN_NUMBER.sub(_han_number, text)
    text = _HALF.sub("0.5 ", text)
    text = _TIMES.sub(lambda match: "2 times" if match[0][1] in "wW" else "3 times", text)
    text = _NUMBER_WORDS.sub(lambda match: _word_number(match, text), text)
    text = _ORDINALS.sub(lambda match: f"{en.ORDINAL_WORDS[match[0].lower()]}th", text)
    text = _SECOND.sub(lambda match: match[0][:-6] + "2nd", text)
    text = _NUMERAL.sub(_roman, text)
    # It stays in the text: more often than not it is a word like `last`.
    found.ordinals.extend("1" for _ in _FIRST.finditer(text))
    text = _take_dates(text, found, _DATE_PATTERNS)

    def version(match: re.Match[str]) -> str:
        found.numbers.append(match[1])
        return f" {found.marks.put('n', match[1])} "

    def number(match: re.Match[str]) -> str:
        return _take_number(match, found)

    found.marked = _NUMBER.sub(number, _VERSION.sub(version, text))
    found.rest = found.marks.taken_out(found.marked)
    return found


def _roman(match: re.Match[str]) -> str:
    numeral = match["plain"] or match["counted"] or match["regnal"]
    return f"{match['noun'] or match['name'] or ''}{_ROMAN[numeral.upper()]}th"


def _take_dates(text: str, found: Quantities, patterns: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], list[str]]], ...]) -> str:
    for pattern, parts in patterns:

        def take(match: re.Match[str], parts: Callable[[re.Match[str]], list[str]] = parts) -> str:
            taken = parts(match)
            found.dates.extend(taken)
            return f" {found.marks.put('d', ''.join(taken))} "

        text = pattern.sub(take, text)
    return text


def _date(year: str | None, month: str | None, day: str | None) -> list[str]:
    parts = []
    if year:
        parts.append(f"Y{year}")
    if month:
        parts.append(f"M{en.MONTHS.get(month.lower().rstrip('.'), month.lstrip('0'))}")
    if day:
        parts.append(f"D{day.lstrip('0')}")
    return parts


def _time(hour: str, minute: str | None, half: str) -> list[str]:
    value = int(hour)
    if half == "p" and value < 12:
        value += 12
    elif half == "a" and value == 12:
        value = 0
    # Without its half of the day a time up to twelve is either of two: t, not T.
    sign = "t" if half == "?" and value <= 12 else "T"
    return [f"{sign}{value:02d}:{int(minute or 0):02d}"]


def _day(name: str) -> str:
    if name in en.WEEKDAYS:
        return f"W{en.WEEKDAYS[name]}"
    if name in en.RELATIVE_DAYS:
        return f"R{en.RELATIVE_DAYS[name]}"
    return f"R{name.removesuffix('s') if name.startswith('week') else name}"


def _word_number(match: re.Match[str], text: str) -> str:
    words = [word for word in re.split(r"[\s-]+", match[0].lower()) if word != "and"]
    if any(word.endswith("s") and word != "dozens" and word not in en.NUMBER_WORDS for word in words):
        return match[0]
    if en.NUMBER_WORDS[words[0]] >= 100 and text[: match.start()].rstrip()[-1:].isdigit():
        return match[0]  # 1.5 million: the digits' pattern takes it
    if words == ["one"]:
        before = re.findall(r"[a-z']+", text[max(0, match.start() - 20) : match.start()].lower())
        after = re.match(r"\s+([a-z]+)", text[match.end() : match.end() + 20].lower())
        if (before and before[-1] in _NOT_A_NUMBER_BEFORE_ONE) or not after or after[1] not in units.UNITS:
            return match[0]
    total = current = 0
    for word in words:
        value = en.NUMBER_WORDS[word]
        if value >= 1000:
            total += max(current, 1) * value
            current = 0
        elif value == 100 or word == "dozen":
            current = max(current, 1) * value
        else:
            current += value
    return str(total + current)


def _han_number(match: re.Match[str]) -> str:  # noqa: PLR0911 — one return for each way a numeral is no number
    numeral, after = match["num"], match.string[match.end() : match.end() + 1]
    if match["share"]:
        return f"{han_value(numeral)}{_han_fraction(match['half'])}%"
    if match["ord"]:
        return f"{han_value(numeral)}th "
    if numeral[0] in "百千万亿":
        return match[0]
    if len(numeral) == 1 and (after not in zh.MEASURES or not after):
        return match[0]
    if numeral == "一" and after in "个位点种下样些起般直定次条件只名":
        return match[0]
    if numeral == "十" and after == "分" and match.string[match.end() : match.end() + 2] != "分钟":
        return match[0]
    if match["half"] and not (len(match["half"]) > 1 and after in "万亿倍个米公千元块度%"):
        # 九点三十: a time, not 9.3.
        return f"{han_value(numeral)}点{han_value(match['half'][1:])}"
    return f"{han_value(numeral)}{_han_fraction(match['half'])}"


def _han_fraction(text: str | None) -> str:
    return "." + "".join(str(zh.DIGITS[digit]) for digit in text[1:]) if text else ""


def han_value(numeral: str) -> int:
    """Return the value of Chinese numerals: 三千五百 = 3500, 三千五 = 3500, 二〇二四 = 2024."""
    if not any(char in zh.SCALES for char in numeral):
        return int("".join(str(zh.DIGITS[char]) for char in numeral))
    total = section = digit = 0
    scale = 1
    for char in numeral:
        if char in zh.DIGITS:
            digit = zh.DIGITS[char]
            if char in "零〇":
                scale = 10
            continue
        scale = zh.SCALES[char]
        if scale >= 10_000:
            total = (total + section + digit) * scale if total == 0 or section + digit else total * scale
            section = 0
        else:
            section += (digit or 1) * scale
        digit = 0
    trailing = digit * (scale // 10 if scale >= 100 and numeral[-1] in zh.DIGITS else 1)
    return total + section + trailing


def _take_number(match: re.Match[str], found: Quantities) -> str:
    digits, unit_text, scale_text = match["num"], match["unit"] or match["han"] or "", (match["scale"] or "").strip().lower()
    if match["ord"]:
        found.ordinals.append(digits)
        return f" {found.marks.put('o', digits)} {unit_text}"
    rest = ""
    unit = _unit(unit_text)
    if unit_text and not unit:
        rest, unit_text = " " + unit_text, ""
    if match["sign"] and not unit:
        unit = units.UNITS[match["sign"]][1]
    value = digits.replace(",", "") if "," in digits else digits
    plain = value.count(".") <= 1 and len(value) <= 24
    if scale_text and plain:
        value = _trim(f"{float(value) * _SCALES[scale_text]:.6f}")
    elif (unit or match["sign"]) and plain:
        value = _trim(value) if "." in value else value
    found.numbers.append(f"{value}|{unit}" if unit else value)
    return f" {found.marks.put('n', found.numbers[-1])} {rest} "


def _trim(value: str) -> str:
    return value.rstrip("0").rstrip(".") if "." in value else value


def _unit(text: str) -> str:
    name = text.strip().lstrip("-").lower().removeprefix("degrees ").removeprefix("degree ")
    if name in {"c", "f"} and text.strip().lower().startswith(("degree", "°")):
        name = "°" + name
    if name.startswith("square "):
        name = {"feet": "sqft", "foot": "sqft", "ft": "sqft", "kilometers": "km2", "kilometres": "km2", "km": "km2"}.get(name[7:], "m2")
    return units.UNITS[name][1] if name in units.UNITS else ""


def base(number: str) -> tuple[str, float] | None:
    """Return (dimension, value in its base unit) of `value|unit`, or None where the unit has no fixed factor."""
    value, _, unit = number.partition("|")
    dimension, factor = units.BY_CODE.get(unit, ("", 0.0))
    if not factor or value.count(".") > 1:
        return None
    return dimension, round(float(value) * factor, 9)

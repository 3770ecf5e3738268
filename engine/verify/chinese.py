"""Terms, names, negation and roles of a Chinese text, without a segmenter: longest match over lists, then single characters."""

from __future__ import annotations

import re
from typing import Any

from engine.verify import acts, light_zh, names, units
from engine.verify import lexicon_zh as lexicon

_TOKEN = re.compile(r"[\u4e00-\u9fff]|[A-Za-z][A-Za-z0-9+#]*|\d+(?:\.\d+)*|[^\W\d_]+")
_LATIN = re.compile(r"[A-Za-z][A-Za-z0-9+#]{1,40}")
_PERSON = re.compile(rf"(?:[{names.SURNAMES}](?:{names.TITLES}))")
_FROM_TO = re.compile(
    r"[从由](.{1,12}?)(?:迁移到|升级到|降级到|切换到|翻译成|转换成|换算成|飞往|飞到|迁到|换到|换成|转到|转成|传到|移到|到|飞|去|往|至)(.{1,12}?)"
    r"(?=要|怎|多|的|需|有|如何|几|吗|[,，。？?！!]|$)"
)
_INTO = re.compile(
    r"(?:把|将)?([^把将从，。？?]{1,12}?)(?:怎么|如何|怎样)?(?:转换成|转换为|转化为|换算成|换算为|翻译成|兑换成|转成|换成|变成|改成|转为)(.{1,12}?)(?=要|怎|多|的|需|吗|[,，。？?！!]|$)"
)
_ASKED = {
    "place": re.compile("哪里|哪儿|什么地方|何处|在哪"),
    "person": re.compile("谁"),
    "duration": re.compile("多久|多长时间|几天|多少天|几小时|几个小时|几分钟|几年"),
    "price": re.compile("多少钱|费用|价格|什么价|收费"),
    "reason": re.compile("为什么|为何|为啥|什么原因|怎么回事|怎么会|是怎么形成"),
    "time": re.compile("什么时候|几点|何时|哪一?年|哪一?天|几月|几号|啥时候"),
    "way": re.compile("(?:怎么|如何|怎样)(?!会|样|回事|这么|那么|是|还|没|不|又)(?!.{0,8}(?:多久|多少))"),
    "thing": re.compile("^(?:请问)?(?:什么是|啥是)|(?:是什么|是啥)(?:意思)?[?？。]?$"),
}
_COMPOUNDS = dict.fromkeys((*lexicon.NOT_ANTONYMS, *names.CHINESE))
_TERMS: dict[str, tuple[str, ...] | None] = {**_COMPOUNDS, **lexicon.AXES}
_LONGEST = max(map(len, _TERMS))
_CANONICAL = {**lexicon.CANONICAL, **dict.fromkeys(lexicon.WHOLE)}
_SYNONYM = re.compile("|".join(sorted(map(re.escape, _CANONICAL), key=len, reverse=True)))
_FILLER = re.compile("|".join(sorted(map(re.escape, lexicon.FILLERS), key=len, reverse=True)))
_NOT_NEGATING = re.compile("|".join(sorted(map(re.escape, lexicon.NOT_NEGATING), key=len, reverse=True)))
_A_NOT_A = re.compile(r"([\u4e00-\u9fff])[不没]\1")
_NEGATOR = re.compile("|".join((*lexicon.NEGATORS, f"取消(?=.{{0,5}}?(?:{'|'.join(lexicon.UNDONE)}))")))
_QUANTIFIER = re.compile("|".join(sorted(map(re.escape, lexicon.QUANTIFIERS), key=len, reverse=True)))
_NAME = re.compile("|".join(map(re.escape, names.CHINESE)))
_UNIT = re.compile("|".join(name for name in units.HAN_UNITS if name not in units.NEEDS_NUMBER and len(name) > 1))


def read(text: str, rest: str, lang: str) -> dict[str, Any]:
    """Return the fields e, u, x, b, g, q, k, s, w, f, t, a of a text. rest: the text without its literals and quantities."""
    del lang
    rest = re.sub(r"\s+", "", rest)
    axes, singles = _axes(rest)
    starts, ends = _roles(re.sub(r"\s+", "", text))
    entities = [*_NAME.findall(rest), *_PERSON.findall(rest), *(word.lower() for word in _LATIN.findall(rest))]
    return {
        "e": entities,
        "u": sorted({units.UNITS[name][1] for name in _UNIT.findall(rest)}),
        "x": " ".join(sorted(axes)),
        "b": "".join(sorted(singles)),
        "g": len(_NEGATOR.findall(_A_NOT_A.sub("", _NOT_NEGATING.sub("", rest)))),
        "q": sorted({lexicon.QUANTIFIERS[word] for word in _QUANTIFIER.findall(rest)}),
        "k": sorted(kind for kind, pattern in _ASKED.items() if pattern.search(rest)),
        "s": " ".join(_TOKEN.findall(text.lower())),
        "w": " ".join(_TOKEN.findall(core(rest))),
        "r": " ".join(_TOKEN.findall(light_zh.without_question(core(text)))),
        "f": starts,
        "t": ends,
        "a": acts.chinese(rest),
    }


def core(text: str) -> str:
    """Return the text in canonical words and without those that carry no content."""
    text = _A_NOT_A.sub(r"\1", text.lower())
    return _FILLER.sub("", _SYNONYM.sub(lambda match: _CANONICAL[match[0]] or match[0], text))


def _axes(text: str) -> tuple[set[str], set[str]]:
    axes: set[str] = set()
    singles: set[str] = set()
    place = 0
    while place < len(text):
        for size in range(min(_LONGEST, len(text) - place), 0, -1):
            term = text[place : place + size]
            if term in _TERMS:
                codes = _TERMS[term]
                if size > 1 and codes:
                    axes.update(codes)
                elif codes:
                    singles.add(term)
                place += size
                break
        else:
            place += 1
    return axes, singles


def _roles(text: str) -> tuple[list[str], list[str]]:
    starts: list[str] = []
    ends: list[str] = []
    for pattern in (_FROM_TO, _INTO):
        for match in pattern.finditer(text):
            starts.append(match[1].removeprefix("怎么").removeprefix("如何"))
            ends.append(match[2])
    return sorted(set(starts) - set(ends)), sorted(set(ends) - set(starts))

"""Tokens, names, negation and roles of an English text; other languages in Latin and further scripts go through it too."""

# ruff: noqa: SIM905 — lists of words and patterns read, diff and are searched better as one text
from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from engine.verify import acts, names, units, wordnet
from engine.verify import lexicon_en as lexicon
from engine.verify.stems import stem

_TOKEN = re.compile(r"[\u4e00-\u9fff]|\d+(?:[.,:]\d+)*|[^\W\d_]+(?:[-'][^\W\d_]+)*|→(?=\s)|->")
_CAPITAL = re.compile(r"[A-Z][A-Za-z]+(?:'[a-z]+)?|[A-Z](?![A-Za-z'])")
_SENTENCE_END = frozenset('.!?:;\n"“(—-')
_CONTRACTIONS = {"won't": "will not", "can't": "can not", "cannot": "can not", "shan't": "shall not", "ain't": "is not", "let's": "let us"}
_MAX_PHRASE = 3
# Verbs that take their meaning from what follows: no synonyms of `create` and `receive`.
_LIGHT_VERBS = {
    form: verb
    for verb, forms in {"make": "make makes making made", "get": "get gets getting got gotten", "take": "take takes taking took taken",
                        "give": "give gives giving gave given", "find": "find finds finding found", "work": "work works working"}.items()
    for form in forms.split()
}  # fmt: skip
# How a question begins that wants to know how something is done; all of these are one.
_ONE = "(?:i|we|you|one|someone)"
_MANNER = "(?:way|ways|procedure|process|method|methods|steps|command|trick)"
_FRAME = re.compile(
    r"^(?:please\s+|hi,?\s+|hello,?\s+)?"
    r"(?:(?:can|could|would) you (?:please )?(?:tell|show|explain to|teach) me |(?:please )?(?:tell|show) me |explain )?"
    rf"(?:how (?:do|can|should|could|would|does|might) {_ONE}(?: go about)?|how (?:to|is it possible to)"
    rf"|is there (?:a|any) way (?:to|of|for me to)|what(?: is|'s| are) (?:the|a|some) (?:\w+ )?{_MANNER} (?:to|for|of)"
    r"|(?:i|we)(?: would|'d)? (?:want|need|like) to know how to|what (?:do|should|must) i (?:need to |have to )?do (?:to|if i want to)"
    r"|(?:what|which) steps (?:do i need to|should i) take to)\s+"
)
_SKIP = frozenset("a an the my your our his her its their this that these those please any some exactly actually just really own".split())
PREPOSITIONS = frozenset(
    "in on at for with without from to into of by about as under over per via using between than like near which many much".split()
)
_TAG_QUESTION = re.compile(
    r",\s*(?:isn't|aren't|doesn't|don't|won't|can't|didn't|wasn't|right|no)(?:\s+(?:it|they|you|he|she|we|that))?\s*\??\s*$", re.I
)
_ROLE_END = frozenset("and or with for in on at by using via of how what when where is are do does if that which , then".split())

_ASKED = {
    "place": re.compile(r"\bwhere\b(?!as)"),
    "person": re.compile(r"\bwho(?:m|se)?\b(?! should i (?:call|contact))"),
    "duration": re.compile(r"\bhow (?:long|many (?:days|hours|minutes|weeks|months|years))\b"),
    "price": re.compile(r"\b(?:how much\b.*\b(?:cost|pay|charge)|price|fee)"),
    "reason": re.compile(r"\bwhy\b|\bwhat(?:'s| is| are)? (?:(?:the )?(?:reason|caus)|making\b|makes\b)|\bhow come\b"),
    "time": re.compile(
        r"^when\b|\b(?:by|since|until|from) when\b|\b(?:what|which) (?:time|year|day|date|month)\b(?! (?:complex|zone))"
        r"|\b(?:best|right) time (?:to|for|of)\b"
    ),
    "way": re.compile(r"^(?:please )?how (?:do|can|should|could|to|would) "),
    "thing": re.compile(
        r"^what(?:'s| is| are) (?!(?:the )?(?:reason|caus|wrong|making|going|point|purpose"
        r"|(?:\w+ )?(?:time|date|day|way|procedure|process|method|step)))"
    ),
}

# Function words by language: two of them, and more than of any other, name it. Their negators still count.
_FUNCTION_WORDS = {
    "en": "the a is are do does how what why when can i my to of in and for it you please which who where with this that should",
    "de": "der die das ist ein eine wie was und ich nicht mit für auf zu kann mein meine wo warum den dem im von bitte kein",
    "fr": "le la les est un une comment que et je ne pas avec pour sur mon ma où pourquoi du des dans puis-je quel quelle sont",
    "es": "el la los las es un una cómo como qué que y yo no con para mi dónde por en de del puedo cuál cuánto está hay sin",
    "pt": "o a os as é um uma como que e eu não com para meu minha onde por em do da posso qual quanto está há sem",
    "it": "il lo la gli è un una come che e io non con per mio mia dove perché in di del posso quale quanto sono",
    "nl": "de het een is hoe wat en ik niet met voor op mijn waar waarom kan van dat deze geen",
}
_FUNCTION = {code: frozenset(text.split()) for code, text in _FUNCTION_WORDS.items()}
_FOREIGN_NEGATORS = {
    "de": "nicht kein keine keinen keiner keinem keines ohne nie niemals nichts niemand",
    "fr": "pas sans jamais aucun aucune rien personne",
    "es": "no sin nunca jamás nada nadie ningún ninguna ninguno",
    "pt": "não sem nunca jamais nada ninguém nenhum nenhuma",
    "it": "non senza mai niente nessuno nessuna",
    "nl": "niet geen zonder nooit niets niemand",
    "ru": "не без нет никогда ничего никто нельзя",
    "ar": "لا ليس لن لم بدون غير",
    "hi": "नहीं न मत बिना",
    "el": "δεν μην χωρίς ποτέ",
    "he": "לא אין בלי אל",
    "": "no not non nicht kein ne pas sin sem não nie bez niet geen inte ikke ei değil không tidak",
}
_FOREIGN = {code: frozenset(text.split()) for code, text in _FOREIGN_NEGATORS.items()}
_INFIX_NEGATORS = {"ja": ("ない", "ません", "なく", "ぬ", "ずに", "不", "無", "非"), "ko": ("않", "없", "못", "안 ", "말고"), "th": ("ไม่",)}


def latin_language(words: Iterable[str]) -> str:
    counts = dict.fromkeys(_FUNCTION, 0)
    total = 0
    foreign = False
    for word in words:
        total += 1
        foreign = foreign or not word.isascii()
        for code, known in _FUNCTION.items():
            counts[code] += word in known
    best = max(counts, key=lambda code: counts[code])
    if counts[best] >= 2 and sum(value == counts[best] for value in counts.values()) == 1:
        return best
    # A letter with an accent and no English word beside it: Polish, Turkish, Vietnamese.
    return "en" if total and counts["en"] >= counts[best] and (counts["en"] or not foreign) else ""


def content(word: str) -> str:
    """Return the stem under which a content word is compared: of the first of its synonyms, and of the base form."""
    if word in _LIGHT_VERBS:
        return _LIGHT_VERBS[word]
    if word in lexicon.CANONICAL:
        return stem(lexicon.CANONICAL[word])
    word = wordnet.BASE.get(word, word)
    return stem(lexicon.CANONICAL.get(word, word))


def tokens(text: str) -> list[str]:
    """Return lower-case tokens with contractions opened and phrasal verbs joined (turn_on)."""
    found: list[str] = []
    for token in _TOKEN.findall(text.lower()):
        if token in _CONTRACTIONS:
            found.extend(_CONTRACTIONS[token].split())
        elif token.endswith("n't"):
            found.extend((token[:-3], "not"))
        elif token.endswith("'s"):
            found.append(token[:-2])
        else:
            found.append(token)
    return _join(found)


def _join(words: list[str]) -> list[str]:
    joined: list[str] = []
    place = 0
    while place < len(words):
        for size in range(_MAX_PHRASE, 1, -1):
            phrase = lexicon.PHRASES.get(" ".join(words[place : place + size]))
            if phrase:
                joined.append(phrase)
                place += size
                break
        else:
            joined.append(words[place])
            place += 1
    joined = _taken_out(joined)
    if joined and joined[-1] in {"on", "off"}:
        for place in range(len(joined) - 2, max(-1, len(joined) - 8), -1):
            whole = lexicon.SPLIT_PHRASES.get((joined[place], joined[-1]))
            if whole:
                return [*joined[:place], whole, *joined[place + 1 : -1]]
    return joined


def _taken_out(words: list[str]) -> list[str]:
    """Return the words with `get … out of` as one act."""
    for place, word in enumerate(words):
        if word in {"get", "take", "getting", "taking"}:
            for end in range(place + 2, min(place + 7, len(words) - 1)):
                if words[end] == "out" and words[end + 1] in {"of", "from"}:
                    return [*words[:place], "remove", *words[place + 1 : end], *words[end + 1 :]]
    return words


def read(text: str, rest: str, lang: str) -> dict[str, Any]:
    """Return the fields e, u, x, g, q, k, s, w, f, t, y, a of a text. rest: the text without its literals and quantities."""
    rest = _TAG_QUESTION.sub("?", rest)
    words = tokens(rest)
    entities = _names(rest, words)
    free = sum(1 for word in words if word.endswith("-free") or word.startswith("non-"))
    negators = lexicon.NEGATORS if lang in {"en", ""} else _FOREIGN.get(lang, frozenset())
    if lang == "":
        negators = negators | _FOREIGN[""]
    lowered = rest.lower()
    negation = sum(1 for word in words if word in negators) + free + sum(lowered.count(part) for part in _INFIX_NEGATORS.get(lang, ()))
    negation -= sum(1 for phrase in lexicon.NOT_NEGATING if phrase in lowered)
    axes = sorted({code for word in words for code in lexicon.AXES.get(word, ())})
    starts, before, ends = _roles(words)
    places = [place for place, word in enumerate(words) if word not in lexicon.STOP and word not in lexicon.NEGATORS]
    return {
        "e": entities,
        "u": sorted({units.UNITS[word][1] for word in words if word in units.UNITS and word not in units.NEEDS_NUMBER}),
        "x": " ".join(axes),
        "g": max(0, negation),
        "q": sorted({lexicon.QUANTIFIERS[word] for word in words if word in lexicon.QUANTIFIERS}),
        "k": asked(lowered) if lang in {"en", ""} else [],
        "s": " ".join(tokens(text)),
        "w": " ".join(content(words[place]) for place in places),
        "j": " ".join(_slots(words, places)),
        "r": " ".join(content(word) for word in tokens(_FRAME.sub("how ", text.lower().strip())) if word not in _SKIP),
        "f": starts,
        "t": ends,
        "y": before,
        "a": acts.english(words) if lang in {"en", ""} else [],
    }


def asked(lowered: str) -> list[str]:
    """Return what the text asks for, of the few kinds whose answers never serve each other."""
    return sorted(kind for kind, pattern in _ASKED.items() if pattern.search(lowered))


def _names(rest: str, words: list[str]) -> list[str]:
    """Return capitalised words inside sentences, acronyms, and known names in any case."""
    found = [word for word in words if word in names.ENGLISH and word not in names.AMBIGUOUS]
    capitals = list(_CAPITAL.finditer(rest))
    # Title Case and SHOUTING say nothing about names.
    if len(words) >= 4 and len(capitals) > 0.6 * len(words):
        return found
    for match in capitals:
        word = match[0].split("'")[0]
        before = rest[: match.start()].rstrip()
        starts = not before or before[-1] in _SENTENCE_END
        if word == "I" or (starts and not (word.isupper() and len(word) > 1)):
            continue
        found.append(word.lower())
    return found


def _slots(words: list[str], places: list[int]) -> list[str]:
    """Return what stands before and after each content word, articles left out: `before|after`; ^ and $ are the text's ends."""
    found = []
    for place in places:
        left = next((word for word in reversed(words[:place]) if word not in _SKIP), "^")
        right = next((word for word in words[place + 1 :] if word not in _SKIP), "$")
        found.append(f"{_neighbour(left)}|{_neighbour(right)}")
    return found


def _neighbour(word: str) -> str:
    """Return a content word's form, a preposition as it is, and other words marked: alone they say nothing of a slot."""
    if word in PREPOSITIONS:
        return word
    return "." + word if word in lexicon.STOP or word in {"^", "$"} else content(word)


def _roles(words: list[str]) -> tuple[list[str], list[str], list[str]]:
    """Return the content words after from, before to, and after to (from A to B, A to B, into B, A -> B)."""
    starts: list[str] = []
    earlier: list[str] = []
    ends: list[str] = []
    for place, word in enumerate(words):
        if word == "from":
            starts.extend(_after(words, place))
        elif word in {"to", "into", "->", "→"}:
            after = _after(words, place)
            if after:
                ends.extend(after)
                before = [w for w in words[max(0, place - 3) : place] if w not in lexicon.STOP]
                earlier.extend(content(w) for w in before)
    both = (set(starts) | set(earlier)) & set(ends)
    return sorted(set(starts) - both), sorted(set(earlier) - both), sorted(set(ends) - both)


def _after(words: list[str], place: int) -> list[str]:
    found = []
    for word in words[place + 1 : place + 5]:
        if word in _ROLE_END or word in {"from", "to", "into"}:
            break
        if word not in lexicon.STOP:
            found.append(content(word))
    return found

"""English words that turn an answer round: antonyms by axis, negators, quantifiers, synonyms. Written for this project."""

# ruff: noqa: E501, SIM905 — lists of words and patterns read, diff and are searched better as one text
from __future__ import annotations

from collections.abc import Iterator

from engine.verify.antonyms_en import ANTONYMS
from engine.verify.synonyms_en import SYNONYMS

PHRASES: dict[str, str] = {
    "turn on": "turn_on", "turned on": "turn_on", "turning on": "turn_on", "switch on": "switch_on", "switching on": "switch_on",
    "turn off": "turn_off", "turned off": "turn_off", "turning off": "turn_off", "switch off": "switch_off", "shut off": "turn_off",
    "log in": "log_in", "logging in": "log_in", "sign in": "sign_in", "signing in": "sign_in", "sign up": "sign_up",
    "log out": "log_out", "logging out": "log_out", "sign out": "sign_out", "signing out": "sign_out", "log off": "log_off",
    "check in": "check_in", "check out": "check_out", "clock in": "clock_in", "clock out": "clock_out", "opt in": "opt_in",
    "opt out": "opt_out", "zoom in": "zoom_in", "zoom out": "zoom_out", "move in": "move_in", "move out": "move_out",
    "plug in": "plug_in", "speed up": "speed_up", "slow down": "slow_down", "go up": "go_up", "went up": "went_up",
    "go down": "go_down", "went down": "went_down", "going up": "going_up", "going down": "going_down", "at least": "at_least",
    "at most": "at_most", "no more than": "at_most", "no less than": "at_least", "up to": "at_most", "more than": "more_than",
    "less than": "less_than", "fewer than": "less_than", "no one": "no_one", "no longer": "stop", "not any more": "stop",
    "not remember": "forget", "set up": "set_up", "a lot": "many", "a few": "a_few", "lots of": "many", "as well": "also",
    "such as": "like", "breathe in": "breathe_in", "breathe out": "breathe_out", "whether or not": "whether", "not only": "also",
    "for loop": "for_loop", "for loops": "for_loop", "while loop": "while_loop", "while loops": "while_loop",
    "get a copy": "download", "fade in": "fade_in", "fade out": "fade_out", "lose to": "lose_to", "ok": "safe", "get rid of": "remove", "give up": "stop", "give me": "tell",
    "gets rid of": "remove", "getting rid of": "remove", "got rid of": "remove", "help against": "treat", "helps against": "treat", "help with": "treat",
    "on board": "on", "put in": "enter", "type in": "enter", "not working": "broken", "not work": "broken", "stopped working": "broken",
    "stops working": "broken", "no longer works": "broken", "no longer working": "broken", "no longer work": "broken", "fails to": "not",
    "failed to": "not", "fail to": "not", "refuses to": "not", "find out": "know", "in order to": "to", "be able to": "can", "as soon as": "when",
    "take part": "join", "fill in": "complete", "fill out": "complete", "pick up": "collect", "throw away": "discard", "carry out": "do",
    "deal with": "handle", "take care of": "handle", "look for": "search", "call off": "cancel", "put off": "postpone", "hand in": "submit",
    "get in touch with": "contact", "come back": "return", "send back": "return", "give back": "return", "bring back": "return",
    "not have to": "optional", "right now": "now", "be taught": "learn", "not forget": "remember", "teach me": "learn", "do you sell": "buy", "prior to": "before", "lead to": "lead_to", "leads to": "lead_to", "leading to": "lead_to", "in stock": "in_stock", "out of stock": "out_of_stock", "sold out": "out_of_stock", "all right": "fine", "at all": "ever", "after all": "still",
}  # fmt: skip

# "turn the radio on": the particle stands at the end of the clause.
SPLIT_PHRASES = {("turn", "on"): "turn_on", ("turn", "off"): "turn_off", ("switch", "on"): "switch_on", ("switch", "off"): "switch_off"}

NEGATORS = frozenset(
    "not no never without none nobody nothing nowhere neither nor cannot no_one unable lacking lack lacks hardly barely except".split()
)
# What looks like a negation and is none.
NOT_NEGATING = ("no problem", "no matter", "no doubt", "if not", "or not", "not sure", "i don't know", "don't worry", "no.")

QUANTIFIERS: dict[str, str] = {
    **dict.fromkeys("all every each everyone everybody everything entire".split(), "all"),
    **dict.fromkeys("some several certain someone somebody a_few few part".split(), "some"),
    **dict.fromkeys("any anyone anybody anything".split(), "any"),
    **dict.fromkeys("none nobody nothing no_one".split(), "none"),
    **dict.fromkeys("only solely exclusively".split(), "only"),
    **dict.fromkeys("most mostly majority".split(), "most"),
    **dict.fromkeys("both".split(), "both"),
    **dict.fromkeys("either".split(), "either"),
    **dict.fromkeys("neither".split(), "neither"),
    **dict.fromkeys("always constantly".split(), "always"),
    **dict.fromkeys("sometimes occasionally".split(), "sometimes"),
    **dict.fromkeys("never".split(), "never"),
    **dict.fromkeys("often usually frequently".split(), "often"),
    **dict.fromkeys("rarely seldom".split(), "rarely"),
    "at_least": "at_least",
    "at_most": "at_most",
    "more_than": "more_than",
    "less_than": "less_than",
    "half": "half",
    "before": "before",
    "after": "after",
    "while": "during",
    "during": "during",
}  # fmt: skip

# Words that carry no content of their own in a question; they never count as substituted or added.
STOP = frozenset(
    """a an the of to in on at for by with from into as is are was were be been being am do does did done doing have has had having
    i me my mine we us our you your he him his she her it its they them their this that these those there here who whom whose which what
    when where why how can could shall should will would may might must ought and or but if then than so because while about please tell
    give show explain describe want need like know let get got way ways best some any one ones thing things go going make just also
    really very much many more long possible would process procedure steps step method help i'd i'm i've it's what's that's there's
    let's who's where's how's s d ve re ll t m ok okay hi hello thanks thank now currently out up off using use exactly mean meaning
    define definition difference vs versus differ hey sorry guys thx pls plz btw thanks""".split()
)

NUMBER_WORDS: dict[str, int] = {
    "zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10,
    "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16, "seventeen": 17, "eighteen": 18,
    "nineteen": 19, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90,
    "hundred": 100, "thousand": 1000, "million": 1_000_000, "billion": 1_000_000_000, "trillion": 1_000_000_000_000, "dozen": 12,
}  # fmt: skip
ORDINAL_WORDS: dict[str, int] = {
    "third": 3, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7, "eighth": 8, "ninth": 9, "tenth": 10, "eleventh": 11,
    "twelfth": 12, "thirteenth": 13, "fourteenth": 14, "fifteenth": 15, "twentieth": 20, "hundredth": 100,
}  # fmt: skip
MONTHS: dict[str, int] = {
    name: number
    for number, names in enumerate(
        ("january jan", "february feb", "march mar", "april apr", "may", "june jun", "july jul", "august aug", "september sept sep",
         "october oct", "november nov", "december dec"), start=1)
    for name in names.split()
}  # fmt: skip
WEEKDAYS: dict[str, int] = {
    name: number
    for number, names in enumerate(
        ("monday mondays mon", "tuesday tuesdays tue tues", "wednesday wednesdays wed", "thursday thursdays thu thurs",
         "friday fridays fri", "saturday saturdays", "sunday sundays"), start=1)
    for name in names.split()
}  # fmt: skip
RELATIVE_DAYS = {"today": "0", "tomorrow": "1", "yesterday": "-1", "tonight": "0n"}
DAY_NAMES = frozenset(
    """weekend weekends weekday weekdays christmas easter halloween thanksgiving ramadan hanukkah diwali
    autumn summer winter""".split()
)


def forms(word: str) -> Iterator[str]:
    """Yield the word and its regular inflections; some are no words, and match nothing."""
    yield word
    if "_" in word or len(word) < 3:
        return
    yield from (word + "s", word + "ed", word + "ing")
    last = word[-1]
    if last == "e":
        yield from (word + "d", word[:-1] + "ing", word + "r", word + "st")
    elif last == "y" and word[-2] not in "aeiou":
        yield from (word[:-1] + "ies", word[:-1] + "ied", word[:-1] + "ier", word[:-1] + "iest", word[:-1] + "ily")
    elif last in "sxz" or word.endswith(("ch", "sh")):
        yield word + "es"
    if last not in "aeiouwxy" and word[-2] in "aeiou" and word[-3] not in "aeiou":
        yield from (word + last + "ed", word + last + "ing", word + last + "er", word + last + "est")


def _axes() -> dict[str, tuple[str, ...]]:
    found: dict[str, set[str]] = {}
    bases = {word for line in ANTONYMS.split("\n") for word in line.replace("|", " ").split()}
    for number, line in enumerate(ANTONYMS.strip().split("\n")):
        for sign, side in zip("+-", line.split("|"), strict=True):
            for word in side.split():
                for form in forms(word):
                    if form == word or form not in bases:
                        found.setdefault(form, set()).add(f"{number}{sign}")
    return {form: tuple(sorted(codes)) for form, codes in found.items()}


def _canonical() -> dict[str, str]:
    groups = [group.split() for group in SYNONYMS.replace("\n", "|").split("|") if group.strip()]
    return {form: group[0] for group in reversed(groups) for word in group for form in forms(word)}


AXES = _axes()
CANONICAL = _canonical()


def pair_count() -> int:
    """Return how many antonym pairs the axes hold."""
    return sum(len(left.split()) * len(right.split()) for left, right in (line.split("|") for line in ANTONYMS.strip().split("\n")))

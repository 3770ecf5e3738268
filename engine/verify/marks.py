"""The rules over signs and over the case of letters: what a text says without a word."""

from __future__ import annotations

from engine.verify import letters, units
from engine.verify.compare import Parse

_MONEY = tuple(f"|{code}" for code, (dimension, _) in units.BY_CODE.items() if dimension == "money")


def sign(left: Parse, right: Parse) -> str:
    """The signs outside sentence punctuation are not the same, in their order and with what stands beside them."""
    mine, theirs = left.get("m", []), right.get("m", [])
    if mine != theirs:
        first, second = ([span for span in side if span not in other] or side for side, other in ((mine, theirs), (theirs, mine)))
        return f"{' '.join(first) or '-'} / {' '.join(second) or '-'}"
    pictures, pictures2 = left.get("i", []), right.get("i", [])
    if pictures and pictures2 and pictures != pictures2:
        return f"{' '.join(pictures)} / {' '.join(pictures2)}"
    return _percent(left, right) or _percent(right, left) or _money(left, right)


def _money(left: Parse, right: Parse) -> str:
    """One amount in two currencies; ¥ is of two countries."""
    amounts, amounts2 = (dict(number.split("|", 1) for number in side.get("n", []) if number.endswith(_MONEY)) for side in (left, right))
    for value in sorted(amounts.keys() & amounts2.keys()):
        one, other = amounts[value], amounts2[value]
        if one != other and not ("yuanyen" in {one, other} and {one, other} & {"cny", "jpy"}):
            return f"{value} {one} / {value} {other}"
    return ""


def _percent(left: Parse, right: Parse) -> str:
    """A share of a hundred here, the bare number there."""
    numbers = right.get("n", [])
    for number in left.get("n", []):
        value, _, unit = number.partition("|")
        if unit == "percent" and number not in numbers and value in numbers:
            return f"{value}% / {value}"
    return ""


def case(left: Parse, right: Parse) -> str:
    """A unit that its case decides: Mb and MB, mW and MW."""
    return letters.differ(left.get("c", []), right.get("c", []))


def capital(left: Parse, right: Parse) -> str:
    """A word that is another one with a capital: Polish and polish, IT and it."""
    return letters.differ(left.get("p", []), right.get("p", []))

"""A dial: one number, with what it is made of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Dial:
    """change: words; good: whether that change is welcome (None = neither). spark: its course in blocks. age: of a figure computed before.

    What the number is stands in `definitions`, by the label. help: what to add to it for this one value.
    """

    label: str
    value: str
    detail: str = ""
    change: str = ""
    good: bool | None = None
    help: str = ""
    spark: str = ""
    age: str = ""

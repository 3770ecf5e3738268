"""A dial: one number, with what it is made of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Dial:
    """change: words; good: whether that change is welcome (None = neither). help: how it is computed. spark: its course in blocks."""

    label: str
    value: str
    detail: str = ""
    change: str = ""
    good: bool | None = None
    help: str = ""
    spark: str = ""

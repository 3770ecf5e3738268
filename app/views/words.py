"""Numbers and times in words, and tenants' text made safe to read. Plain text out: whoever draws it escapes for his medium."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from app.analysis.intervals import Difference, Share

OUTCOME_NAMES = {
    "exact_hit": "exact hit",
    "semantic_hit": "semantic hit",
    "partial_hit": "partial hit",
    "stale_hit": "stale hit",
    "coalesced": "coalesced",
    "miss": "miss",
    "bypass": "bypass",
    "error": "error",
}
NO_DATA = "no data"
UNNAMED = "(not recorded)"


def percent(share: Share | None) -> str:
    """Return `61.2 %`, or `no data`."""
    return NO_DATA if share is None else ratio(share.ratio)


def ratio(value: float) -> str:
    """Return a 0…1 ratio as a percentage; never rounds something to nothing or to everything."""
    shown = f"{value * 100:.1f}"
    if (shown == "0.0" and value > 0) or (shown == "100.0" and value < 1):
        return "< 0.1 %" if shown == "0.0" else "> 99.9 %"
    return f"{shown} %"


def interval(share: Share | None) -> str:
    """Return `58.9–63.4 %`, or `no data`."""
    return NO_DATA if share is None else f"{share.low_ratio * 100:.1f}–{share.high_ratio * 100:.1f} %"


def points(change: Difference | float) -> str:
    """Return a difference of ratios in percentage points: `+1.2 points`."""
    value = change if isinstance(change, float) else change.ratio
    return f"{value * 100:+.1f} points".replace("-", "−")


def count(value: int) -> str:
    return f"{value:,}"


def many(value: int, one: str, several: str) -> str:
    """Return `1 entry`, `1,234 entries`."""
    return f"{count(value)} {one if value == 1 else several}"


def money(usd: float | None) -> str:
    """Return US dollars with as many digits as it takes to see something."""
    if usd is None:
        return NO_DATA
    digits = 2 if abs(usd) >= 1 or usd == 0 else 4 if abs(usd) >= 0.01 else 6
    return f"{'−' if usd < 0 else ''}${abs(usd):,.{digits}f}"


def duration_ms(value: float | None) -> str:
    """Return milliseconds as `0.42 ms`, `12 ms`, `1.23 s`, `2 min 5 s`; a negative one keeps its sign."""
    if value is None:
        return NO_DATA
    sign, length = ("−" if value < 0 else ""), abs(value)
    if not length:
        return "0 ms"
    if length < 10:
        return f"{sign}{length:.2f} ms"
    if length < 1_000:
        return f"{sign}{length:.0f} ms"
    return f"{sign}{length / 1000:.2f} s" if length < 60_000 else f"{sign}{age(length)}"


def size(count: int) -> str:
    """Return bytes in binary units: `96 B`, `1.5 KiB`."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def age(ms: float) -> str:
    """Return a length of time in its two largest units: `4 s`, `3 min 10 s`, `2 h 5 min`, `3 d 4 h`."""
    seconds = max(0, int(min(ms, 1e15) // 1000))  # thirty thousand years: a sender may say infinity
    for unit, name, small, below in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= unit:
            rest = seconds % unit // small
            return f"{seconds // unit} {name}" + (f" {rest} {below}" if rest else "")
    return f"{seconds} s"


def each(ms: float) -> str:
    """Return what follows `per`: `minute`, `5 min`, `hour`."""
    return {60_000: "minute", 3_600_000: "hour", 86_400_000: "day"}.get(int(ms), age(ms))


def instant(ms: float | None) -> str:
    """Return `2026-04-14 00:00:00`, UTC. Text and not a time value: a browser in another zone must not shift it."""
    return "" if ms is None else datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def clock(ms: float) -> str:
    """Return `14:05:09`, UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%H:%M:%S")


def span(start_ms: int, end_ms: int) -> str:
    """Return `2026-04-14 13:05 to 14:05 UTC`, the day once when it is the same."""
    start, end = datetime.fromtimestamp(start_ms / 1000, UTC), datetime.fromtimestamp(end_ms / 1000, UTC)
    tail = "%H:%M" if start.date() == end.date() else "%Y-%m-%d %H:%M"
    return f"{start:%Y-%m-%d %H:%M} to {end.strftime(tail)} UTC"


def readable(text: str, limit: int = 0) -> str:
    """Return text on which no control character acts: they are written out, line ends and tabs kept.

    Bidirectional overrides would reorder what stands around them. limit > 0 cuts, with an ellipsis.
    """
    cut = text if not limit or len(text) <= limit else text[: limit - 1].rstrip() + "…"
    return "".join(
        character if character in "\n\t" or unicodedata.category(character) not in {"Cc", "Cf", "Cs"} else _written_out(character)
        for character in cut
    )


def _written_out(character: str) -> str:
    # Joiners belong to how emoji and several scripts are written; they move nothing.
    return character if character in "\u200c\u200d" else f"⟨U+{ord(character):04X}⟩"


def one_line(text: str, limit: int = 80) -> str:
    """Return tenants' text for a cell or a sentence: one line, at most `limit` characters."""
    return readable(" ".join(text.split()), limit)


def name(text: str, limit: int = 48) -> str:
    """Return a namespace, tenant or model as it is shown: `(not recorded)` when empty."""
    return one_line(text, limit) if text else UNNAMED


_BLOCKS = "▁▂▃▄▅▆▇█"


def spark(values: Sequence[float | None], *, top: float, most: int = 15, weights: Sequence[float] | None = None) -> str:
    """Return the course of values in 0…top as block characters, the mean of each part; a dot where there is none.

    weights: above 0, of each value that is there, a ratio's n; None = all alike.
    """
    part = max(1, -(-len(values) // most))
    drawn = []
    weighed = list(zip(values, [1.0] * len(values) if weights is None else weights, strict=True))
    for at in range(0, len(values), part):
        known = [(value, weight) for value, weight in weighed[at : at + part] if value is not None]
        level = sum(value * weight for value, weight in known) / sum(weight for _, weight in known) / top if known and top > 0 else 0.0
        drawn.append(_BLOCKS[min(7, int(level * 8))] if known else "·")
    return "".join(drawn)


def listed(items: Iterable[str], *, most: int = 1_000) -> str:
    """Return `a`, `a and b`, `a, b and c`; of more than `most` items `a, b and 2 more`."""
    words = list(items)
    if len(words) > most:
        words[most:] = [f"{count(len(words) - most)} more"]
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + f" and {words[-1]}" if words else ""

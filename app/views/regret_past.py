"""The regret of earlier times: figures that the worker keeps of each analysis, to compare the newest with and to draw its course."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final

from app.analysis.regret import Ends, ends, ends_from_json, from_json, whole
from app.views import words
from app.views.parts import attempt
from storage import analyses
from storage.analyses import Analysis
from storage.store import Store

OPS = "Record of acts"
_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS
LENGTH_MS: Final = {"24h": _DAY_MS, "7d": 7 * _DAY_MS}
EVERY_MS: Final = {"24h": 600_000, "7d": _HOUR_MS}  # how often an analysis is made anew: a week changes little in ten minutes
MOST_NAMESPACES: Final = 50  # the busiest are analysed
# One of each namespace in this time is kept: the last. With 50 namespaces some 12,000 rows of 300 bytes at most.
STEP_MS: Final = {"24h": _HOUR_MS, "7d": 6 * _HOUR_MS}
KINDS: Final = {"24h": "regret_24h", "7d": "regret_7d"}
KEEP_MS: Final = {"regret_24h": 8 * _DAY_MS, "regret_7d": 15 * _DAY_MS}
NEAR: Final = 2  # steps: an analysis that ended so near the end of the period before counts as of it
NEAR_MS: Final = {horizon: NEAR * step for horizon, step in STEP_MS.items()}


@dataclass(frozen=True, slots=True)
class Point:
    """The regret of the namespaces asked for, over one horizon up to end_ms. namespaces: how many of them have one."""

    end_ms: int
    ends: Ends
    namespaces: int


def with_past(analysis: Analysis) -> list[Analysis]:
    """Return the analysis, and the figures of it that are kept when the next one takes its place."""
    if analysis.result is None or analysis.horizon not in KINDS:
        return [analysis]
    figures = asdict(ends(from_json(analysis.result)))
    hour = _slot(analysis.end_ms, analysis.horizon)
    return [analysis, replace(analysis, kind=KINDS[analysis.horizon], horizon=hour, parameters={}, result=figures)]


def _slot(at_ms: int, horizon: str) -> str:
    """Return the time in which one is kept, as text that sorts by time."""
    return words.instant(at_ms // STEP_MS[horizon] * STEP_MS[horizon])[:13]


def course(ops: Callable[[], Store], *, horizon: str, namespace: str | None, now_ms: int) -> tuple[Point, ...]:
    """Return the kept figures, oldest first; nothing when they cannot be read. namespace: None = all of them together."""
    first, last = (_slot(at, horizon) for at in (now_ms - KEEP_MS[KINDS[horizon]], now_ms))

    def read() -> list[Analysis]:
        with ops().read() as conn:
            return analyses.between(conn, kind=KINDS[horizon], first=first, last=last)

    kept = [one for one in attempt(OPS, read).value or () if namespace in {None, one.namespace}]
    return tuple(_points(kept, horizon))


def _points(kept: Iterable[Analysis], horizon: str) -> list[Point]:
    """Return one point a step. A namespace that was put off is there with its last figures, for as long as they are near."""
    found: dict[str, dict[int, tuple[int, Ends]]] = {}
    for one in kept:
        told = _ends(one.result)
        if told is not None:
            found.setdefault(one.namespace, {})[one.end_ms // STEP_MS[horizon]] = (one.end_ms, told)
    points = []
    for step in sorted({step for known in found.values() for step in known}):
        latest = (max((at for at in known if step - NEAR <= at <= step), default=None) for known in found.values())
        near = [known[at] for known, at in zip(found.values(), latest, strict=True) if at is not None]
        summed = whole(told for _, told in near)
        if summed is not None:
            points.append(Point(max(end_ms for end_ms, _ in near), summed, len(near)))
    return points


def _ends(stored: Mapping[str, object] | None) -> Ends | None:
    try:
        return None if stored is None else ends_from_json(stored)
    except (KeyError, TypeError, ValueError):
        return None  # of another version


def before(points: Sequence[Point], *, horizon: str, end_ms: int) -> Point | None:
    """Return the point of the period before the one that ended at end_ms; None when none is near enough."""
    wanted = end_ms - LENGTH_MS[horizon]
    nearest = min(points, key=lambda point: abs(point.end_ms - wanted), default=None)
    return nearest if nearest is not None and abs(nearest.end_ms - wanted) <= NEAR * STEP_MS[horizon] else None


def rows(points: Sequence[Point]) -> list[dict[str, object]]:
    """Return the course as a table, the newest first."""
    return [
        {
            "until (UTC)": words.instant(point.end_ms),
            "least": point.ends.ratios[0] * 100,
            "most": point.ends.ratios[1] * 100,
            "most, hits": round(point.ends.high.hits),
            "most, money": words.money(point.ends.high.usd),
            "n": point.ends.replayed,
            "namespaces": point.namespaces,
        }
        for point in reversed(points)
    ]


def spark(points: Sequence[Point], horizon: str) -> str:
    """Return the course of the most regret, as part of the lookups; '' for a single point. The highest block is the highest point."""
    known = {point.end_ms // STEP_MS[horizon]: point.ends.ratios[1] for point in points}
    if len(known) < 2:
        return ""
    return words.spark([known.get(at) for at in range(min(known), max(known) + 1)], top=max(known.values()))

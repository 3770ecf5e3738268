"""The window and scope that every read takes, and what there is to choose from in it.

A window is made of whole minutes, and every sum of it is read from rollups: totals, series and tables of one page then agree to the
lookup. Which rollups is decided here: by `stretches` how wide (hours where whole hours are asked for, minutes at the edges), by
`rollups` with how few dimensions, by `places` the rows by place. What no rollup has is read from a sample
that is even and always the same, by `every`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, cast

from sqlalchemy import ColumnElement, Connection, Select, Subquery, Table, and_, func, literal_column, not_, select, true, union_all

from storage.models import SAMPLE_STEPS, telemetry_metadata
from storage.reads import seeks
from storage.rollups import ELIGIBLE, HITS, NARROW, OUTCOMES, PLACE_SUMS, WIDTHS_MS
from storage.slots import PICKS

TEN_SECONDS_MS = 10_000
MINUTE_MS = 60_000
TEN_MINUTES_MS = 600_000
HOUR_MS = 3_600_000
MOST_CHOICES = 1_001  # of one kind: more than a list shows, so that it is seen that there are more
WHOLE_MS = 86_400_000  # the step of a caller that sums all of a window: whatever rollups there are divide it
_STEPS_MIN = (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1_440)
_MOST_BUCKETS = 75  # what a chart of 1,100 px can show as bars that stay apart


def _families() -> dict[str, dict[int, Table]]:
    """Return the tables of rollups by what stands before the width in their names, and by width."""
    found: dict[str, dict[int, Table]] = {}
    for name, width_ms in (*WIDTHS_MS.items(), *((name, narrow.width_ms) for name, narrow in NARROW.items())):
        found.setdefault(name.rpartition("_")[0], {})[width_ms] = telemetry_metadata.tables[name]
    return found


_FAMILIES: Final = _families()
_BY_ROW: Final = ("totals", "parts", "models", "tenants", "rollups")  # those with a row for each outcome, as a rule the fewest rows first
_COLUMNS: Final = {name: frozenset(next(iter(family.values())).c.keys()) for name, family in _FAMILIES.items()}
lookups: Table = telemetry_metadata.tables["lookups"]
picked: ColumnElement[int] = lookups.c.id % PICKS  # storage.slots.pick: a lookup's place among all, by its own ids
# The newest first; of one millisecond by their ids, not by who came first: what lies beyond a limit is then the same however they came.
NEWEST = (lookups.c.at_ms.desc(), lookups.c.trace_id, lookups.c.span_id)
senders: Table = telemetry_metadata.tables["sources"]
_removed: Table = telemetry_metadata.tables["removed"]


@dataclass(frozen=True, slots=True)
class Window:
    """[start_ms, end_ms), both whole minutes of UTC."""

    start_ms: int
    end_ms: int

    @classmethod
    def of(cls, start_ms: int, end_ms: int) -> Window:
        """Return the whole minutes that cover the given times; at least one."""
        start = start_ms // MINUTE_MS * MINUTE_MS
        return cls(start, max(start + MINUTE_MS, -(-end_ms // MINUTE_MS) * MINUTE_MS))

    @property
    def length_ms(self) -> int:
        return self.end_ms - self.start_ms

    @property
    def previous(self) -> Window:
        """The window of the same length that ends where this one starts."""
        return Window(self.start_ms - self.length_ms, self.start_ms)

    def shifted(self, by_ms: int) -> Window:
        """The window of the same length that starts this much earlier, to the minute."""
        by = by_ms // MINUTE_MS * MINUTE_MS
        return Window(self.start_ms - by, self.end_ms - by)

    @property
    def bucket_ms(self) -> int:
        """The width of a chart's bucket: ten seconds or whole minutes, at most 75 buckets."""
        if self.length_ms <= _MOST_BUCKETS * TEN_SECONDS_MS:
            return TEN_SECONDS_MS
        minutes = self.length_ms // MINUTE_MS
        step = next((step for step in _STEPS_MIN if minutes <= step * _MOST_BUCKETS), -(-minutes // _MOST_BUCKETS))
        return step * MINUTE_MS

    @property
    def buckets(self) -> tuple[int, ...]:
        """The start of every bucket that the window touches, aligned to the bucket's width."""
        return self.starts(self.bucket_ms)

    def starts(self, step_ms: int) -> tuple[int, ...]:
        """The start of every step that the window touches, aligned to the step's width."""
        return tuple(range(self.start_ms // step_ms * step_ms, self.end_ms, step_ms))


def coarse(window: Window, most: int) -> int:
    """Return a step that cuts the window into at most `most` parts: up to ten minutes, then whole hours, of which rollups are few."""
    minutes = max(1, -(-window.length_ms // (MINUTE_MS * most)))
    return minutes * MINUTE_MS if minutes <= 10 else -(-minutes // 60) * HOUR_MS


@dataclass(frozen=True, slots=True)
class Scope:
    """Which lookups. None = all; '' = those whose sender did not say. source: the sender's service name."""

    namespace: str | None = None
    tenant: str | None = None
    model: str | None = None
    tier: str | None = None
    purpose: str | None = "traffic"
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Choices:
    """The values that occur in a window, sorted."""

    namespaces: tuple[str, ...] = ()
    tenants: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    tiers: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()


def within(table: Table, window: Window, scope: Scope) -> ColumnElement[bool]:
    """Return the condition on a table of rollups or on `lookups` for a window and scope."""
    return and_(table.c.at_ms >= window.start_ms, table.c.at_ms < window.end_ms, *_of_scope(table, scope))


def beside_namespace(window: Window, scope: Scope) -> ColumnElement[bool]:
    """Return the same condition on `lookups`, kept away from the index by namespace, which has none of the columns that are counted."""
    if scope.namespace is None:
        return within(lookups, window, scope)
    return and_(within(lookups, window, replace(scope, namespace=None)), literal_column("+lookups.namespace") == scope.namespace)


def _of_scope(table: Table, scope: Scope) -> list[ColumnElement[bool]]:
    clauses: list[ColumnElement[bool]] = []
    for name in ("namespace", "tenant", "model", "tier", "purpose"):
        value = getattr(scope, name)
        if value is not None:
            clauses.append(table.c[name] == value)
    if scope.source is not None:
        clauses.append(table.c.source_id.in_(select(senders.c.id).where(senders.c.service == scope.source)))
    return clauses


class Stretch(NamedTuple):
    """Whole rollups of one width: [start_ms, end_ms)."""

    start_ms: int
    end_ms: int
    width_ms: int


class Horizons(NamedTuple):
    """What retention has left: nothing of a kind before its time; 0 = nothing was removed. hours are kept longest."""

    raw_ms: int = 0
    tens_ms: int = 0
    minutes_ms: int = 0
    hours_ms: int = 0


NOTHING_REMOVED = Horizons()
_KINDS = ("raw", "rollups_10s", "rollups_1m", "rollups_1h")


def horizons(conn: Connection) -> Horizons:
    """Return since when there is what."""
    found = {row.kind: row.before_ms for row in conn.execute(select(_removed.c.kind, _removed.c.before_ms))}
    return Horizons(*(found.get(kind, 0) for kind in _KINDS))


def stretches(window: Window, *, step_ms: int, left: Horizons = NOTHING_REMOVED, widths: Sequence[int] = (HOUR_MS,)) -> list[Stretch]:
    """Return the coarsest rollups whose sum is the window's, when it is cut into steps aligned to step_ms.

    widths: what there is beside minutes (and ten seconds, for finer steps), the widest first. Where only hours are left, those that lie
    wholly inside the window; with steps finer than that, they stand where they begin.
    """
    start, end = window.start_ms, window.end_ms
    wide = [width for width in widths if step_ms % width == 0]
    found: list[Stretch] = []
    if start < left.minutes_ms:
        start = min(_hour_after(start), end)
        end = end // HOUR_MS * HOUR_MS if end < left.minutes_ms else end
        # Hours cannot fill finer steps; they do where nothing else is left.
        gone = min(_hour_after(left.minutes_ms), end // HOUR_MS * HOUR_MS)
        found += _cut(start, gone, [*(width for width in wide if width > HOUR_MS), HOUR_MS])
        start = max(start, gone)
    fine = TEN_SECONDS_MS if step_ms < MINUTE_MS and start >= left.tens_ms else MINUTE_MS
    found += _cut(start, end, [*wide, fine])
    joined: list[Stretch] = []
    for part in found:
        if joined and joined[-1].width_ms == part.width_ms and joined[-1].end_ms == part.start_ms:
            joined[-1] = Stretch(joined[-1].start_ms, part.end_ms, part.width_ms)
        else:
            joined.append(part)
    return joined


def _cut(start: int, end: int, widths: Sequence[int]) -> list[Stretch]:
    """Return [start, end) from the widest rollups that fit, the finer ones at both edges."""
    if start >= end or not widths:
        return []
    width, finer = widths[0], widths[1:]
    first, last = -(-start // width) * width, end // width * width
    if not finer:
        return [Stretch(start, end, width)]
    if first >= last:
        return _cut(start, end, finer)
    return [*_cut(start, first, finer), Stretch(first, last, width), *_cut(last, end, finer)]


def _hour_after(at_ms: int) -> int:
    return -(-at_ms // HOUR_MS) * HOUR_MS


_SCOPED = {"namespace": "namespace", "tenant": "tenant", "model": "model", "tier": "tier", "purpose": "purpose", "source": "source_id"}


def _answering(scope: Scope, columns: Sequence[str], among: Sequence[str]) -> list[dict[int, Table]]:
    """Return those of these families that have every column asked for and every one that the scope narrows by."""
    needed = {*columns, *(column for name, column in _SCOPED.items() if getattr(scope, name) is not None)}
    return [_FAMILIES[name] for name in among if needed <= _COLUMNS[name]]


def _placing(scope: Scope, columns: Sequence[str], step_ms: int) -> list[dict[int, Table]]:
    """Return the families that outcomes side by side are read from, as a rule the fewest rows first.

    Those with a row for each outcome go before places only where more than their minutes is fine enough, and no model is asked for.
    """
    rows = _answering(scope, columns, _BY_ROW)
    by_model = _answering(scope, columns, ("prices",))
    of_model = scope.model is not None or "model" in columns
    if not (by_model and of_model) and len(rows) > 1 and any(step_ms % width == 0 for width in rows[0] if width > MINUTE_MS):
        return rows
    if rows[0] in (_FAMILIES["totals"], _FAMILIES["parts"]):  # as few however many tenants there are
        return [*by_model, *rows]
    return [*by_model, *_answering(scope, columns, ("places",)), *rows]


def rollups(
    conn: Connection, window: Window, scope: Scope, columns: Sequence[str], *, step_ms: int = WHOLE_MS, kind: str | None = None
) -> Subquery:
    """Return the window's rollups of the scope, as few as answer it exactly, with `at_ms` and the given columns.

    step_ms: the width of the steps that the caller sums by; WHOLE = one sum of all. kind: of this cache kind only.
    """
    return _read(conn, window, scope, columns, _answering(scope, columns, _BY_ROW), step_ms=step_ms, kind=kind, name="rollups")


def by_places(scope: Scope, columns: Sequence[str] = (), *, step_ms: int = WHOLE_MS) -> bool:
    """Return whether counts by outcome and these columns are fewer rows by place than by rollup, in steps of this width."""
    fewest = _placing(scope, columns, step_ms)[0]
    return (scope.tenant is not None or scope.model is not None) and any(fewest is _FAMILIES[name] for name in ("prices", "places"))


def places(
    conn: Connection,
    window: Window,
    scope: Scope,
    columns: Sequence[str],
    *,
    step_ms: int,
    kind: str | None,
    sums: Sequence[str] = PLACE_SUMS,
    only: Sequence[tuple[str, ...]] = (),
) -> Subquery:
    """Return the window's rows by place (PLACE_SUMS) with `at_ms` and these dimensions of `namespace`, `tenant` and `model`.

    only: the rows with these values of the columns; () = all. Where other rollups are fewer rows, the scope narrows by what places do
    not have, or a stretch is shorter than theirs, they are made of the rollups.
    """
    families = _placing(scope, columns, step_ms)
    return _read(conn, window, scope, columns, families, step_ms=step_ms, kind=kind, name="places", sums=sums, only=only)


def _read(
    conn: Connection,
    window: Window,
    scope: Scope,
    columns: Sequence[str],
    families: Sequence[dict[int, Table]],
    *,
    step_ms: int,
    kind: str | None,
    name: str,
    sums: Sequence[str] = (),
    only: Sequence[tuple[str, ...]] = (),
) -> Subquery:
    """Return the rows of each stretch of the window from the first of the families that has its width; the last of them has every one.

    sums: of PLACE_SUMS.
    """
    widths = sorted((width for width in families[0] if width > MINUTE_MS), reverse=True)
    wanted = (("namespace", scope.namespace), ("tenant", scope.tenant), ("purpose", scope.purpose), ("cache_kind", kind))
    fixed = {name: value for name, value in wanted if value is not None}
    known = seeks.of(conn, window.start_ms, window.end_ms) if fixed.keys() & {"namespace", "tenant"} else None
    parts: list[Select[Any]] = []
    for part in stretches(window, step_ms=step_ms, left=horizons(conn), widths=widths) or [Stretch(0, 0, HOUR_MS)]:
        table = next(family[part.width_ms] for family in families if part.width_ms in family)
        clauses = [table.c.at_ms >= part.start_ms, table.c.at_ms < part.end_ms, *_of_scope(table, scope)]
        if kind is not None:
            clauses.append(table.c.cache_kind == kind)
        if only:
            clauses += seeks.any_of(table, range(*part), columns, only)
        elif known:
            clauses += seeks.sought(known, table, range(*part), fixed)
        values = _side_by_side(table) if sums and "outcome" in table.c else table.c
        shown = [values[one].label(one) for one in sums]
        parts.append(select(table.c.at_ms, *(table.c[one] for one in columns), *shown).where(*clauses))
    return (union_all(*parts) if len(parts) > 1 else parts[0]).subquery(name)


def _side_by_side(table: Table) -> dict[str, ColumnElement[int]]:
    """Return a rollup's sums as those of a place."""
    outcome, tokens = table.c.outcome, table.c.input_tokens + table.c.output_tokens
    hit, eligible = outcome.in_(HITS), outcome.in_(ELIGIBLE)
    return {
        **{name: func.iif(outcome == name, table.c.lookups, 0) for name in OUTCOMES},
        "hit_tokens": func.iif(hit, tokens, 0),
        "tokens": func.iif(eligible, tokens, 0),
        "saved_nusd": func.iif(hit, table.c.saved_nusd, 0),
        "spent_nusd": func.iif(and_(eligible, not_(hit)), table.c.cost_nusd, 0),
        "hits_priced": func.iif(hit, table.c.saved_usd_n, 0),
        "misses_priced": func.iif(outcome == "miss", table.c.cost_n, 0),
    }


def every(number: int) -> int:
    """Return how many lookups there are to one that is read, when only each `number`-th may be: itself, or a multiple that has an index."""
    step = next((step for step in reversed(SAMPLE_STEPS) if step <= number), 1)
    return step * -(-max(1, number) // step)


def sampled(number: int) -> ColumnElement[bool]:
    """Return the condition that one lookup in `number` meets, by its own ids. number: of `every`."""
    if number == 1:
        return true()
    whole = picked % number == 0
    step = next((step for step in reversed(SAMPLE_STEPS) if number % step == 0), None)
    if step is None:
        return whole
    # In so many words: an index of a part of the rows is used only where its own condition stands. It divides the number of places.
    part = cast(ColumnElement[bool], literal_column(f"lookups.id % {step} = 0"))
    return part if step == number else and_(part, whole)


def choices(conn: Connection, window: Window) -> Choices:
    """Return the namespaces, tenants, models, tiers and senders with lookups in the window: MOST_CHOICES of each at most, any of them."""
    every, named = Scope(purpose=None), ("namespace", "tenant", "model")
    sides = [places(conn, window, every, (name,), step_ms=WHOLE_MS, kind=None, sums=()).c[name] for name in named]
    once = [conn.execute(select(side).distinct().limit(MOST_CHOICES)).scalars().all() for side in sides]
    found = rollups(conn, window, every, ("tier", "source_id"))
    parts = select(found.c.tier, found.c.source_id).distinct().subquery()
    rest = conn.execute(select(parts.c.tier, senders.c.service).join_from(parts, senders, senders.c.id == parts.c.source_id)).all()
    columns = [*once, *([row[index] for row in rest] for index in range(2))]
    return Choices(*(tuple(sorted(set(values))) for values in columns))


def newest_from(conn: Connection, window: Window, scope: Scope, number: int) -> int:
    """Return the time from which on the window holds its newest `number` lookups of the scope; its start where it has no more."""
    query = select(lookups.c.at_ms).where(within(lookups, window, scope)).order_by(lookups.c.at_ms.desc()).limit(1).offset(number)
    at_ms = conn.execute(query).scalar()
    return window.start_ms if at_ms is None else int(at_ms)


@dataclass(frozen=True, slots=True)
class Extent:
    """The first and last lookup stored, of any purpose. None = there is none at all.

    ahead_ms: the last of those dated after now, by a clock that is wrong; None = there is none. last_ms leaves them out.
    """

    first_ms: int | None
    last_ms: int | None
    ahead_ms: int | None = None


def extent(conn: Connection, now_ms: int) -> Extent:
    """Return when the stored lookups begin and end. Three index probes, however many there are. A clock may be a minute fast."""
    at = lookups.c.at_ms
    first = conn.execute(select(func.min(at))).scalar()
    last = conn.execute(select(func.max(at)).where(at <= now_ms + MINUTE_MS)).scalar()
    ahead = conn.execute(select(func.max(at)).where(at > now_ms + MINUTE_MS)).scalar()
    return Extent(first, last, ahead)

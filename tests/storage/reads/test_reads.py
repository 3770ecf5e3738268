"""Reads of a seeded telemetry database: totals, series and lists agree with a plain scan of its lookups."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import func, select, text

from storage import spans
from storage.reads import hit_rate, overview, places, sources, traces, window
from storage.reads.traces import Search
from storage.reads.window import HOUR_MS, MINUTE_MS, Scope, Window
from storage.rollups import OUTCOMES
from storage.rows import LookupRow, SourceBatch
from storage.store import Store
from tests.support import telemetry

NOW = 1_775_000_000_000


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    opened = telemetry.open_store(Path(tmp_path_factory.mktemp("reads")))
    telemetry.seed(opened, now_ms=NOW, hours=2, per_minute=12)
    yield opened
    opened.close()


def _plain(store: Store, shown: Window, where: str = "1") -> Counter[str]:
    with store.read() as conn:
        rows = conn.execute(
            text(f"SELECT outcome, count(*) FROM lookups WHERE at_ms >= :a AND at_ms < :b AND {where} GROUP BY outcome"),
            {"a": shown.start_ms, "b": shown.end_ms},
        )
        return Counter({row.outcome: row[1] for row in rows})


@pytest.mark.parametrize("minutes", [15, 60, 110])
def test_cells_and_series_equal_a_scan_of_the_lookups(store: Store, minutes: int) -> None:
    shown = Window.of(NOW - minutes * MINUTE_MS, NOW)
    with store.read() as conn:
        cells, series = hit_rate.cells(conn, shown, Scope()), hit_rate.series(conn, shown, Scope())
    from_cells: Counter[str] = Counter()
    from_series: Counter[str] = Counter()
    for cell in cells:
        from_cells[cell.outcome] += cell.lookups
    for row in series:
        from_series[row.outcome] += row.lookups
        assert row.at_ms in shown.buckets
    assert from_cells == from_series == _plain(store, shown)


SCOPES = (
    Scope(purpose=None),
    Scope(tenant="acme"),
    Scope(model="demo-small"),
    Scope(namespace="faq"),
    Scope(tier="memory"),
    Scope(namespace="faq", tenant="acme"),
    Scope(tenant="acme", model="demo-small", tier="memory"),
    Scope(source="cachescope-gateway", model="demo-small"),
)
WINDOWS = st.builds(
    lambda start, length: Window.of(NOW + start * MINUTE_MS, NOW + (start + length) * MINUTE_MS), st.integers(-150, 5), st.integers(1, 160)
)
STEPS_MS = (10_000, MINUTE_MS, 5 * MINUTE_MS, HOUR_MS, 24 * HOUR_MS)


def _scanned(store: Store, shown: Window, scope: Scope, step_ms: int, columns: str) -> list[tuple[object, ...]]:
    """Return lookups by step and columns, by a plain scan."""
    names = [name for name in ("namespace", "tenant", "model", "tier", "purpose") if getattr(scope, name) is not None]
    where = " AND ".join(["at_ms >= :a", "at_ms < :b", *(f"{name} = '{getattr(scope, name)}'" for name in names)])
    query = f"SELECT at_ms - at_ms % :step, {columns}, count(*) FROM lookups WHERE {where} GROUP BY at_ms - at_ms % :step, {columns}"
    with store.read() as conn:
        rows = conn.execute(text(query), {"step": step_ms, "a": shown.start_ms, "b": shown.end_ms})
        return sorted(map(tuple, rows.all()))


@given(WINDOWS, st.sampled_from(STEPS_MS), st.sampled_from(SCOPES))
def test_any_window_is_answered_exactly_by_the_coarsest_rollups(store: Store, shown: Window, step_ms: int, scope: Scope) -> None:
    with store.read() as conn:
        found = window.rollups(conn, shown, scope, ("outcome", "lookups"), step_ms=step_ms)
        bucket = (found.c.at_ms - found.c.at_ms % step_ms).label("bucket")
        sums = conn.execute(select(bucket, found.c.outcome, func.sum(found.c.lookups)).group_by(bucket, found.c.outcome)).all()
    assert sorted(map(tuple, sums)) == _scanned(store, shown, scope, step_ms, "outcome")


@given(WINDOWS, st.sampled_from(STEPS_MS), st.sampled_from(SCOPES), st.sampled_from(["model", "tenant"]))
def test_outcomes_side_by_side_are_the_same_of_any_rollups(store: Store, shown: Window, step_ms: int, scope: Scope, side: str) -> None:
    with store.read() as conn:
        found = window.places(conn, shown, scope, (side,), step_ms=step_ms, kind=None, sums=OUTCOMES)
        bucket = (found.c.at_ms - found.c.at_ms % step_ms).label("bucket")
        query = select(bucket, found.c[side], *(func.sum(found.c[name]) for name in OUTCOMES)).group_by(bucket, found.c[side])
        rows = conn.execute(query).all()
    told = [(row[0], row[1], name, n) for row in rows for name, n in zip(OUTCOMES, row[2:], strict=True) if n]
    assert sorted(told) == _scanned(store, shown, scope, step_ms, f"{side}, outcome")


def test_the_busiest_of_many_places_count_all_of_their_lookups(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Window.of(NOW - 110 * MINUTE_MS, NOW)
    with store.read() as conn:
        every = places.busiest(conn, shown, Scope(), limit=500)
        monkeypatch.setattr(places, "MOST_ROWS", 3)
        by_all = places.busiest(conn, shown, Scope(), limit=4)
        nowhere = places.busiest(conn, shown, Scope(namespace="<script>"), limit=4)
        monkeypatch.setattr(places, "_MOST_READ", 200)
        by_part = places.busiest(conn, shown, Scope(), limit=4)
    assert sum(sum(place.by_outcome.values()) for place in every.places) == sum(_plain(store, shown, "purpose = 'traffic'").values())
    assert by_all == (every.places[:4], 1)
    assert nowhere == ([], 1)
    assert by_part.every > 1
    assert all(place in every.places for place in by_part.places)


def test_hours_are_read_where_they_suffice_and_minutes_at_the_edges() -> None:
    half_past = Window(HOUR_MS // 2, 3 * HOUR_MS + MINUTE_MS)
    edges = [(HOUR_MS // 2, HOUR_MS, MINUTE_MS), (HOUR_MS, 3 * HOUR_MS, HOUR_MS), (3 * HOUR_MS, 3 * HOUR_MS + MINUTE_MS, MINUTE_MS)]
    assert window.stretches(half_past, step_ms=HOUR_MS) == edges
    assert window.stretches(half_past, step_ms=5 * MINUTE_MS) == [(half_past.start_ms, half_past.end_ms, MINUTE_MS)]
    assert window.stretches(Window(0, 5 * MINUTE_MS), step_ms=10_000) == [(0, 5 * MINUTE_MS, 10_000)]


def test_where_the_minutes_are_gone_whole_hours_stand_in() -> None:
    left = window.Horizons(tens_ms=4 * HOUR_MS, minutes_ms=2 * HOUR_MS)
    shown = Window(HOUR_MS // 2, 3 * HOUR_MS)
    assert window.stretches(shown, step_ms=MINUTE_MS, left=left) == [(HOUR_MS, 2 * HOUR_MS, HOUR_MS), (2 * HOUR_MS, 3 * HOUR_MS, MINUTE_MS)]
    assert window.stretches(Window(MINUTE_MS, 9 * MINUTE_MS), step_ms=10_000, left=left) == []
    assert window.stretches(Window(3 * HOUR_MS, 3 * HOUR_MS + MINUTE_MS), step_ms=10_000, left=left) == [
        (3 * HOUR_MS, 3 * HOUR_MS + MINUTE_MS, MINUTE_MS)
    ]


def test_a_scope_narrows_every_read(store: Store) -> None:
    shown = Window.of(NOW - 60 * MINUTE_MS, NOW)
    with store.read() as conn:
        cells = hit_rate.cells(conn, shown, Scope(namespace="faq", tenant="acme"))
    total: Counter[str] = Counter()
    for cell in cells:
        total[cell.outcome] += cell.lookups
    assert total == _plain(store, shown, "namespace = 'faq' AND tenant = 'acme'")


def test_prices_by_model_are_the_same_from_all_places_and_from_the_rollups(store: Store) -> None:
    shown = Window.of(NOW - 110 * MINUTE_MS, NOW)
    with store.read() as conn:
        everywhere = places.busiest(conn, shown, Scope(), limit=500).places
        found = places.priced(conn, shown, Scope(), every_place=everywhere)
        assert found == places.priced(conn, shown, Scope())
    assert {one.model for one in found} == {"demo-small", "demo-large"}


def test_choices_are_what_occurs(store: Store) -> None:
    with store.read() as conn:
        found = window.choices(conn, Window.of(NOW - 60 * MINUTE_MS, NOW))
        nothing = window.choices(conn, Window.of(NOW + 60 * MINUTE_MS, NOW + 61 * MINUTE_MS))
    assert found.namespaces == ("code", "docs", "faq")
    assert found.tenants == ("acme", "globex", "initech")
    assert nothing.namespaces == ()


def test_choices_are_bounded_however_many_there_are(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "MOST_CHOICES", 2)
    with store.read() as conn:
        found = window.choices(conn, Window.of(NOW - 60 * MINUTE_MS, NOW))
    assert len(found.tenants) == len(found.namespaces) == 2
    assert set(found.tenants) < {"acme", "globex", "initech"}


def test_latencies_merge_to_all_lookups(store: Store) -> None:
    shown = Window.of(NOW - 60 * MINUTE_MS, NOW)
    with store.read() as conn:
        found = overview.latencies(conn, shown, Scope())
    assert found.stride == 1
    assert sum(row.sketch.count for row in found.rows) == sum(_plain(store, shown).values())


def test_a_search_finds_text_as_it_stands_and_ids_in_any_window(store: Store) -> None:
    shown = Window.of(NOW - 120 * MINUTE_MS, NOW)
    with store.read() as conn:
        found = traces.find(conn, shown, Scope(), Search(text="password"))
        assert found.rows
        assert all("password" in (row.prompt or "").lower() for row in found.rows)
        assert not traces.find(conn, shown, Scope(), Search(text="%")).rows
        one = found.rows[0]
        elsewhere = Window.of(NOW + MINUTE_MS, NOW + 2 * MINUTE_MS)
        assert traces.find(conn, elsewhere, Scope(), Search(text=one.trace_id.hex())).rows == (one,)
        assert len(traces.trace_spans(conn, one.trace_id)) >= 2
        assert traces.trace_lookups(conn, one.trace_id)[0]["prompt"] == one.prompt


def test_a_list_is_bounded_and_says_that_there_is_more(store: Store) -> None:
    shown = Window.of(NOW - 120 * MINUTE_MS, NOW)
    with store.read() as conn:
        page = traces.find(conn, shown, Scope(), Search(), limit=10)
    assert len(page.rows) == 10
    assert page.more
    assert [row.at_ms for row in page.rows] == sorted((row.at_ms for row in page.rows), reverse=True)


def test_sources_count_what_was_sent_and_refused(tmp_path: Path) -> None:
    store = telemetry.open_store(tmp_path)
    made = list(telemetry.make(start_ms=NOW - 60_000, end_ms=NOW, per_minute=10))
    batch = SourceBatch(
        telemetry.GATEWAY, [span for one in made for span in one.gateway], [one.lookup for one in made], {"bad_id": 2}, {"key": 3}
    )
    spans.write(store, [batch], now_ms=NOW)
    spans.write(store, [batch], now_ms=NOW)
    with store.read() as conn:
        (source,) = sources.sources(conn)
        stored = sources.stored_lookups(conn, NOW - 120_000, NOW + 60_000, "cachescope-gateway")
    store.close()
    assert source.lookups == stored == len(made)
    assert source.duplicates == source.accepted
    assert source.rejects == {"bad_id": 4}


def test_other_cache_kinds_stay_apart(tmp_path: Path) -> None:
    store = telemetry.open_store(tmp_path)
    row = next(telemetry.make(start_ms=NOW - 60_000, end_ms=NOW, per_minute=2))
    other: LookupRow = row.lookup._replace(cache_kind="provider_prompt", outcome="partial_hit")
    spans.write(store, [SourceBatch(telemetry.GATEWAY, row.gateway, [other])], now_ms=NOW)
    with store.read() as conn:
        cells = hit_rate.cells(conn, Window.of(NOW - 120_000, NOW), Scope())
    store.close()
    assert {cell.cache_kind for cell in cells} == {"provider_prompt"}


def test_windows_are_whole_minutes_and_their_buckets_cover_them() -> None:
    shown = Window.of(90_001, 150_000)
    assert (shown.start_ms, shown.end_ms) == (60_000, 180_000)
    for minutes in (1, 15, 60, 360, 1_440, 10_080, 100_000):
        wide = Window.of(0, minutes * MINUTE_MS)
        assert len(wide.buckets) <= 76
        assert wide.buckets[-1] + wide.bucket_ms >= wide.end_ms
        assert wide.previous.end_ms == wide.start_ms


def test_a_source_narrows_every_read_to_one_sender(store: Store) -> None:
    shown = Window.of(NOW - 3_600_000, NOW)
    with store.read() as conn:
        assert "cachescope-gateway" in window.choices(conn, shown).sources
        every = hit_rate.cells(conn, shown, Scope())
        assert hit_rate.cells(conn, shown, Scope(source="cachescope-gateway")) == every
        assert hit_rate.cells(conn, shown, Scope(source="<script>")) == []


def test_a_shifted_window_keeps_its_length() -> None:
    shown = Window.of(NOW - 3_600_000, NOW)
    day = shown.shifted(86_400_000)
    assert day.length_ms == shown.length_ms
    assert shown.start_ms - day.start_ms == 86_400_000
    assert shown.shifted(shown.length_ms) == shown.previous

"""One namespace's or tenant's rollups are sought by their keys, and are the same as when all are read."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, func, select

from storage.reads import hit_rate, places, seeks, window
from storage.reads.window import HOUR_MS, MINUTE_MS, WHOLE_MS, Scope, Window
from storage.store import Store
from tests.support import telemetry

NOW = 1_775_000_000_000
SCOPES = (
    Scope(tenant="acme"),
    Scope(tenant="acme", purpose=None),
    Scope(namespace="faq"),
    Scope(namespace="faq", tenant="acme"),
    Scope(tenant="acme", model="demo-small"),
    Scope(tenant="acme", source="cachescope-gateway"),
    Scope(tenant="nobody"),
)
WINDOWS = st.builds(
    lambda start, length: Window.of(NOW + start * MINUTE_MS, NOW + (start + length) * MINUTE_MS), st.integers(-150, 5), st.integers(1, 160)
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    opened = telemetry.open_store(Path(tmp_path_factory.mktemp("seeks")))
    telemetry.seed(opened, now_ms=NOW, hours=2, per_minute=12)
    yield opened
    opened.close()


def _sums(conn: Connection, shown: Window, scope: Scope, step_ms: int) -> list[tuple[object, ...]]:
    found = window.rollups(conn, shown, scope, ("outcome", "lookups"), step_ms=step_ms)
    bucket = (found.c.at_ms - found.c.at_ms % step_ms).label("bucket")
    rows = conn.execute(select(bucket, found.c.outcome, func.sum(found.c.lookups)).group_by(bucket, found.c.outcome))
    return sorted(map(tuple, rows.all()))


@given(WINDOWS, st.sampled_from((10_000, MINUTE_MS, HOUR_MS, WHOLE_MS)), st.sampled_from(SCOPES))
def test_what_is_sought_is_what_a_reading_of_all_rows_finds(store: Store, shown: Window, step_ms: int, scope: Scope) -> None:
    found = []
    for least in (0, 1 << 40):  # however few lookups lie between two rows, and never
        with pytest.MonkeyPatch.context() as patched, store.read() as conn:
            patched.setattr(seeks, "_LEAST_PASSED", least)
            found.append(
                (_sums(conn, shown, scope, step_ms), hit_rate.totals(conn, shown, scope), places.busiest(conn, shown, scope, limit=9))
            )
    assert found[0] == found[1]


def test_a_tenants_rows_are_sought_by_all_of_their_key_up_to_it(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seeks, "_LEAST_PASSED", 0)
    with store.read() as conn:
        found = window.rollups(conn, Window.of(NOW - 90 * MINUTE_MS, NOW), Scope(tenant="acme"), ("outcome", "lookups"), step_ms=MINUTE_MS)
        query = select(func.sum(found.c.lookups)).compile(conn, compile_kwargs={"literal_binds": True})
        plan = [str(row[3]) for row in conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {query}")]
    assert any(step.startswith("SEARCH rollups_1m") and "namespace=? AND tenant=?" in step for step in plan), plan


def test_where_too_many_values_stand_before_a_tenant_all_rows_are_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seeks, "_LEAST_PASSED", 0)
    shown = Window.of(NOW - 90 * MINUTE_MS, NOW)
    with store.read() as conn:
        sought = _sums(conn, shown, Scope(tenant="acme"), MINUTE_MS)
    monkeypatch.setattr(seeks, "_MOST", 1)
    with store.read() as conn:
        assert seeks.sought(seeks.of(conn, shown.start_ms, shown.end_ms), window.lookups, range(1), {"tenant": "acme"}) == []
        assert _sums(conn, shown, Scope(tenant="acme"), MINUTE_MS) == sought


@pytest.mark.parametrize("scope", [Scope(), Scope(namespace="faq"), Scope(tier="memory"), Scope(tenant="acme")])
def test_one_scale_of_all_models_gives_what_a_scale_of_each_does(store: Store, scope: Scope) -> None:
    shown = Window.of(NOW - 90 * MINUTE_MS, NOW)
    with store.read() as conn:
        models = [one.model for one in places.priced(conn, shown, scope)]
        each, alike = (hit_rate.steps(conn, shown, scope, scales=one) for one in (dict.fromkeys(models, (1.5, 0.5)), (1.5, 0.5)))
    assert models
    assert sum(step.saved_nusd for step in each) > 0
    assert each == alike

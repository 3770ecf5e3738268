"""The worker's comparisons: computed ahead, by vectors of recorded prompts where there is an embedder, and read back by the page."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
from numpy.typing import NDArray

from app.admin.context import AdminContext
from app.jobs import ahead, drift, regret
from app.views import drift as compared
from app.views import drift_ahead, drift_rows
from app.wiring import Wiring
from engine.embedders.base import Embedder
from engine.errors import EmbedderUnavailable
from storage import analyses, jobs
from storage.errors import StoreMissing
from storage.reads.window import Scope, Window
from storage.store import open_telemetry
from tests.app import support
from tests.support import telemetry

NOW = 1_775_000_000_000
HOUR = Window.of(NOW - 3_600_000, NOW)


class Words:
    """An embedder of the contract: a text's vector is the sum of its words' vectors."""

    id, dimension, default_threshold, candidate_floor = "words/64", 64, 0.9, 0.8

    def __init__(self, *, broken: bool = False) -> None:
        self.broken = broken
        self.texts: list[str] = []
        self.closed = False

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if self.broken:
            raise EmbedderUnavailable("the model cannot be loaded")
        self.texts += texts
        return np.stack([_vector(text) for text in texts])

    async def close(self) -> None:
        self.closed = True


def _vector(text: str) -> NDArray[np.float32]:
    seeds = [int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big") for word in text.split()] or [0]
    total = np.sum([np.random.default_rng(seed).normal(size=64) for seed in seeds], axis=0)
    return (total / np.linalg.norm(total)).astype(np.float32)


@pytest.fixture(scope="module")
def wired(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wiring]:
    with contextlib.closing(support.wiring(Path(tmp_path_factory.mktemp("drift")))) as wiring:
        with contextlib.closing(open_telemetry(wiring.config.storage_settings(), write=True)) as store:
            telemetry.seed(store, now_ms=NOW, hours=2, per_minute=10)
        yield wiring


@pytest.fixture(autouse=True)
def _afresh(wired: Wiring, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "BUDGET_S", 3_600.0)  # however slow the machine
    drift._remembered.clear()
    with wired.ops().write() as conn:
        for table in ("jobs", "analyses"):
            conn.exec_driver_sql(f"DELETE FROM {table}")


@pytest.fixture
def _an_hour_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drift, "LENGTH_MS", {"1h": 3_600_000})


def no_store() -> NoReturn:
    raise StoreMissing("there is no telemetry database yet")


def context(wired: Wiring, embedder: Words | None = None) -> AdminContext:
    made: tuple[Embedder | None, str] = (embedder, "" if embedder else "embedder is none")
    return dataclasses.replace(support.admin(wired, clock=lambda: NOW), embedder=lambda: made)


def worked(ctx: AdminContext) -> dict[str, object]:
    return support.worked(ctx, drift)


def page(wired: Wiring, scope: Scope, *, horizon: str | None = "1h", now_ms: int = NOW) -> compared.Drift:
    return drift_ahead.load(
        wired.telemetry, wired.ops, window=HOUR, scope=scope, window_name="the last hour", horizon=horizon, now_ms=now_ms
    )


def test_each_range_is_compared_over_all_and_by_namespace_and_the_page_reads_what_was_stored(wired: Wiring) -> None:
    embedder = Words()
    ctx = context(wired, embedder)
    assert worked(ctx) == {"done": 16, "total": 16, "put_off": 0, "embedder": "words/64"}
    assert embedder.closed
    assert len(embedder.texts) == len(set(embedder.texts)), "a prompt was embedded twice"
    for scope in (Scope(), Scope(namespace="faq")):
        shown = page(wired, scope, now_ms=NOW + 60_000)
        now = compared.load(wired.telemetry, window=HOUR, scope=scope, window_name="the last hour", embed=drift.PromptVectors(ctx).of)
        assert dataclasses.replace(shown, computed_ms=None) == now
        assert drift_rows.made(shown, NOW + 60_000).startswith("Computed by the worker 1 min ago")
        assert "vectors of words/64" in drift_rows.grouped_by(shown)
        assert [dial.help for dial in drift_rows.dials(shown) if "vectors of words/64 have a cosine of 0.94" in dial.help]
        assert any("vectors of words/64" in str(row["measure"]) for row in drift_rows.panel_rows(shown))


@pytest.mark.parametrize(
    ("scope", "horizon", "now_ms"),
    [
        (Scope(tenant="acme"), "1h", NOW),
        (Scope(), "15m", NOW),
        (Scope(), None, NOW),
        (Scope(), "1h", NOW + drift_ahead.LATE * drift_ahead.EVERY_MS["1h"] + 1),
    ],
)
@pytest.mark.usefixtures("_an_hour_alone")
def test_what_is_not_computed_ahead_or_is_old_is_compared_now(wired: Wiring, scope: Scope, horizon: str | None, now_ms: int) -> None:
    worked(context(wired))
    found = page(wired, scope, horizon=horizon, now_ms=now_ms)
    assert found.computed_ms is None
    assert found.now is not None
    assert drift_rows.made(found, now_ms).startswith("Read at")


@pytest.mark.usefixtures("_an_hour_alone")
def test_no_text_and_no_tenant_is_kept_in_the_record_of_acts_and_what_telemetry_forgot_is_gone(wired: Wiring, tmp_path: Path) -> None:
    worked(context(wired))
    shown = page(wired, Scope())
    samples = [sample for kinds in (shown.new, shown.vanished, shown.findings) for kind in kinds for sample in kind.samples]
    texts = {sample.prompt for sample in samples if sample.prompt}
    assert texts
    with wired.ops().read() as conn:
        stored = " ".join(row.result for row in conn.exec_driver_sql("SELECT result FROM analyses"))
    assert not [word for word in texts | {sample.tenant for sample in samples} if word and word in stored]

    forgot = telemetry.open_store(tmp_path)
    with contextlib.closing(forgot):
        later = drift_ahead.load(
            lambda: forgot, wired.ops, window=HOUR, scope=Scope(), window_name="the last hour", horizon="1h", now_ms=NOW
        )
    assert later.computed_ms == shown.computed_ms
    assert [kind.samples for kind in later.new] == [()] * len(shown.new)
    assert [row["lookups"] for row in drift_rows.kind_rows(later.new)] == [kind.lookups for kind in shown.new]

    gone = drift_ahead.load(no_store, wired.ops, window=HOUR, scope=Scope(), window_name="the last hour", horizon="1h", now_ms=NOW)
    assert [failure.source for failure in gone.failures] == [compared.TELEMETRY]
    assert gone.now == shown.now


@pytest.mark.usefixtures("_an_hour_alone")
def test_an_embedder_that_fails_leaves_simhashes_and_the_reason(wired: Wiring) -> None:
    ctx = context(wired, Words(broken=True))
    assert worked(ctx)["done"] == 4
    with ctx.ops.read() as conn:
        found = analyses.one(conn, kind="drift_all", namespace="", horizon="1h")
    assert found is not None
    assert found.parameters == {"embedder": "", "why_no_vectors": "the model cannot be loaded"}
    assert drift_rows.grouped_by(page(wired, Scope())).endswith("; no vectors: the model cannot be loaded")


def test_after_a_fault_that_passed_the_next_comparison_has_vectors_and_no_reason(wired: Wiring) -> None:
    embedder = Words(broken=True)
    vectors = drift.PromptVectors(context(wired, embedder))
    found = vectors.of({"a": "hello"})
    assert (found.embedder, dict(found.of), found.why_not) == ("", {}, "the model cannot be loaded")
    embedder.broken = False
    found = vectors.of({"a": "hello"})
    assert (found.embedder, set(found.of), found.why_not) == ("words/64", {"a"}, "")
    assert vectors.close() == "words/64"


def test_an_embeddings_api_gets_no_recorded_prompt(tmp_path: Path) -> None:
    told = {"EMBEDDER": "http://127.0.0.1:9/v1", "EMBEDDER_MODEL": "m", "EMBEDDER_DIMENSION": "8"}
    wiring = support.wiring(tmp_path, **{f"CACHESCOPE_{name}": value for name, value in told.items()})
    with contextlib.closing(wiring):
        assert support.admin(wiring).embedder() == (
            None,
            "the embedder is an embeddings API: recorded prompts are not sent to it for an analysis",
        )


@pytest.mark.usefixtures("_an_hour_alone")
def test_what_another_version_wrote_is_not_read(wired: Wiring) -> None:
    ctx = context(wired)
    worked(ctx)
    with ctx.ops.write() as conn:
        conn.exec_driver_sql("""UPDATE analyses SET result = '{"sentence": 1}'""")
    assert page(wired, Scope()).computed_ms is None


def test_one_analysis_is_under_way_at_most(wired: Wiring) -> None:
    ctx = context(wired)
    regret.schedule(ctx.ops, now_ms=NOW)
    drift.schedule(ctx.ops, now_ms=NOW)
    with ctx.ops.read() as conn:
        assert jobs.under_way(conn, "regret")
        assert not jobs.under_way(conn, "drift")

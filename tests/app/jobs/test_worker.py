"""The worker on real stores: heartbeat, reclaiming, what a crash leaves, and warm-ups through a real gateway."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from app.adapters.base import WarmRequest, WarmResult
from app.adapters.native import NativeAdapter
from app.adapters.store import SharedStore
from app.admin import actions as admin_acts
from app.admin.actions import AdminContext
from app.cli.children import Child, child_environ, stop_all
from app.config import reachable_url
from app.jobs.runner import Worker
from app.wiring import Wiring
from engine import semconv
from engine.types import Policy
from storage import actions, jobs
from storage.reads import warmup as reads
from storage.store import open_ops
from tests.app import support
from tests.support import locks
from tests.support.servers import free_port, wait_for


@pytest.fixture
def wired(tmp_path: Path) -> Iterator[Wiring]:
    with contextlib.closing(support.wiring(tmp_path, CACHESCOPE_UNDO_WINDOW_S="0", CACHESCOPE_WARMUP_RATE_PER_S="1000")) as wiring:
        yield wiring


@contextlib.contextmanager
def working(ctx: AdminContext, *, sweep_after_s: float = 120.0, stop: threading.Event | None = None) -> Iterator[Worker]:
    stop = stop or threading.Event()
    worker = Worker(ctx, worker_id="w-1", sweep_after_s=sweep_after_s)
    thread = threading.Thread(target=worker.run, args=(stop,))
    thread.start()
    try:
        yield worker
    finally:
        stop.set()
        thread.join(timeout=90)
        assert not thread.is_alive()


def _beaten(ctx: AdminContext) -> int:
    with ctx.ops.read() as conn:
        return max((beat.last_ms for beat in jobs.beats(conn)), default=0)


def _job(ctx: AdminContext, act_id: str) -> jobs.Job:
    with ctx.ops.read() as conn:
        job = jobs.of_act(conn, act_id)
    assert job is not None
    return job


def _act(ctx: AdminContext, act_id: str) -> actions.Act:
    with ctx.ops.read() as conn:
        act = actions.get(conn, act_id)
    assert act is not None
    return act


def test_worker_beats_every_second(wired: Wiring) -> None:
    ctx = support.admin(wired)
    with working(ctx):
        wait_for(lambda: _beaten(ctx), what="a first heartbeat")
        first = _beaten(ctx)
        wait_for(lambda: _beaten(ctx) > first, what="a second heartbeat")


def test_a_clock_that_was_a_day_ahead_and_is_put_right_stops_no_worker(wired: Wiring) -> None:
    real = support.admin(wired).clock
    ahead_ms = [86_400_000]
    ctx = dataclasses.replace(support.admin(wired), clock=lambda: real() + ahead_ms[0])

    def beaten() -> int:
        with ctx.ops.read() as conn:
            return max((beat.last_ms for beat in jobs.beats(conn)), default=0)

    def scheduled() -> int:
        with ctx.ops.read() as conn:
            return sum(job.created_ms < real() + 60_000 for job in jobs.list_recent(conn) if job.kind in {"regret", "drift"})

    with working(ctx):
        wait_for(lambda: beaten() > real() + 60_000, what="a heartbeat by the clock that is ahead")
        ahead_ms[0] = 0
        wait_for(lambda: 0 < beaten() < real() + 60_000, what="a heartbeat by the right clock")
        wait_for(scheduled, what="an analysis is queued by the right clock")


def test_purge_is_reclaimed_after_the_undo_window_and_only_what_it_hid(wired: Wiring) -> None:
    ctx = support.admin(wired)
    support.fill(wired.config, "faq", 1200)
    support.fill(wired.config, "docs", 3)
    token = admin_acts.preview_purge(ctx, "faq").token
    purged = admin_acts.purge(ctx, token, "faq", support.operation())
    assert purged.ok
    with working(ctx):
        wait_for(lambda: _act(ctx, purged.act_id).state == "reclaimed", what="the purge is reclaimed")
        wait_for(lambda: _job(ctx, purged.act_id).state == "done", what="its job is done")
    assert (support.stored(wired.config, "faq"), support.stored(wired.config, "docs")) == (0, 3)
    assert _act(ctx, purged.act_id).result["deleted"] == 1200


def test_act_that_a_crash_left_pending_is_swept_to_failed(wired: Wiring) -> None:
    ctx = support.admin(wired)
    for act_id, age_ms in (("old-crashed", 130_000), ("just-begun", 1_000)):
        actions.begin(ctx.ops, act_id=act_id, kind="purge", namespace="faq", actor="ann", origin="cli", body={}, at_ms=ctx.clock() - age_ms)
    with working(ctx):
        wait_for(lambda: _act(ctx, "old-crashed").state == "failed", what="the old act is swept")
    assert _act(ctx, "just-begun").state == "pending"


def test_fault_of_the_loop_is_counted_and_survived(wired: Wiring) -> None:
    ctx = support.admin(wired)
    jobs.enqueue(ctx.ops, kind="no-such-kind", act_id="a-1", namespace="", parameters={}, now_ms=ctx.clock())
    with working(ctx) as worker:
        wait_for(lambda: worker.errors == 1, what="the fault is counted")
        wait_for(lambda: _job(ctx, "a-1").state == "failed", what="the job has failed")


def test_warm_up_of_which_every_request_failed_is_a_failed_act_that_says_why(wired: Wiring) -> None:
    ctx = support.admin(wired)
    support.record_misses(wired.config, "faq", ["one", "two", "three"])
    act_id = _start(ctx)  # no gateway runs
    with working(ctx):
        wait_for(lambda: _act(ctx, act_id).state != "pending", what="the warm-up has an outcome")
    assert _act(ctx, act_id).state == "failed"
    assert "nothing was written: all 3 requests failed (unavailable 3)" in str(_act(ctx, act_id).result["error"])
    job = _job(ctx, act_id)
    assert (job.state, job.attempts, job.progress["done"]) == ("failed", 1, 3)


@pytest.fixture
def gateway(wired: Wiring, monkeypatch: pytest.MonkeyPatch) -> Iterator[Wiring]:
    """A real gateway and the stub model, as processes, on an installation's demo folder. A slow machine is not a fault."""
    monkeypatch.setattr("app.adapters.native.CONNECT_S", 30)
    monkeypatch.setattr("app.adapters.native.ANSWER_S", 60)
    monkeypatch.setattr("app.admin.purge.VERIFY_MS", 60_000)
    monkeypatch.setattr("app.admin.purge.STALE_MS", 60_000)
    demo = Wiring(wired.config.model_copy(update={"demo": True}))
    demo.config.prepare()
    commands = {"stub": ["demo", "--only", "stub"], "gateway": ["gateway"]}
    children = [
        Child(name, [sys.executable, "-m", "app.cli", *command], demo.config.home / f"{name}.log") for name, command in commands.items()
    ]
    environ = {
        **child_environ(demo.config),
        "CACHESCOPE_GATEWAY_BIND": demo.config.gateway_bind,
        "CACHESCOPE_STUB_BIND": demo.config.stub_bind,
        "CACHESCOPE_OTLP_HTTP_BIND": demo.config.otlp_http_bind,
        "CACHESCOPE_EMBEDDER": "none",
        "CACHESCOPE_STORE_TIMEOUT_S": "30",
        "CACHESCOPE_CONTROL_MAX_AGE_S": "30",
        "CACHESCOPE_UPSTREAM_CONNECT_TIMEOUT_S": "30",
    }
    for child in children:
        child.start(environ)
    try:
        for bind in (demo.config.stub_bind, demo.config.gateway_bind):
            wait_for(lambda bind=bind: _healthy(reachable_url(bind)), what=f"{bind} is healthy")  # type: ignore[misc]
        yield demo
    finally:
        stop_all(children, first=(), grace_s=5, hurry=lambda: False)
        demo.close()


def _healthy(url: str) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(f"{url}/healthz", timeout=2, trust_env=False).text.strip() == "ok"
    return False


def _start(ctx: AdminContext) -> str:
    result = admin_acts.start_warmup(ctx, admin_acts.plan_warmup(ctx, "faq").token, support.operation())
    assert result.state == "pending"
    return result.act_id


class _Halting(NativeAdapter):
    """Tells its worker to end at the fifth request."""

    def __init__(self, url: str, token: str, *, store: SharedStore) -> None:
        super().__init__(url, token, store=store)
        self.stop = threading.Event()
        self._asked = itertools.count(1)

    def warm(self, request: WarmRequest, operation_id: str) -> WarmResult:
        if next(self._asked) == 5:
            self.stop.set()
        return super().warm(request, operation_id)


def test_warm_up_writes_once_stops_resumes_and_cancels(gateway: Wiring) -> None:
    ctx = support.admin(gateway)
    assert str(ctx.engine.state().via) == "gateway"
    support.record_misses(gateway.config, "faq", [f"question {number}" for number in range(24)])

    # A worker that ends in the middle hands the job on; the next one goes on from its progress.
    act_id = _start(ctx)
    store = SharedStore(gateway.config.shared_cache_url, clock=gateway.clock, defaults=Policy())
    with contextlib.closing(_Halting(gateway.config.control_url, gateway.config.control_token(), store=store)) as engine:
        halting = dataclasses.replace(ctx, engine=engine)
        with working(halting, stop=engine.stop):
            wait_for(lambda: (job := _job(ctx, act_id)).progress.get("done", 0) >= 4 and job.state == "queued", what="it is handed on")
    stopped = _job(ctx, act_id)
    assert stopped.state == "queued"
    assert 4 <= stopped.progress["done"] < 24
    with working(ctx):
        wait_for(lambda: _job(ctx, act_id).state == "done", what="the warm-up is done")
    done = _act(ctx, act_id)
    assert (done.state, done.result["written"], done.result["already"], done.result["failed"]) == ("done", 24, 0, {})
    assert done.result["cost_usd"] == pytest.approx(0.24)
    assert ctx.engine.visible("faq").visible == 24

    # The same again writes nothing.
    again = _start(ctx)
    with working(ctx):
        wait_for(lambda: _act(ctx, again).state == "done", what="the second warm-up is done")
    assert (_act(ctx, again).result["written"], _act(ctx, again).result["already"]) == (0, 24)

    # One whose key is parted by more than its body is asked as its client does.
    parted = {semconv.ADAPTER: "lora", semconv.RETRIEVAL_VERSION: "7", semconv.AUTHORISATION_SCOPE: "ward"}
    support.record_misses(gateway.config, "faq", ["parted"], times=2, attributes=parted)
    parting = admin_acts.start_warmup(ctx, admin_acts.plan_warmup(ctx, "faq", limit=1).token, support.operation())
    with working(ctx):
        wait_for(lambda: _act(ctx, parting.act_id).state == "done", what="it is warmed")
    assert _act(ctx, parting.act_id).result["written"] == 1
    headers = {"Authorization": f"Bearer {ctx.engine.key_create('acme', scope='ward').secret}", "Cachescope-Namespace": "faq"}
    headers |= {"Cachescope-Adapter": "lora", "Cachescope-Retrieval-Version": "7"}
    body = {"model": "demo-small", "messages": [{"role": "user", "content": "parted"}]}

    def is_served() -> bool:  # once the key is known
        answer = httpx.post(f"{gateway.config.control_url}/v1/chat/completions", headers=headers, json=body, timeout=60, trust_env=False)
        return answer.status_code == 200 and "; hit;" in answer.headers["cache-status"]

    wait_for(is_served, what="its client has a hit")

    # A cancel stops it after the requests under way, and is its outcome.
    support.record_misses(gateway.config, "faq", [f"further question {number}" for number in range(40)], times=2)
    third = _start(dataclasses.replace(ctx, warmup_rate_per_s=8.0))
    with working(ctx):
        wait_for(lambda: _job(ctx, third).progress.get("done", 0) >= 4, what="a first batch is warmed")
        assert admin_acts.cancel_job(ctx, _job(ctx, third).id)
        wait_for(lambda: _act(ctx, third).state == "cancelled", what="the cancel is recorded")
    assert _act(ctx, third).result["done"] < 60

    # The purge goes through the gateway, which has applied it by the time it is reported.
    token = admin_acts.preview_purge(ctx, "faq").token
    purged = admin_acts.purge(ctx, token, "faq", support.operation())
    assert (purged.state, purged.figures["via"], purged.figures["gateways_current"]) == ("done", "gateway", 1)


def test_names_read_from_payloads_are_the_ones_the_engine_writes() -> None:
    assert (reads.PROMPT_ATTRIBUTE, reads.BODY_ATTRIBUTE) == (semconv.PROMPT, semconv.REQUEST_BODY)
    assert (reads.HEADERS_ATTRIBUTE, reads.SCOPE_ATTRIBUTE) == (semconv.KEYED_HEADERS, semconv.AUTHORISATION_SCOPE)
    assert (reads.ADAPTER_ATTRIBUTE, reads.RETRIEVAL_ATTRIBUTE) == (semconv.ADAPTER, semconv.RETRIEVAL_VERSION)


def test_purge_whose_process_died_before_its_reclaim_was_queued_is_healed(wired: Wiring) -> None:
    ctx = support.admin(wired)
    support.fill(wired.config, "faq", 3)
    purge_id = support.operation()
    ctx.engine.purge("faq", purge_id)
    with working(ctx):
        wait_for(lambda: support.stored(wired.config, "faq") == 0, what="what it hid is deleted")
        wait_for(lambda: _job(ctx, purge_id).state == "done", what="its job is done")


def test_reclaim_outlasts_a_store_that_is_down(tmp_path: Path) -> None:
    with contextlib.closing(support.wiring(tmp_path, CACHESCOPE_CACHE_URL=f"redis://127.0.0.1:{free_port()}/0")) as wired:
        now = [wired.clock()]
        ctx = support.admin(wired, clock=lambda: now[0])
        jobs.enqueue(ctx.ops, kind="reclaim", act_id="a-1", namespace="faq", parameters={"purge_id": "a-1"}, now_ms=ctx.clock())
        worker, pauses = Worker(ctx, worker_id="w-1"), []
        for _ in range(6):
            job = jobs.claim(ctx.ops, lease_ms=1_000, now_ms=now[0])
            assert job is not None
            worker.work(job, threading.Event())
            due = _job(ctx, "a-1").not_before_ms
            pauses.append((due - now[0]) / 1_000)
            now[0] = due
        job = _job(ctx, "a-1")
        assert (job.state, job.attempts) == ("queued", 0)
        assert pauses == [5, 10, 20, 40, 60, 60]


def test_what_keeps_it_from_writing_is_told_once_and_it_goes_on_afterwards(wired: Wiring, caplog: pytest.LogCaptureFixture) -> None:
    hasty = dataclasses.replace(wired.config.storage_settings(), busy_timeout_s=0.01)
    wired.ops()
    with contextlib.closing(open_ops(hasty)) as ops:
        ctx = support.admin(wired, ops=ops)
        with locks.held(ops.path, locks.WRITING), working(ctx) as worker:
            wait_for(lambda: worker.errors > 2, what="it could not write three times")
        told = [record for record in caplog.records if record.name == "app.jobs.runner"]
        assert [(record.exc_info, "is locked by another process" in record.getMessage()) for record in told] == [(None, True)]
        with working(ctx):
            wait_for(lambda: _beaten(ctx), what="a heartbeat")

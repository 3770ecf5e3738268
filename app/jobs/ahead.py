"""Analyses that are computed ahead: when one is due, and that one is under way at most."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, Final, TypeVar

from app.jobs.run import LEASE_MS, JobRun
from storage import analyses, jobs
from storage.store import Store

KINDS: Final = ("regret", "drift")  # of jobs; one at a time, so that a purge's reclaim always finds a thread
BUDGET_S: Final = 60.0  # what is left over comes first the next time
KEEP_MS: Final = 7 * 86_400_000  # the newest of a namespace without traffic since
_KEEP_S: Final = LEASE_MS / 3000
Due = TypeVar("Due")


def schedule(ops: Store, *, kind: str, every_ms: int, now_ms: int, stored: Mapping[str, int]) -> None:
    """Queue an analysis each `every_ms`, by whichever worker comes first; none while any is under way.

    stored: its kinds of rows, and how long (ms) each is kept after it was computed.
    """
    with ops.read() as conn:
        act_id = f"{kind}-{now_ms // every_ms}"
        if any(jobs.under_way(conn, one) for one in KINDS) or jobs.of_act(conn, act_id) is not None:
            return
    jobs.enqueue(ops, kind=kind, act_id=act_id, namespace="", parameters={}, now_ms=now_ms)
    jobs.trim(ops, kind=kind, before_ms=now_ms - 86_400_000)
    for one, keep_ms in stored.items():
        analyses.forget(ops, kind=one, before_ms=now_ms - keep_ms, now_ms=now_ms)


def work(
    run: JobRun, kind: str, waiting: Sequence[Due], compute: Callable[[Due], Iterable[analyses.Analysis]], figures: dict[str, Any]
) -> None:
    """Compute and store what is due, in this order, while the budget lasts. figures: told on the way; done, total and put_off count.

    Each is computed in a thread of its own, for it may take many seconds, and the job's lease is kept from here meanwhile.
    """
    figures |= {"done": 0, "total": len(waiting), "put_off": 0}
    began = time.monotonic()
    for number, due in enumerate(waiting):
        if time.monotonic() - began > BUDGET_S:
            figures["put_off"] = len(waiting) - number
            return
        run.report(figures)
        with ThreadPoolExecutor(1, thread_name_prefix=kind) as pool:
            future = pool.submit(compute, due)
            while wait([future], timeout=_KEEP_S).not_done:
                run.keep(figures)
        for one in future.result():
            analyses.put(run.ctx.ops, one)
        figures["done"] += 1

"""The worker: a heartbeat a second, jobs as they fall due, and acts without an outcome swept to failed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from app.admin.context import AdminContext
from app.admin.purge import heal_reclaims
from app.errors import AppError
from app.jobs import drift, reclaim, regret, warmup
from app.jobs.run import LEASE_MS, LONGEST_RETRY_MS, RETRY_MS, JobCancelled, JobRun, JobStopped
from storage import actions, jobs
from storage.errors import StorageError

log = logging.getLogger(__name__)

TICK_S = 0.25  # how long a new job waits, at most
BEAT_MS = 1_000
SWEEP_MS = 5_000
HEAL_MS = 60_000
AT_ONCE = 2  # a long warm-up does not keep a purge from being reclaimed; beside it an analysis does, for a minute at most
SCHEDULE_MS = 30_000
TELL_MS = 60_000  # what keeps the worker from writing is told as often, not four times a second

KINDS: Mapping[str, Callable[[JobRun], Mapping[str, Any]]] = {
    "reclaim": reclaim.run,
    "warmup": warmup.run,
    "regret": regret.run,
    "drift": drift.run,
}


class Worker:
    """Runs until `stop` is set, then lets the batches under way finish."""

    def __init__(self, ctx: AdminContext, *, worker_id: str, sweep_after_s: float = 120.0) -> None:
        self._ctx = ctx
        self._id = worker_id
        self._sweep_after_ms = int(sweep_after_s * 1000)
        self._started_ms = ctx.clock()
        self._beat_ms = self._sweep_ms = self._heal_ms = self._schedule_ms = 0
        self._pauses: dict[str, int] = {}  # job -> the pause before its next try; a new worker begins small again
        self._running: dict[Future[None], str] = {}
        self._told: tuple[str, int] = ("", 0)  # what was told last of that, and when
        self.errors = 0

    def run(self, stop: threading.Event) -> None:
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="job") as pool:
            while not stop.is_set():
                try:
                    self._tick(pool, stop)
                except (AppError, StorageError) as error:  # a full disk, a lock: it may last, and needs no traceback
                    self.errors += 1
                    self._tell(str(error))
                except Exception:  # the one broad catch: the worker must outlive any one fault; counted in its heartbeat
                    self.errors += 1
                    log.exception("the worker goes on after a fault")
                stop.wait(TICK_S)

    def _tell(self, reason: str) -> None:
        now = self._ctx.clock()
        told, at_ms = self._told
        if reason != told or _due(at_ms, now, TELL_MS):
            self._told = (reason, now)
            log.warning("the worker goes on, and could not do what it had to: %s", reason)

    def _tick(self, pool: ThreadPoolExecutor, stop: threading.Event) -> None:
        now = self._ctx.clock()
        if _due(self._beat_ms, now, BEAT_MS):
            self._beat_ms = now
            jobs.beat(self._ctx.ops, worker_id=self._id, started_ms=self._started_ms, now_ms=now, errors=self.errors)
        if _due(self._sweep_ms, now, SWEEP_MS):
            self._sweep_ms = now
            for act_id in actions.sweep(self._ctx.ops, older_than_ms=now - self._sweep_after_ms, now_ms=now):
                log.warning("act %s had no outcome: recorded as failed", act_id)
        for future in [future for future in self._running if future.done()]:
            del self._running[future]
            future.result()  # a fault that no job should have: raised here, counted by the loop
        if _due(self._heal_ms, now, HEAL_MS) and len(self._running) < AT_ONCE:
            self._heal_ms = now
            self._running[pool.submit(self._heal)] = "heal"  # not here: an engine that is slow to answer must not delay the heartbeat
        if _due(self._schedule_ms, now, SCHEDULE_MS):
            self._schedule_ms = now
            regret.schedule(self._ctx.ops, now_ms=now)
            drift.schedule(self._ctx.ops, now_ms=now)
        while len(self._running) < AT_ONCE:
            job = jobs.claim(self._ctx.ops, now_ms=now, lease_ms=LEASE_MS)
            if job is None:
                break
            log.info("job %s (%s) begins, attempt %d", job.id, job.kind, job.attempts)
            self._running[pool.submit(self.work, job, stop)] = job.id

    def _heal(self) -> None:
        try:
            queued = heal_reclaims(self._ctx)
        except (AppError, StorageError) as error:
            log.warning("purges without a reclaim could not be looked for: %s", error)
            return
        if queued:
            log.warning("%d purges had no reclaim: queued", queued)

    def work(self, job: jobs.Job, stop: threading.Event) -> None:
        """Do one claimed job to its end, and write the end down."""
        ctx = self._ctx
        try:
            figures = KINDS[job.kind](JobRun(job, ctx, stop))
        except JobCancelled:
            log.info("job %s was cancelled", job.id)
        except JobStopped:
            jobs.release(ctx.ops, job)
            log.info("job %s goes on with the next worker", job.id)
        except (AppError, StorageError) as error:
            self._fail(job, str(error), retry=error.retryable)
        except Exception:
            self._fail(job, "an unexpected fault; see the worker's log")
            raise
        else:
            jobs.finish(ctx.ops, job, progress=figures, now_ms=ctx.clock())
            self._pauses.pop(job.id, None)
            log.info("job %s is done", job.id)

    def _fail(self, job: jobs.Job, reason: str, *, retry: bool = False) -> None:
        now = self._ctx.clock()
        patient = job.kind == "reclaim"  # given up, what it should delete would stay for ever
        pause_ms = self._pauses.pop(job.id, RETRY_MS) if patient else RETRY_MS
        if patient and retry:
            self._pauses[job.id] = min(2 * pause_ms, LONGEST_RETRY_MS)
        jobs.fail(self._ctx.ops, job, reason, now_ms=now, retry_ms=pause_ms if retry else None, counts=not patient)
        with self._ctx.ops.read() as conn:
            ended = jobs.get(conn, job.id)
        if ended is not None and ended.state == "queued":
            log.warning("job %s will be taken up again: %s", job.id, reason)
            return
        log.error("job %s failed: %s", job.id, reason)
        if job.kind == "warmup":  # a purge keeps its outcome when its reclaiming fails: what it hid stays hidden
            actions.record(self._ctx.ops, act_id=job.act_id, event="failed", body={"error": reason}, at_ms=now)


def _due(last_ms: int, now_ms: int, every_ms: int) -> bool:
    """Return whether it is time again. A clock that was ahead and is put right must not stop the worker until that time has come."""
    return not 0 <= now_ms - last_ms < every_ms

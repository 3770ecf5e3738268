"""Warm-up: what should be there before they ask?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from app.adapters.base import EngineAdapter
from app.admin.actions import WarmupPlan
from app.admin.warmup import STORED
from app.views import words
from app.views.audit import record_link
from app.views.dial import Dial
from app.views.parts import Failure, attempt
from storage import jobs
from storage.jobs import Job
from storage.store import Store

ENGINE, ACTS = SOURCES = ("Cache engine", "Record of acts")
RECENT = 10
REASONS = {
    STORED: "its answer is stored by now",
    "prompts_not_recorded": "its request was not recorded (record_prompts is off, or the client said no-store)",
    "keyed_headers": "a header of it is part of the key, and values of headers are not recorded",
    "body_too_large": "its request is larger than record_body_bytes",
    "body_unreadable": "its recorded request cannot be read",
}
RUNNING = frozenset({"queued", "running"})


@dataclass(frozen=True, slots=True)
class WarmupView:
    sentence: str
    bad: bool
    names: tuple[str, ...]
    recent: tuple[Job, ...]
    worker_age_ms: int | None
    failures: tuple[Failure, ...]

    @property
    def running(self) -> tuple[Job, ...]:
        return tuple(job for job in self.recent if job.state in RUNNING)


def load(engine: Callable[[], EngineAdapter], ops: Callable[[], Store], *, now_ms: int) -> WarmupView:
    """Return the namespaces, and the warm-ups that run or ran."""
    known = attempt(ENGINE, lambda: tuple(row.name for row in engine().namespaces()), hides="the namespaces")
    past = attempt(ACTS, lambda: _recent(ops()), hides="running and earlier warm-ups")
    recent, beats = past.value or ((), None)
    failures = tuple(part.failure for part in (known, past) if part.failure)
    worker_age = None if beats is None else now_ms - beats
    running = [job for job in recent if job.state in RUNNING]
    if failures:
        sentence, bad = f"{words.listed(failure.source for failure in failures)}: no answer, and a warm-up needs it", True
    elif running:
        sentence, bad = f"{len(running)} warm-up{'s' if len(running) > 1 else ''} under way", False
    else:
        sentence, bad = "No warm-up is under way: plan one from the recorded misses", False
    if past.failure is None and (worker_age is None or worker_age > 10_000):  # the record that fails has the worker's signs of life
        seen = "was never seen" if worker_age is None else f"gave no sign of life for {words.age(worker_age)}"
        sentence, bad = f"{sentence}. The worker {seen}: jobs wait until it runs", True
    return WarmupView(sentence, bad, known.value or (), recent, worker_age, failures)


def _recent(store: Store) -> tuple[tuple[Job, ...], int | None]:
    with store.read() as conn:
        found = tuple(jobs.list_recent(conn, limit=RECENT, kind="warmup"))
        return found, max((beat.last_ms for beat in jobs.beats(conn)), default=None)


def dials(plan: WarmupPlan) -> list[Dial]:
    """Return what the plan would ask, cost and save."""
    warmable = plan.warmable
    if not warmable:
        return [
            Dial("To ask", "0", f"of {words.count(plan.distinct)} different requests that missed: nothing to ask, and nothing to pay"),
        ]
    known, counted = (f"known for {n} of {len(warmable)}" for n in (plan.costed, plan.counted))
    tokens = words.NO_DATA if plan.tokens is None else words.count(round(plan.tokens))
    return [
        Dial("To ask", words.count(len(warmable)), f"of {words.count(plan.distinct)} different requests that missed"),
        Dial("Misses they made", words.count(sum(item.misses for item in warmable)), f"of {words.count(plan.misses)} in this time"),
        Dial("Cost, at most", words.money(plan.cost_usd), known),
        Dial("Tokens", tokens, f"as they were reported before; {counted}"),
        Dial("Takes at least", words.age(plan.seconds * 1000), "at the rate that the setting allows"),
    ]


def asides(plan: WarmupPlan) -> list[str]:
    """Return what of the plan's requests is not asked, and why. Plain text."""
    told = [f"{words.count(n)} cannot be warmed ({reason}): {REASONS.get(reason, reason)}" for reason, n in plan.not_warmable.items()]
    if plan.sampled:
        told.append("Telemetry is sampled: misses are those that came, there were more, and the most frequent may be others")
    if plan.stored is None:
        return ["Nobody could say which answers are stored by now: the run finds out, and these figures are the most it can come to", *told]
    return [f"{words.many(plan.stored, 'answer is', 'answers are')} stored by now and not asked for again", *told] if plan.stored else told


def plan_rows(plan: WarmupPlan) -> list[dict[str, Any]]:
    return [
        {
            "prompt": words.one_line(item.prompt, 140) if item.prompt else words.UNNAMED,
            "misses": item.misses,
            "tenant": words.name(item.tenant),
            "model": words.name(item.model),
            "cost": words.money(item.cost_usd),
            "can be warmed": f"no: {REASONS.get(item.reason, item.reason)}" if item.reason else "yes",
        }
        for item in plan.items
    ]


def job_rows(view: WarmupView) -> list[dict[str, Any]]:
    return [
        {
            "asked (UTC)": words.instant(job.created_ms),
            "namespace": words.name(job.namespace),
            "state": job.state,
            "asked": f"{job.progress.get('done', 0)} of {total(job)}",
            "written": job.progress.get("written"),
            "there already": job.progress.get("already"),
            "failed": _failed(job),
            "cost": words.money(job.progress.get("cost_usd")),
            "reason": words.one_line(job.error, 160),
            "record": record_link(job.act_id),
        }
        for job in view.recent
    ]


def _failed(job: Job) -> str:
    failed = job.progress.get("failed")
    if isinstance(failed, dict):
        return ", ".join(f"{words.count(n)} {reason}" for reason, n in failed.items())
    return "" if failed is None else str(failed)


def share_done(job: Job) -> float:
    """Return how much of the job is done, 0..1."""
    return min(1.0, (job.progress.get("done") or 0) / max(1, total(job)))


def total(job: Job) -> int:
    """Return how many requests the job is to ask."""
    return int(job.progress.get("total") or len(job.parameters.get("items", [])))


def under_way(job: Job) -> str:
    """Return a running job's progress in words. Plain text."""
    progress = job.progress
    told = f"{words.name(job.namespace)}: {job.state}, {words.count(progress.get('done') or 0)} of {words.count(total(job))} asked"
    told += f", {words.count(progress['written'])} written" if progress.get("written") else ""
    return told + (f", failed: {failed}" if (failed := _failed(job)) else "")

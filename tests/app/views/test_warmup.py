"""Warm-up: the plan, the run and the outcome in words."""

import dataclasses
from typing import NoReturn

from app.admin import actions as admin_acts
from app.admin.actions import ActResult, AdminContext
from app.views import outcomes, warmup
from app.wiring import Wiring
from storage import actions, jobs
from storage.errors import StoreBusy
from tests.app import support


def test_warmup_is_planned_started_and_told(wired: Wiring, ctx: AdminContext) -> None:
    support.record_misses(wired.config, "faq", ["how?", "why?"], times=2)
    support.record_misses(wired.config, "faq", ["hidden"], recorded=False)
    plan = admin_acts.plan_warmup(ctx, "faq", limit=10)
    dials = {dial.label: dial.value for dial in warmup.dials(plan)}
    assert (dials["To ask"], dials["Misses they made"], dials["Cost, at most"]) == ("2", "4", "$0.0200")
    assert [row["can be warmed"] for row in warmup.plan_rows(plan)] == [
        *("yes", "yes", "no: its request was not recorded (record_prompts is off, or the client said no-store)"),
    ]
    nothing = dataclasses.replace(plan, items=tuple(dataclasses.replace(item, reason="stored_by_now") for item in plan.items))
    (dial,) = warmup.dials(nothing)
    assert dial.detail == "of 3 different requests that missed: nothing to ask, and nothing to pay"
    assert {row["can be warmed"] for row in warmup.plan_rows(nothing)} == {"no: its answer is stored by now"}

    (aside,) = warmup.asides(plan)
    assert aside.startswith("1 cannot be warmed (prompts_not_recorded): its request was not recorded")
    assert warmup.asides(dataclasses.replace(plan, stored=2))[0] == "2 answers are stored by now and not asked for again"
    assert warmup.asides(dataclasses.replace(plan, stored=None))[0].startswith("Nobody could say which answers are stored by now")

    started = admin_acts.start_warmup(ctx, plan.token, support.operation())
    assert outcomes.sentence(started, now_ms=0) == "Warm-up of faq: under way, 2 to ask"
    view = warmup.load(wired.engine, wired.ops, now_ms=wired.clock())
    (job,) = view.running
    assert warmup.under_way(job) == "faq: queued, 0 of 2 asked"
    assert warmup.job_rows(view)[0]["asked"] == "0 of 2"
    assert "The worker was never seen: jobs wait until it runs" in view.sentence
    assert view.bad

    jobs.beat(ctx.ops, worker_id="worker-1", started_ms=0, now_ms=wired.clock())
    assert warmup.load(wired.engine, wired.ops, now_ms=wired.clock()).sentence == "1 warm-up under way"
    assert admin_acts.cancel_job(ctx, job.id)
    with ctx.ops.read() as conn:
        act = actions.get(conn, started.act_id)
    assert act is not None
    assert outcomes.told(outcomes.of(act), now_ms=0) == "cancelled, 0 written"
    assert warmup.load(wired.engine, wired.ops, now_ms=wired.clock()).running == ()


def test_a_record_that_does_not_answer_says_nothing_of_the_worker(wired: Wiring) -> None:
    def no_ops() -> NoReturn:
        raise StoreBusy("ops.db is locked by another process; try again")

    view = warmup.load(wired.engine, no_ops, now_ms=wired.clock())
    assert (view.sentence, view.bad) == ("Record of acts: no answer, and a warm-up needs it", True)


def test_a_plan_of_sampled_misses_says_that_there_were_more(wired: Wiring, ctx: AdminContext) -> None:
    support.record_misses(wired.config, "faq", ["how?"], times=2, kept_ratio=0.1)
    support.record_misses(wired.config, "code", ["how?"], times=2)
    plan = admin_acts.plan_warmup(ctx, "faq", limit=10)
    assert warmup.asides(plan)[-1].startswith("Telemetry is sampled: misses are those that came, there were more")
    assert warmup.asides(admin_acts.plan_warmup(ctx, "code", limit=10)) == []


def test_warmups_failures_are_told_by_reason() -> None:
    figures = {"requests": 5, "written": 2, "already": 1, "failed": {"upstream_status": 2}, "cost_usd": 0.5}
    done = ActResult("a" * 16, "warmup", "faq", "done", figures=figures)
    assert (
        outcomes.sentence(done, now_ms=0) == "Warm-up of faq: 5 to ask, 2 written, 1 there already, 2 failed (upstream_status), at $0.5000"
    )

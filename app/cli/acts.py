"""`cachescope purge`, `warm` and `threshold`: what an operator does to a namespace, from a terminal."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.common import (
    FAILED,
    AsJson,
    Demo,
    Name,
    NameOrNone,
    answer,
    complain,
    context,
    finish,
    new_operation_id,
    plain,
    say,
    show_json,
    table,
    told,
    usd,
    wired,
)

if TYPE_CHECKING:
    from app.admin.context import AdminContext
    from app.admin.purge import PurgePreview
    from app.admin.warmup import WarmupPlan

_SPAN = re.compile(r"([1-9][0-9]{0,5})([mhd])")
_UNITS_MS = {"m": 60_000, "h": 3_600_000, "d": 86_400_000}


def purge(
    namespace: NameOrNone = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask; needs --confirm.")] = False,
    confirm: Annotated[str | None, typer.Option("--confirm", help="The namespace's name once more, with --yes.")] = None,
    undo: Annotated[str | None, typer.Option("--undo", metavar="ID", help="Undo this purge, while its entries are there.")] = None,
    demo: Demo = None,
    as_json: AsJson = False,
) -> None:
    """Hide every entry of a namespace, and delete them after the undo window. Shows what it would do, and asks for the name.

    With --json and without --yes it prints the preview and does nothing.
    """
    if (namespace is None) == (undo is None):
        raise typer.BadParameter("give a namespace, or --undo with the id of a purge")
    if yes and not undo and confirm is None:
        raise typer.BadParameter("--yes needs --confirm with the namespace's name")
    from app.admin import purge as purging

    with contextlib.closing(wired(demo)) as wiring:
        ctx = context(wiring)
        if undo:
            result = purging.undo_purge(ctx, undo, new_operation_id())
            finish(
                result,
                as_json=as_json,
                words=f"undone: {result.figures.get('visible')} entries are visible in {plain(result.namespace)}",
            )
            return
        in_demo = wiring.config.demo
        preview = purging.preview_purge(ctx, namespace or "")
        if as_json and not yes:
            stake = dataclasses.asdict(preview.stake) if preview.stake else None
            show_json({**dataclasses.asdict(preview.preview), "stake": stake, "stake_unknown": preview.stake_unknown})
            return
        if not as_json:
            _show_preview(preview)
        result = purging.purge(ctx, preview.token, _typed(preview.namespace, confirm if yes else None), new_operation_id())
    figures = result.figures
    window_s = round(preview.undo_window_s)
    finish(
        result,
        as_json=as_json,
        words=f"purged {plain(result.namespace)}: {figures.get('entries')} entries hidden, "
        f"verified after {figures.get('verified_ms')} ms "
        f"(gateways: {figures.get('gateways_current')} current, {figures.get('gateways_silent')} silent; "
        f"through the {figures.get('via')})\n"
        f"undo within {window_s} s: cachescope purge --undo {result.act_id}{' --demo' if in_demo else ''}",
    )


def _typed(namespace: str, confirmed: str | None) -> str:
    if confirmed is not None:
        return confirmed
    return answer(f"Type the namespace's name to purge it ({plain(namespace)}):")


def _show_preview(found: PurgePreview) -> None:
    preview = found.preview
    say(f"{plain(preview.namespace)}: {preview.entries} entries, {preview.bytes} bytes would be hidden (counted by the {preview.via})")
    for title, counts in (("tenants", preview.tenants), ("models", preview.models)):
        if counts:
            say(f"  {title}: " + ", ".join(f"{plain(name)} {count}" for name, count in counts.items()))
    if preview.value_usd is not None:
        say(f"  their upstream calls cost {usd(preview.value_usd)}")
    say(f"  at stake: {_stake(found)}")
    for entry in preview.sample[:5]:
        say(f"  {entry.entry_id[:8]}  {plain(entry.prompt)[:80]}")


def _stake(found: PurgePreview) -> str:
    stake = found.stake
    if stake is None:
        return f"not known: {found.stake_unknown}"
    hits = f"{'at least ' if stake.sampled else ''}{stake.hits_per_minute:.2f} hits a minute"
    if stake.saved_usd_per_minute is None:
        return f"{hits} in the last hour; what they save is not known (no prices)"
    least = "at least " if stake.partial or stake.sampled else ""
    return f"{hits}, which save {least}{usd(stake.saved_usd_per_minute)} a minute, in the last hour"


def warm(
    namespace: NameOrNone = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Most requests to warm.")] = 100,
    since: Annotated[str, typer.Option(help="How far back to look for misses: 30m, 24h, 7d.")] = "24h",
    tenant: Annotated[str | None, typer.Option(help="This tenant's misses only.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Start what the plan says.")] = False,
    cancel: Annotated[str | None, typer.Option("--cancel", metavar="JOB", help="Cancel this warm-up.")] = None,
    demo: Demo = None,
    as_json: AsJson = False,
) -> None:
    """Plan a warm-up from the most frequent recorded misses; with --yes, run it and follow it."""
    if (namespace is None) == (cancel is None):
        raise typer.BadParameter("give a namespace, or --cancel with the id of a job")
    span_ms = _span_ms(since)
    from app.admin import warmup

    with contextlib.closing(wired(demo)) as wiring:
        ctx = context(wiring)
        if cancel:
            stopped = warmup.cancel_job(ctx, cancel)
            if as_json:
                show_json({"job_id": cancel, "cancelled": stopped})
            else:
                say("cancelled; requests under way are finished" if stopped else "it had ended already")
            return
        plan = warmup.plan_warmup(ctx, namespace or "", limit, ctx.clock() - span_ms, tenant)
        if not yes:
            _show_plan(plan, as_json=as_json)
            return
        result = warmup.start_warmup(ctx, plan.token, new_operation_id())
        if not result.ok:
            finish(result, as_json=as_json, words="")
        _follow(ctx, str(result.figures["job_id"]), as_json=as_json)


def _span_ms(text: str) -> int:
    found = _SPAN.fullmatch(text)
    if not found:
        raise typer.BadParameter(f"--since takes minutes, hours or days, such as 30m, 24h or 7d, not {text!r}")
    return int(found[1]) * _UNITS_MS[found[2]]


def _show_plan(plan: WarmupPlan, *, as_json: bool) -> None:
    if as_json:
        value = dataclasses.asdict(plan)
        del value["token"]
        show_json(value)
        return
    from app.views.warmup import asides

    cost = "unknown (no price is known for them)" if plan.cost_usd is None else f"{usd(plan.cost_usd)} for {plan.costed} of them"
    tokens = "an unknown number of" if plan.tokens is None else f"about {plan.tokens:.0f}"
    if not plan.items:
        say(f"{plain(plan.namespace)}: no miss was recorded in this time; see --since, or check the name")
        return
    say(f"{plain(plan.namespace)}: {plan.misses} misses of {plan.distinct} distinct requests")
    if plan.warmable:
        say(f"would warm {len(plan.warmable)}: {tokens} tokens, cost {cost}, at least {plan.seconds:.0f} s")
    else:
        say("would warm nothing")
    for line in asides(plan):
        say(line)
    table(
        ["misses", "tenant", "model", "prompt"],
        [(item.misses, item.tenant, item.model, (item.prompt or "")[:60]) for item in plan.items[:10]],
    )
    say(f"nothing was done{'; add --yes to run it' if plan.warmable else ''}")


def _follow(ctx: AdminContext, job_id: str, *, as_json: bool) -> None:
    """Print a job's progress until it ends; leave with exit code 1 unless it is done."""
    from storage import jobs

    if not as_json:
        say(f"job {job_id}; Ctrl-C leaves it running, `cachescope warm --cancel {job_id}` stops it")
    shown: dict[str, Any] = {}
    told = False
    while True:
        with ctx.ops.read() as conn:
            job = jobs.get(conn, job_id)
            alive = any(ctx.clock() - beat.last_ms < 5_000 for beat in jobs.beats(conn))
        if job is None:
            raise typer.Exit(FAILED)
        if job.state == "queued" and not alive and not told:
            complain("no worker is running, so the job waits: start one (cachescope worker)")
            told = True
        if dict(job.progress) != shown and not as_json:
            shown = dict(job.progress)
            failed = sum(shown.get("failed", {}).values())
            say(
                f"{shown.get('done', 0)}/{shown.get('total', 0)}: {shown.get('written', 0)} written, "
                f"{shown.get('already', 0)} already there, {failed} failed"
            )
        if job.state not in {"queued", "running"}:
            break
        ctx.pause(0.2)
    if as_json:
        show_json({"job_id": job_id, "state": job.state, "error": job.error, "figures": dict(job.progress)})
    elif job.state == "done" and not job.progress.get("written"):
        say("nothing was written: every answer that could be had was there already")
    if job.state != "done":
        complain(f"warm-up {job.state}: {job.error or 'see the audit'}")
        raise typer.Exit(FAILED)


def threshold(
    namespace: Name,
    value: Annotated[str | None, typer.Argument(metavar="[VALUE]", help="A cosine from -1 to 1, or `default`: the embedder's own.")] = None,
    history: Annotated[bool, typer.Option("--history", help="Show the recorded policies, newest first.")] = False,
    restore: Annotated[
        int | None, typer.Option("--restore", min=0, metavar="VERSION", help="Restore this version; the switch stays.")
    ] = None,
    demo: Demo = None,
    as_json: AsJson = False,
) -> None:
    """Show the similarity from which a namespace's candidates may serve, set it, or go back to an earlier policy."""
    if sum((value is not None, history, restore is not None)) > 1:
        raise typer.BadParameter("a value, --history and --restore exclude each other")
    wanted = None if value is None else _cosine(value)
    from app.admin import policy as policies

    with contextlib.closing(wired(demo)) as wiring:
        ctx = context(wiring)
        if history:
            _show_history(ctx, namespace, as_json=as_json)
            return
        now = policies.policy_in_force(ctx, namespace)
        if value is None and restore is None:
            shown = {"namespace": namespace, "version": now.version, **policies.as_json(now)}
            if as_json:
                show_json(shown)
            else:
                default = ctx.engine.state().embedder.get("default_threshold")
                table(["setting", "in force"], [(name, _in_force(name, one, default)) for name, one in shown.items()])
            return
        if restore is not None:
            result = policies.restore_policy(ctx, namespace, restore, new_operation_id(), now.version)
        else:
            result = policies.set_threshold(ctx, namespace, wanted, new_operation_id(), now.version)
    after = result.figures.get("after", {})
    finish(
        result,
        as_json=as_json,
        words=f"{plain(namespace)}: threshold {_shown(after.get('threshold'))}, policy version {after.get('version')}",
    )


def _cosine(text: str) -> float | None:
    if text == "default":
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not -1 <= value <= 1:
        raise typer.BadParameter(f"a threshold is a number from -1 to 1, or `default`, not {text!r}")
    return value


_OWN = "the embedder's own"


def _in_force(name: str, value: object, default: float | None) -> str:
    """default: the embedder's threshold, None where no gateway tells."""
    if name == "threshold" and value is None:
        return _OWN if default is None else f"{default:g} ({_OWN})"
    if name == "ttl_s" and isinstance(value, int | float):
        return f"{value:g} s ({value / 3_600:.3g} h)"
    return told(name, value)


def _shown(value: object) -> str:
    return _OWN if value is None else str(value)


def _show_history(ctx: AdminContext, namespace: str, *, as_json: bool) -> None:
    from storage import policies

    with ctx.ops.read() as conn:
        rows = policies.history(conn, namespace)
    if as_json:
        show_json([dataclasses.asdict(row) for row in rows])
        return
    table(
        ["version", "threshold", "switch", "by", "audit record"],
        [(row.version, _shown(row.policy.get("threshold")), row.policy.get("switch"), row.actor, row.act_id) for row in rows],
    )

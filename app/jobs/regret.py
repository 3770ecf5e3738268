"""What tuning could win, computed ahead: recorded lookups replayed under other settings, a namespace at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection

from app.admin.context import AdminContext
from app.analysis import regret
from app.analysis.key_sample import CERTAIN, part
from app.errors import AppError
from app.jobs import ahead, sampling
from app.jobs.run import JobRun, JobStopped
from app.views import regret_past as past
from app.views import words
from engine.types import Policy
from storage import analyses, labels, policies
from storage.errors import StoreMissing
from storage.reads import regret as reads
from storage.reads import sampling as samplers
from storage.reads.regret import StreamRow
from storage.reads.window import Scope, Window, horizons
from storage.store import Store

KIND: Final = "regret"
EVERY_MS: Final = min(past.EVERY_MS.values())
# Misses that no setting could have made hits: the client wanted none, or a fault hid what was stored.
_NO_SETTING: Final = {
    "request": "asked for a fresh answer",
    "tier_fault": "during a fault of the cache",
    "cache_fault": "during a fault of the cache",
    "control_stale": "during a fault of the cache",
}


def schedule(ops: Store, *, now_ms: int) -> None:
    """Queue an analysis every ten minutes."""
    ahead.schedule(ops, kind=KIND, every_ms=EVERY_MS, now_ms=now_ms, stored={KIND: ahead.KEEP_MS, **past.KEEP_MS})


def run(run: JobRun) -> Mapping[str, Any]:
    """Analyse the busiest namespaces over each horizon, those that have waited longest first. Return how many were."""
    figures: dict[str, Any] = {"done": 0, "total": 0, "put_off": 0}
    try:
        telemetry = run.ctx.telemetry()
    except StoreMissing:
        return figures
    now = run.ctx.clock()
    waiting = _waiting(run.ctx, telemetry, now)
    ahead.work(run, KIND, waiting, lambda due: past.with_past(_analyse(run, telemetry, *due[1:], now)), figures)
    return figures


def _waiting(ctx: AdminContext, telemetry: Store, now: int) -> list[tuple[int, str, str, int]]:
    """Return (computed at, horizon, namespace, lookups) of what is due, the oldest first."""
    found = []
    for horizon, length in past.LENGTH_MS.items():
        with ctx.ops.read() as conn:
            computed = analyses.ages(conn, kind=KIND, horizon=horizon)
        with telemetry.read() as conn:
            busiest = reads.busiest(conn, Window.of(now - length, now), limit=past.MOST_NAMESPACES)
        every = past.EVERY_MS[horizon] if past.EVERY_MS[horizon] > EVERY_MS else EVERY_MS // 2  # the job comes a little early at times
        found += [(computed.get(name, 0), horizon, name, n) for name, n in busiest if now - computed.get(name, 0) >= every]
    return sorted(found)


def _analyse(  # noqa: PLR0917 - one call
    run: JobRun, telemetry: Store, horizon: str, namespace: str, lookups: int, now: int
) -> analyses.Analysis:
    with telemetry.read() as conn:
        kept_from_ms = horizons(conn).raw_ms
    window = Window.of(max(kept_from_ms, now - past.LENGTH_MS[horizon]), now)
    ttl_s, ttl_from = _lifetime(run.ctx, namespace)
    with telemetry.read() as conn:
        refused = _refusal(conn, namespace, window)
        keyed, keyless = (0, 0) if refused else reads.counted(conn, namespace, window)
        taken = sampling.take(conn, namespace, window, keyed, ttl_ms=int(ttl_s * 1000))
    sample = taken.sample
    prepared = prepare(taken.rows)
    left_out = Counter[str]()
    for reason, rows in prepared.left_out.items():
        left_out[reason] = round(sum(row.n * (1.0 if sample is None or row.key in taken.certain else sample.lift) for row in rows))
    if keyless:
        left_out["no key"] = keyless
    if taken.unseen:
        left_out["of keys that the sample has none of"] = taken.unseen
    usable = sum(row.n for row in prepared.events)
    result = None
    if usable >= regret.FEW:
        from app.analysis import what_if  # noqa: PLC0415 - Numba and the compiled loops: half a second and 100 MB, paid when there is work

        groups, why_not = _groups(run.ctx, namespace, taken.rows, sampled=sample is not None)
        found = what_if.analyse(
            [_event(row, CERTAIN if sample is None or row.key in taken.certain else part(row.key)) for row in prepared.events],
            ttl_ms=int(ttl_s * 1000),
            sample=sample,
            left_out=left_out,
            groups=groups,
            why_no_groups=why_not,
            step=lambda: _go_on(run),
        )
        result = None if found is None else regret.as_json(found)
    told = {"ttl_s": ttl_s, "ttl_from": ttl_from, "usable": usable, "left_out": left_out}
    return analyses.Analysis(
        kind=KIND,
        namespace=namespace,
        horizon=horizon,
        at_ms=run.ctx.clock(),
        start_ms=window.start_ms,
        end_ms=window.end_ms,
        lookups=lookups,
        parameters=told | ({"refused": refused} if refused else {}),
        result=result,
    )


def _refusal(conn: Connection, namespace: str, window: Window) -> str:
    """Return why nothing is replayed, '' when it is. What a sampler dropped is not in the stream, and no weight puts back the distance
    between two requests of a key: with one request in ten kept, most that would hit look like first ones.
    """
    dropped = sum(one.lookups for one in samplers.kept(conn, window, Scope(namespace=namespace)) if one.ratio is None or one.ratio < 1)
    if not dropped:
        return ""
    return f"{words.many(dropped, 'lookup', 'lookups')} of it came through a sampler, and a replay of what is left says nothing of all"


def _go_on(run: JobRun) -> None:
    if run.stop.is_set():
        raise JobStopped("the worker was asked to stop")


def _lifetime(ctx: AdminContext, namespace: str) -> tuple[float, str]:
    """Return the TTL in seconds and where it comes from: the engine, the record of policies, or the default."""
    try:
        known = {row.name: row.policy.ttl_s for row in ctx.engine.namespaces()}
    except AppError:
        known = {}
    if namespace in known:
        return known[namespace], "engine"
    with ctx.ops.read() as conn:
        for version in policies.history(conn, namespace, limit=1):
            if isinstance(ttl_s := version.policy.get("ttl_s"), int | float) and ttl_s > 0:
                return float(ttl_s), "record of policies"
    return Policy().ttl_s, "default"


@dataclass(frozen=True, slots=True)
class Prepared:
    """The lookups that a setting of the cache could have changed, and why the others are left out."""

    events: tuple[StreamRow, ...]
    left_out: Mapping[str, Sequence[StreamRow]]


def prepare(rows: Sequence[StreamRow]) -> Prepared:
    """Return which rows to replay. A request that was coalesced came before its answer; one held out was sent upstream on purpose; one
    whose client wants a fresh answer, or that a fault kept from its entry, misses under every setting; and where the sender names entries,
    a key that never had one may not be stored."""
    stored = {row.key for row in rows if row.entry_id}
    kept: list[StreamRow] = []
    left_out: dict[str, list[StreamRow]] = {}
    for row in rows:
        if row.outcome in {"coalesced", "partial_hit"}:
            left_out.setdefault(row.outcome.replace("_", " "), []).append(row)
        elif row.held_out:
            left_out.setdefault("held out", []).append(row)
        elif row.outcome == "miss" and row.reason in _NO_SETTING:
            left_out.setdefault(_NO_SETTING[row.reason], []).append(row)
        elif stored and row.key not in stored:
            left_out.setdefault("never stored", []).append(row)
        else:
            kept.append(row)
    return Prepared(tuple(kept), left_out)


def _event(row: StreamRow, part_of: int) -> regret.Event:
    hit = row.outcome in {"exact_hit", "stale_hit"}
    served = row.outcome != "miss"
    return regret.Event(
        at_ms=row.at_ms,
        key=_key(row),
        hit=hit,
        semantic=row.outcome == "semantic_hit",
        age_ms=None if row.entry_age_s is None else row.entry_age_s * 1000,
        size_bytes=row.entry_bytes if hit else None,
        ms=row.saved_ms if served else row.upstream_ms,
        usd=row.saved_usd if served else row.cost_usd,
        count=row.n,
        part=part_of,
    )


def _key(row: StreamRow) -> str:
    """A purge gives a namespace a new generation: what was stored before it is another object."""
    return f"{row.key} {row.generation}"


def _groups(ctx: AdminContext, namespace: str, rows: Sequence[StreamRow], *, sampled: bool) -> tuple[dict[str, str] | None, str]:
    """Return key -> group of the keys that one entry served, or that a person labelled so; None with the reason when there are none."""
    if sampled:
        return None, "the keys are a sample, and links between them are lost in it"
    owner = {row.entry_id: _key(row) for row in rows if row.entry_id and row.outcome in {"miss", "exact_hit"}}
    with ctx.ops.read() as conn:
        pairs = labels.by_pair(labels.list(conn, namespace=namespace))
    # As on Thresholds a pair is what most people say of it. Where they are evenly divided, nothing was said.
    words = {(said[0].prompt_hash, said[0].candidate_id): serves for said in pairs if (serves := labels.majority(said)) is not None}
    by_prompt: dict[str, list[str]] = {}
    links = []
    for row in rows:
        by_prompt.setdefault(row.prompt_hash, []).append(_key(row))
        if row.outcome == "semantic_hit" and words.get((row.prompt_hash, row.entry_id), True):
            links.append((_key(row), owner.get(row.entry_id, f"entry {row.entry_id}")))
    for (prompt_hash, entry_id), serves in words.items():
        if serves and entry_id in owner:
            links += [(key, owner[entry_id]) for key in set(by_prompt.get(prompt_hash, ()))]
    if not links:
        return None, "no semantic hit and no label in this time"
    return regret.groups(links), ""

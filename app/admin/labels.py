"""A person's word on a recorded lookup and its candidate: the same answer serves both prompts, or does not."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from app.admin.context import AdminContext
from app.admin.record import ActResult, earlier, perform
from app.admin.roles import authorise
from app.errors import InvalidValue, Refused
from engine.types import VerifyMode
from engine.verify import parse, score, verify
from storage import labels
from storage.reads import traces

KIND = "label"
_TRACE, _SPAN = re.compile("[0-9a-fA-F]{32}"), re.compile("[0-9a-fA-F]{16}")


def label(ctx: AdminContext, trace_id: str, operation_id: str, *, serves: bool, span_id: str | None = None) -> ActResult:
    """Keep a person's word on the pair of a recorded lookup; the same person's earlier word on it is replaced.

    trace_id: 32 hex digits. span_id: 16, needed where the trace has several lookups with a candidate. Raises Refused.
    """
    authorise(ctx.actor, KIND, ctx.engine.capabilities)
    found = earlier(ctx, operation_id, kind=KIND)
    if found:
        return found
    row = _lookup(ctx, trace_id, span_id)
    namespace, prompt_hash, candidate = row["namespace"], row["prompt_hash"], row["candidate_id"] or row["entry_id"]
    told = {"trace_id": trace_id.lower(), "span_id": row["span_id"].hex(), "candidate_id": candidate, "serves": serves}

    def work() -> Mapping[str, Any]:
        given = labels.Label(
            namespace, prompt_hash, candidate, row["similarity"], serves, ctx.actor.name, ctx.clock(), features_of(row)
        )  # fmt: skip
        labels.put(ctx.ops, given)
        return {"serves": serves, "similarity": row["similarity"], "features": bool(given.features)}

    return perform(ctx, act_id=operation_id, kind=KIND, namespace=namespace, parameters=told, work=work)


def may_label(row: Mapping[str, Any]) -> bool:
    """Return whether a lookup has a pair to label. An exact hit has none: its prompt is the entry's."""
    exact = row["outcome"] == "exact_hit" or (row["held_out"] and row["candidates"] is None)
    named = row["prompt_hash"] and (row["candidate_id"] or row["entry_id"])
    return row["cache_kind"] == "response" and row["similarity"] is not None and not exact and bool(named)


def _lookup(ctx: AdminContext, trace_id: str, span_id: str | None) -> dict[str, Any]:
    if not _TRACE.fullmatch(trace_id) or (span_id and not _SPAN.fullmatch(span_id)):
        raise InvalidValue("a trace is named by 32 hex digits, and a span by 16, as Traces shows them. Nothing was changed")
    wanted, span = bytes.fromhex(trace_id), bytes.fromhex(span_id or "")
    with ctx.telemetry().read() as conn:
        found = [row for row in traces.trace_lookups(conn, wanted) if not span_id or row["span_id"] == span]
    able = [row for row in found if may_label(row)]
    if not found:
        raise Refused("no such lookup is stored: it may not have arrived yet, or be older than what is kept. Nothing was changed")
    if not able:
        raise Refused("this lookup had no semantic candidate with a prompt of its own: there is no pair to label. Nothing was changed")
    if len(able) > 1:
        spans = ", ".join(row["span_id"].hex() for row in able[:5])
        raise Refused(f"the trace has {len(able)} lookups with a candidate: say which, by its span ({spans}). Nothing was changed")
    return able[0]


def features_of(row: Mapping[str, Any]) -> str:
    """Return the verifier's features of a lookup's pair as JSON, '' where its prompts are not recorded. They hold no words of it."""
    if not row["prompt"] or not row["candidate_prompt"]:
        return ""
    asked, stored = parse(row["prompt"]), parse(row["candidate_prompt"])
    verdicts = verify(asked, stored, mode=VerifyMode.HARD)
    # As they are where none of them vetoes, for only then is a pair scored: which ones do depends on the namespace's mode.
    values = score.features(asked, stored, row["similarity"], [replace(verdict, veto=False) for verdict in verdicts])
    if values is None:
        return ""
    return json.dumps({"v": score.VERSION, "x": [round(value, 6) for value in values], "spoke": [verdict.rule for verdict in verdicts]})

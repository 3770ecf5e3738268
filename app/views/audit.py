"""Audit: who did what, and is the record whole?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from app.views import outcomes, words
from app.views.parts import Failure, attempt
from storage import actions
from storage.actions import Act, ChainStatus
from storage.store import Store

ACTS = "Record of acts"
SOURCES = (ACTS,)
PAGE = 100
_FOREVER_MS = 10**12  # after every undo window
STATES = {
    "pending": "pending",
    "done": "done",
    "failed": "failed",
    "cancelled": "cancelled",
    "undone": "undone",
    "reclaimed": "done, reclaimed",
}


@dataclass(frozen=True, slots=True)
class Audit:
    sentence: str
    bad: bool
    chain: ChainStatus | None
    acts: tuple[Act, ...]
    chosen: Act | None
    older_seq: int | None  # where the next page of older acts begins; None when there is none
    failures: tuple[Failure, ...]


def load(
    ops: Callable[[], Store],
    *,
    kind: str | None = None,
    namespace: str | None = None,
    act_id: str | None = None,
    before_seq: int | None = None,
) -> Audit:
    """Return the newest acts of this kind and namespace, the state of the whole chain, and the act asked for."""

    def read() -> tuple[ChainStatus, list[Act], Act | None]:
        with ops().read() as conn:
            found = actions.history(conn, limit=PAGE + 1, kind=kind, namespace=namespace, before_seq=before_seq)
            return actions.verify_chain(conn), found, actions.get(conn, act_id) if act_id else None

    part = attempt(ACTS, read, hides="every act and its outcome")
    if part.value is None:
        failures = (part.failure,) if part.failure else ()
        return Audit("The record of acts cannot be read", True, None, (), None, None, failures)
    chain, acts, chosen = part.value
    page = tuple(acts[:PAGE])
    return Audit(_sentence(chain), not chain.ok, chain, page, chosen, page[-1].seq if len(acts) > PAGE else None, ())


def _sentence(chain: ChainStatus) -> str:
    if not chain.ok:
        return (
            f"The record is broken at row {chain.broken_at_seq}: it was edited, or rows were removed; "
            f"{words.count(chain.events)} rows before it are whole"
        )
    if not chain.events:
        return "No act has been recorded yet"
    return f"The record is whole: {words.count(chain.events)} rows, each with the hash of the one before; head {chain.head_hash[:16]}"


def rows(view: Audit) -> list[dict[str, Any]]:
    """Return one row an act, newest first."""
    return [
        {
            "begun (UTC)": words.instant(act.started_ms),
            "act": outcomes.KINDS.get(act.kind, act.kind),
            "namespace": words.name(act.namespace) if act.namespace else "",
            "by": f"{words.one_line(act.actor, 40)} ({act.origin})",
            "state": STATES.get(act.state, act.state),
            "outcome": told(act),
            "took": words.duration_ms(act.finished_ms - act.started_ms) if act.finished_ms is not None else "",
            "record": record_link(act.act_id),
        }
        for act in view.acts
    ]


def record_link(act_id: str) -> str:
    """Return the address of an act's record, from any page of the console."""
    return f"audit?act={quote(act_id)}"


def told(act: Act) -> str:
    """Return what came of the act, without its name and without what was only true at that time."""
    return outcomes.told(outcomes.of(act), now_ms=act.events[-1].at_ms + _FOREVER_MS)


def events(act: Act) -> list[dict[str, Any]]:
    """Return one row an event, with its body as it stands in the record."""
    return [
        {
            "row": event.seq,
            "at (UTC)": words.instant(event.at_ms),
            "event": event.event,
            "by": f"{words.one_line(event.actor, 40)} ({event.origin})" if event.actor else event.origin,
            "recorded": words.one_line(_flat(event.body), 2_000),
            "hash": event.hash,
        }
        for event in act.events
    ]


def _flat(body: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in body.items())

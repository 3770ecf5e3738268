"""Purge: remove it, now, provably."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from app.adapters.base import EngineAdapter, NamespaceInfo, Preview, Via
from app.admin.actions import PurgePreview
from app.views import words
from app.views.audit import STATES, record_link, told
from app.views.dial import Dial
from app.views.parts import Failure, Part, attempt
from storage import actions, jobs
from storage.actions import Act
from storage.store import Store

ENGINE, ACTS = SOURCES = ("Cache engine", "Record of acts")
RECENT = 20


@dataclass(frozen=True, slots=True)
class RecentPurge:
    """A purge of the record. undo_left_ms: time left to undo it, None when it cannot be undone any more."""

    act: Act
    undo_left_ms: int | None
    reclaim: str


@dataclass(frozen=True, slots=True)
class PurgeView:
    sentence: str
    bad: bool
    namespaces: tuple[NamespaceInfo, ...]
    recent: tuple[RecentPurge, ...]
    failures: tuple[Failure, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(row.name for row in self.namespaces)

    def find(self, name: str) -> NamespaceInfo | None:
        return next((row for row in self.namespaces if row.name == name), None)


def load(engine: Callable[[], EngineAdapter], ops: Callable[[], Store], *, now_ms: int) -> PurgeView:
    """Return the namespaces with their switches, and the recent purges."""
    known = attempt(ENGINE, lambda: tuple(engine().namespaces()), hides="namespaces, switches and previews")
    recent = attempt(ACTS, lambda: _recent(ops(), now_ms), hides="recent purges and their undo")
    failures = tuple(part.failure for part in (known, recent) if part.failure)
    namespaces = known.value or ()
    sentence, bad = _sentence(known, recent.value or ())
    return PurgeView(sentence, bad, namespaces, recent.value or (), failures)


def _recent(store: Store, now_ms: int) -> tuple[RecentPurge, ...]:
    with store.read() as conn:
        acts = actions.history(conn, limit=RECENT, kind="purge")
        return tuple(_one(act, jobs.of_act(conn, act.act_id), now_ms) for act in acts)


def _one(act: Act, job: jobs.Job | None, now_ms: int) -> RecentPurge:
    waiting = act.state == "done" and job is not None and job.state == "queued"
    left = max(0, job.not_before_ms - now_ms) if waiting and job else None
    if job is None:
        reclaim = ""
    elif waiting:
        reclaim = f"in {words.age(left or 0)}"
    else:
        done = job.progress.get("done")
        reclaim = f"{job.state}, {words.count(done)} deleted" if isinstance(done, int) else job.state
    return RecentPurge(act, left, reclaim)


def _sentence(known: Part[tuple[NamespaceInfo, ...]], recent: tuple[RecentPurge, ...]) -> tuple[str, bool]:
    namespaces = known.value
    if namespaces is None:
        return "Nothing can be purged from here: the cache engine does not answer", True
    if not namespaces:
        return "The cache knows no namespace yet: there is nothing to purge", False
    off = [row.name for row in namespaces if row.policy.switch != "on"]
    undoable = sum(row.undo_left_ms is not None for row in recent)
    told = words.many(len(namespaces), "namespace", "namespaces")
    told += f", not fully on: {words.listed(words.name(name) for name in off)}" if off else ", all switched on"
    if undoable:
        told += f". {undoable} purge{'s' if undoable > 1 else ''} can be undone"
    if any(row.via == Via.STORE for row in namespaces):
        return f"{told}. No gateway answers: acts go to the shared store itself", True
    return told, False


def dials(preview: PurgePreview) -> list[Dial]:
    """Return what is at stake."""
    found = preview.preview
    span = words.span(found.oldest_ms, found.newest_ms) if found.oldest_ms and found.newest_ms else ""
    return [
        Dial("Entries", words.count(found.entries), "visible now, counted by the engine"),
        Dial("Size", words.size(found.bytes), "in the shared store"),
        Dial("Tenants", words.count(len(found.tenants)), _most(found.tenants)),
        Dial("Models", words.count(len(found.models)), _most(found.models)),
        *_stake(preview),
        Dial("Cost to make again", words.money(found.value_usd), "from the entries' own upstream calls"),
        Dial("Stored over", words.age(found.newest_ms - found.oldest_ms) if found.newest_ms and found.oldest_ms else words.NO_DATA, span),
    ]


def _stake(preview: PurgePreview) -> list[Dial]:
    stake = preview.stake
    if stake is None:
        unknown = words.one_line(preview.stake_unknown, 120)
        return [Dial("Hits a minute", words.NO_DATA, unknown), Dial("Saved a minute", words.NO_DATA, unknown)]
    detail, least = "recorded traffic of the last hour", ""
    if stake.sampled:
        detail, least = "of what a sampler let through in the last hour: there were more", "at least "
    unpriced = "no price is known for its models" if stake.saved_usd_per_minute is None else "only some hits have a price"
    return [
        Dial("Hits a minute", f"{least}{stake.hits_per_minute:,.2f}", detail),
        Dial(
            "Saved a minute",
            words.money(None) if stake.saved_usd_per_minute is None else least + words.money(stake.saved_usd_per_minute),
            unpriced if stake.partial else detail,
        ),
    ]


def _most(counts: Mapping[str, int]) -> str:
    top = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:3]
    return ", ".join(f"{words.name(name, 24)} {words.count(n)}" for name, n in top)


def tenant_rows(preview: Preview) -> list[dict[str, Any]]:
    return [{"tenant": words.name(name), "entries": n} for name, n in sorted(preview.tenants.items(), key=lambda item: (-item[1], item[0]))]


def sample_rows(preview: Preview) -> list[dict[str, Any]]:
    return [
        {
            "prompt": words.one_line(entry.prompt, 120) if entry.prompt else words.UNNAMED,
            "tenant": words.name(entry.tenant),
            "model": words.name(entry.model),
            "stored (UTC)": words.instant(entry.created_ms),
            "expires (UTC)": words.instant(entry.expires_ms),
            "size": words.size(entry.size_bytes),
            "entry": entry.entry_id,
        }
        for entry in preview.sample
    ]


def namespace_rows(view: PurgeView) -> list[dict[str, Any]]:
    return [
        {
            "namespace": words.name(row.name),
            "switch": row.policy.switch.value,
            "threshold": "embedder's default" if row.policy.threshold is None else f"{row.policy.threshold:.4f}",
            "verification": row.policy.verify_mode.value,
            "normaliser": row.policy.normaliser.value,
            "time to live": words.age(row.policy.ttl_s * 1000),
            "policy version": row.policy.version,
        }
        for row in view.namespaces
    ]


def recent_rows(view: PurgeView) -> list[dict[str, Any]]:
    return [
        {
            "begun (UTC)": words.instant(row.act.started_ms),
            "namespace": words.name(row.act.namespace),
            "by": f"{words.one_line(row.act.actor, 40)} ({row.act.origin})",
            "state": STATES.get(row.act.state, row.act.state),
            "outcome": told(row.act),
            "undo": f"for {words.age(row.undo_left_ms)}" if row.undo_left_ms is not None else "",
            "reclaim": row.reclaim,
            "record": record_link(row.act.act_id),
        }
        for row in view.recent
    ]

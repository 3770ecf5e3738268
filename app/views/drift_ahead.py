"""Drift as the worker computed it ahead, with its age; as it is now where the worker has not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from app.views import drift
from app.views.drift import Drift
from app.views.parts import Part, attempt
from storage import analyses
from storage.reads import drift as reads
from storage.reads.drift import MAX_SAMPLES, PromptSample
from storage.reads.window import Scope, Window
from storage.store import Store

OPS: Final = "Record of acts"
KIND_NAMESPACE: Final = "drift"  # of one namespace
KIND_ALL: Final = "drift_all"  # of all of them together
# How often the worker computes each of the bar's ranges, and how long that is. What is older than three times that is not shown.
EVERY_MS: Final = {"1h": 300_000, "6h": 600_000, "24h": 1_800_000, "7d": 3_600_000}
LENGTH_MS: Final = {"1h": 3_600_000, "6h": 21_600_000, "24h": 86_400_000, "7d": 604_800_000}
LATE: Final = 3
Samples = tuple[PromptSample, ...]


def load(
    telemetry: Callable[[], Store],
    ops: Callable[[], Store],
    *,
    window: Window,
    scope: Scope,
    window_name: str,
    horizon: str | None,
    now_ms: int,
    before: Window | None = None,
    before_name: str = "the period before",
) -> Drift:
    """Return what the worker computed of this range and scope against the period before it, else compare now.

    horizon: the bar's range, None for any other time.
    """
    scoped = scope in {Scope(), Scope(namespace=scope.namespace)}
    if horizon in EVERY_MS and scoped and before in {None, window.previous}:
        kept = attempt(OPS, lambda: _kept(ops(), str(horizon), scope, now_ms)).value
        if kept is not None:
            return drift.named(_recalled(kept, telemetry), window_name=window_name, before_name=before_name)
    return drift.load(telemetry, window=window, scope=scope, window_name=window_name, before=before, before_name=before_name)


def _kept(store: Store, horizon: str, scope: Scope, now_ms: int) -> Drift | None:
    kind = KIND_ALL if scope.namespace is None else KIND_NAMESPACE
    with store.read() as conn:
        found = analyses.one(conn, kind=kind, namespace=scope.namespace or "", horizon=horizon)
    if found is None or found.result is None or now_ms - found.at_ms > LATE * EVERY_MS[horizon]:
        return None
    view = from_json(found.result)
    return None if view is None else replace(view, computed_ms=found.at_ms)


@cache
def _adapter() -> TypeAdapter[Drift]:
    return TypeAdapter(Drift)


def _with_samples(view: Drift, of: Callable[[Samples], Samples]) -> Drift:
    new, vanished = (tuple(replace(kind, samples=of(kind.samples)) for kind in kinds) for kinds in (view.new, view.vanished))
    return replace(view, new=new, vanished=vanished, findings=tuple(replace(one, samples=of(one.samples)) for one in view.findings))


def _recalled(view: Drift, telemetry: Callable[[], Store]) -> Drift:
    """Return the view with its samples' texts, tenants and namespaces, as far as telemetry still holds them."""
    ids: set[int] = set()

    def gathered(samples: Samples) -> Samples:
        ids.update(sample.id for sample in samples)
        return samples

    _with_samples(view, gathered)
    wanted = sorted(ids)

    def read() -> dict[int, PromptSample]:
        found: dict[int, PromptSample] = {}
        with telemetry().read() as conn:
            for at in range(0, len(ids), MAX_SAMPLES):
                found |= {sample.id: sample for sample in reads.samples(conn, wanted[at : at + MAX_SAMPLES]).values()}
        return found

    part = attempt(drift.TELEMETRY, read, hides="texts, tenants and namespaces of prompts") if ids else Part({})
    known = {(sample.id, sample.prompt_hash): sample for sample in (part.value or {}).values()}  # a number may be given again

    def told(samples: Samples) -> Samples:
        return tuple(known[one.id, one.prompt_hash] for one in samples if (one.id, one.prompt_hash) in known)

    return replace(_with_samples(view, told), failures=(part.failure,) if part.failure else ())


def as_json(view: Drift) -> dict[str, Any]:
    """Return the view for the record of acts: its prompts by number and hash alone, for what telemetry forgets must be gone."""
    nameless = _with_samples(view, lambda samples: tuple(PromptSample(one.prompt_hash, None, "", "", one.id) for one in samples))
    return dict(_adapter().dump_python(nameless, mode="json"))


def from_json(told: Mapping[str, Any]) -> Drift | None:
    """Return what `as_json` was given, without the texts; None for what another version wrote."""
    try:
        return _adapter().validate_python(dict(told))
    except ValidationError:
        return None

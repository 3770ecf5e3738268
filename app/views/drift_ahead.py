"""Drift as the worker computed it ahead, with its age; as it is now where the worker has not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from app.views import drift
from app.views.drift import Drift
from app.views.parts import attempt
from storage import analyses
from storage.reads.window import Scope, Window
from storage.store import Store

OPS: Final = "Record of acts"
KIND_NAMESPACE: Final = "drift"  # of one namespace
KIND_ALL: Final = "drift_all"  # of all of them together
# How often the worker computes each of the bar's ranges, and how long that is. What is older than three times that is not shown.
EVERY_MS: Final = {"1h": 300_000, "6h": 600_000, "24h": 1_800_000, "7d": 3_600_000}
LENGTH_MS: Final = {"1h": 3_600_000, "6h": 21_600_000, "24h": 86_400_000, "7d": 604_800_000}
LATE: Final = 3


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
            return drift.named(kept, window_name=window_name, before_name=before_name)
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


def as_json(view: Drift) -> dict[str, Any]:
    return dict(_adapter().dump_python(view, mode="json"))


def from_json(told: Mapping[str, Any]) -> Drift | None:
    """Return what `as_json` was given; None for what another version wrote."""
    try:
        return _adapter().validate_python(dict(told))
    except ValidationError:
        return None

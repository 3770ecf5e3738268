"""Drift of the bar's ranges, computed ahead: over all namespaces, and of the busiest ones."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from app.admin.context import AdminContext
from app.jobs import ahead
from app.jobs.run import JobRun
from app.views import drift
from app.views.drift_ahead import EVERY_MS, KIND_ALL, KIND_NAMESPACE, LENGTH_MS, as_json
from app.views.likeness import NO_VECTORS, Vectors
from engine.embedders.base import Embedder
from engine.embedders.memo import digest
from engine.errors import EngineError
from storage import analyses
from storage.errors import StoreMissing
from storage.reads import regret as reads
from storage.reads.window import Scope, Window
from storage.store import Store

log = logging.getLogger(__name__)

KIND: Final = "drift"
MOST_NAMESPACES: Final = 8
MOST_CHARS: Final = 2_000  # of a prompt that is embedded: what comes after changes its vector little, and takes long
_BATCH: Final = 8
_MEMO: Final = 5_000  # vectors, 1.5 kB each


def schedule(ops: Store, *, now_ms: int) -> None:
    """Queue a job as often as the shortest range is computed."""
    ahead.schedule(
        ops, kind=KIND, every_ms=min(EVERY_MS.values()), now_ms=now_ms, stored=dict.fromkeys((KIND_ALL, KIND_NAMESPACE), ahead.KEEP_MS)
    )


def run(run: JobRun) -> Mapping[str, Any]:
    """Compare what is due, what has waited longest first. Return how many comparisons were made, and by whose vectors."""
    figures: dict[str, Any] = {"done": 0, "total": 0, "put_off": 0, "embedder": ""}
    try:
        telemetry = run.ctx.telemetry()
    except StoreMissing:
        return figures
    now = run.ctx.clock()
    vectors = PromptVectors(run.ctx)
    try:
        waiting = _waiting(run.ctx, telemetry, now)
        ahead.work(run, KIND, waiting, lambda due: [_compare(run.ctx, telemetry, vectors, *due[1:], now)], figures)
    finally:
        figures["embedder"] = vectors.close()
    return figures


def _waiting(ctx: AdminContext, telemetry: Store, now: int) -> list[tuple[int, str, str, str, int]]:
    """Return (computed at, range, kind, namespace, lookups) of what is due, the oldest first."""
    found = []
    for horizon, length in LENGTH_MS.items():
        with telemetry.read() as conn:
            busiest = reads.busiest(conn, Window.of(now - length, now), limit=MOST_NAMESPACES)
        with ctx.ops.read() as conn:
            ages = {kind: analyses.ages(conn, kind=kind, horizon=horizon) for kind in (KIND_ALL, KIND_NAMESPACE)}
        wanted = [(KIND_ALL, "", sum(n for _, n in busiest)), *((KIND_NAMESPACE, name, n) for name, n in busiest)] if busiest else []
        due = now - EVERY_MS[horizon] * 9 // 10  # a job is never quite on time
        found += [(ages[kind].get(name, 0), horizon, kind, name, n) for kind, name, n in wanted if ages[kind].get(name, 0) <= due]
    return sorted(found)


def _compare(  # noqa: PLR0917 - one call
    ctx: AdminContext, telemetry: Store, vectors: PromptVectors, horizon: str, kind: str, namespace: str, lookups: int, now: int
) -> analyses.Analysis:
    window = Window.of(now - LENGTH_MS[horizon], now)
    scope = Scope() if kind == KIND_ALL else Scope(namespace=namespace)
    view = drift.load(lambda: telemetry, window=window, scope=scope, window_name="this time", embed=vectors.of, thorough=True)
    told = None if view.failures else as_json(view)
    parameters = {"embedder": view.embedder, "why_no_vectors": view.why_no_vectors}
    return analyses.Analysis(kind, namespace, horizon, ctx.clock(), window.start_ms, window.end_ms, lookups, parameters, told)


_remembered: OrderedDict[tuple[str, bytes], NDArray[np.float32]] = OrderedDict()  # by embedder and text; one job at a time uses it


class PromptVectors:
    """Makes vectors of texts with the installation's embedder, opened when the first text is new. Without one there are none."""

    def __init__(self, ctx: AdminContext) -> None:
        self._ctx = ctx
        self._embedder: Embedder | None = None
        self._asked = False
        self._runner = asyncio.Runner()
        self._none = ""

    def of(self, texts: Mapping[str, str]) -> Vectors:
        """Return vectors of these texts by prompt; of none, and why not, when the embedder fails: the next texts are tried again."""
        if not self._asked:
            self._asked = True
            self._embedder, self._none = self._ctx.embedder()
        if self._embedder is None:
            return replace(NO_VECTORS, why_not=self._none)
        name = self._embedder.id
        keys = {prompt: (name, digest(text)) for prompt, text in texts.items()}
        missing = list({keys[prompt]: text for prompt, text in texts.items() if keys[prompt] not in _remembered}.items())
        try:
            for start in range(0, len(missing), _BATCH):
                part = missing[start : start + _BATCH]
                made = self._runner.run(self._embedder.embed([text[:MOST_CHARS] for _, text in part]))
                _remembered.update({key: made[place] for place, (key, _) in enumerate(part)})
        except EngineError as error:
            log.warning("prompts are compared by SimHash alone: %s", error)
            return replace(NO_VECTORS, why_not=str(error))
        found = {prompt: _remembered[key] for prompt, key in keys.items()}
        while len(_remembered) > _MEMO:
            _remembered.popitem(last=False)
        return Vectors(name, found)

    def close(self) -> str:
        """Close the embedder and return its id, '' when there was none."""
        try:
            if self._embedder is not None:
                self._runner.run(self._embedder.close())
        finally:
            self._runner.close()
        return "" if self._embedder is None else self._embedder.id

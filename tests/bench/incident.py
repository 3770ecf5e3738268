"""Writes a store in which the hit rate fell at a known time for a known reason, as the collector would have written it.

`python -m tests.bench.incident FOLDER [purge|model|traffic|outage] [minutes since]` fills FOLDER/telemetry.db and, for a purge, the
record of acts; then `CACHESCOPE_DATA_DIR=FOLDER cachescope console` shows it. Tests use `write`.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from storage import actions
from storage.store import Store, open_ops
from tests.support import telemetry
from tests.support.telemetry import Made

KINDS = ("purge", "model", "traffic", "outage")
_MINUTE_MS = 60_000
_ALWAYS_MISSED = 0.25  # prompts that nobody asked before: the demo's own texts are few, and soon all known


def made(kind: str, *, now_ms: int, at_ms: int, hours: float, per_minute: float, seed: int = 11) -> Iterator[Made]:
    """Yield requests of `hours` up to now. From `at_ms` on: faq's entries are gone, a new model version is asked, one client
    asks what nobody asked before, or nothing of the gateway arrives for ten minutes."""
    rng = random.Random(seed)
    start = now_ms - int(hours * 3_600_000)
    warm = start - 3 * 3_600_000  # requests before the first are made to fill what is known, and not kept
    drop = at_ms if kind == "purge" else None
    for one in telemetry.make(start_ms=warm, end_ms=now_ms, per_minute=per_minute, seed=seed, drop_after_ms=drop):
        row = one.lookup
        if row.at_ms < start:
            continue
        after = row.at_ms >= at_ms
        hit = row.outcome in {"exact_hit", "semantic_hit"}
        if hit and rng.random() < _ALWAYS_MISSED:
            row, hit = _missed(row), False
        if kind == "purge" and row.namespace == "faq":
            row = row._replace(generation="0193a0b1c2d3f-00aa11bb22cc33dd" if after else row.generation)
            row = _missed(row) if after and hit and rng.random() < 0.6 else row
        if kind == "model":
            row = row._replace(model_version="2026-10" if after and row.model == "demo-small" else "2026-04")
            if after and row.model == "demo-small" and hit and rng.random() < 0.75:
                row = _missed(row)
        if kind == "traffic" and after and row.tenant == "initech":
            row = row._replace(client="batch-import/1")
            row = _missed(row) if hit and rng.random() < 0.9 else row
        if kind == "outage" and at_ms <= row.at_ms < at_ms + 10 * _MINUTE_MS:
            continue
        yield replace(one, lookup=row)
        if kind == "traffic" and after and row.tenant == "initech":
            for _ in range(4):
                extra = _missed(row)._replace(
                    trace_id=rng.randbytes(16), span_id=rng.randbytes(8), prompt_hash=f"{rng.getrandbits(128):032x}"
                )
                span = one.gateway[0]._replace(trace_id=extra.trace_id, span_id=extra.span_id, parent_id=None)
                yield Made(span, (span,), extra)


def _missed(row: telemetry.LookupRow) -> telemetry.LookupRow:
    return row._replace(
        outcome="miss", tier="", reason="no_candidate", entry_id="", similarity=None, passed=None, saved_ms=None, saved_usd=None
    )


def write(store: Store, ops: Store | None, kind: str, *, now_ms: int, at_ms: int, hours: float = 2.0, per_minute: float = 30.0) -> int:
    """Write the incident; return how many lookups were written. ops: where the purge is put on record."""
    rows = list(made(kind, now_ms=now_ms, at_ms=at_ms, hours=hours, per_minute=per_minute))
    telemetry.write(store, rows, now_ms=now_ms)
    if kind == "purge" and ops is not None:
        act = f"{random.Random(at_ms).getrandbits(128):032x}"
        begun = {"act_id": act, "kind": "purge", "namespace": "faq", "actor": "ann", "origin": "console"}
        actions.begin(ops, **begun, body={}, at_ms=at_ms)
        actions.record(ops, act_id=act, event="done", body={"entries": 120}, at_ms=at_ms + 400)
    return len(rows)


if __name__ == "__main__":
    folder, kind = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "purge"
    folder.mkdir(parents=True, exist_ok=True)
    now = time.time_ns() // 1_000_000
    began = now - int(sys.argv[3] if len(sys.argv) > 3 else 25) * _MINUTE_MS
    with_acts = open_ops(telemetry.settings(folder))
    print(
        write(telemetry.open_store(folder), with_acts, kind, now_ms=now, at_ms=began),
        "lookups;",
        kind,
        "at",
        time.strftime("%H:%M UTC", time.gmtime(began / 1000)),
    )

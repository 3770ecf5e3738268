"""Rows and stores for the storage's tests."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from storage.rows import LookupRow, SourceBatch, SourceKey, SpanRow
from storage.settings import StorageSettings

MINUTE_NS = 60_000_000_000
START_NS = 1_800_000_000 * 1_000_000_000
GATEWAY = SourceKey("otlp_traces", "cachescope-gateway", "one", "cachescope.engine@1", "native")


def settings(folder: Path, *, busy_timeout_s: float = 60.0) -> StorageSettings:
    return StorageSettings(f"sqlite:///{folder}/telemetry.db", f"sqlite:///{folder}/ops.db", "NORMAL", busy_timeout_s)


@dataclass(frozen=True)
class Made:
    """One event: a span and, when it is a lookup, its row."""

    number: int
    trace: int = 0
    parent: int | None = None
    start_ns: int = START_NS
    duration_ms: float = 5.0
    status: int = 0
    name: str = "cachescope.lookup"
    service: str = "cachescope-gateway"
    is_lookup: bool = True
    outcome: str = "miss"
    extra: dict[str, object] = field(default_factory=dict)

    @property
    def ids(self) -> tuple[bytes, bytes]:
        return (self.trace + 1).to_bytes(16, "big"), (self.number + 1).to_bytes(8, "big")

    def span(self) -> SpanRow:
        trace_id, span_id = self.ids
        parent = None if self.parent is None else (self.parent + 1).to_bytes(8, "big")
        end_ns = self.start_ns + int(self.duration_ms * 1_000_000)
        hot = (
            self.name,
            2,
            self.start_ns,
            end_ns,
            self.status,
            "",
            self.service,
            "chat",
            "openai",
            "m1",
            10,
            5,
            None,
            "",
            0.01,
            False,
        )
        return SpanRow(trace_id, span_id, parent, *hot, payload=b"payload %d" % self.number)

    def lookup(self) -> LookupRow:
        values: dict[str, object] = {"namespace": "faq", "tenant": "t1", "model": "m1", "tier": "", **self.extra}
        at_ms = self.start_ns // 1_000_000
        return LookupRow(*self.ids, "native", "response", at_ms, self.duration_ms, self.outcome, **values)  # type: ignore[arg-type]


def batch(*events: Made, source: SourceKey = GATEWAY, **options: object) -> SourceBatch:
    lookups = [event.lookup() for event in events if event.is_lookup]
    return SourceBatch(source, [event.span() for event in events], lookups, **options)  # type: ignore[arg-type]

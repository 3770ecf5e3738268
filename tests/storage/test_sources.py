from __future__ import annotations

from storage import spans
from storage.store import Store
from tests.storage.support import Made, batch
from tests.storage.test_spans import one

HOUR = 3_600_000


def test_when_a_source_was_seen_is_put_right_with_the_clock(telemetry: Store) -> None:
    for now_ms, seen_ms in ((2 * HOUR, 2 * HOUR), (2 * HOUR - 5_000, 2 * HOUR), (900 * HOUR, 900 * HOUR), (3 * HOUR, 3 * HOUR)):
        spans.write(telemetry, [batch(Made(now_ms, trace=now_ms))], now_ms=now_ms)
        assert one(telemetry, "SELECT last_seen_ms FROM sources") == seen_ms

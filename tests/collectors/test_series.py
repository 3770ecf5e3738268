"""The bound on the series of pushed metrics is one on those of the last day."""

from __future__ import annotations

from collectors.otlp.series import SeenSeries
from storage.rows import SampleRow, SourceKey

HOUR = 3_600


def test_series_that_are_gone_make_room_a_day_later_and_those_that_stay_are_kept() -> None:
    now = [0.0]
    seen = SeenSeries(3, clock=lambda: now[0])

    def taken(*pods: str) -> list[str]:
        """Each process of a service is a source of its own."""
        first = SampleRow("cache.hits_total", "{}", "counter", 1, 1.0)
        return [pod for pod in pods if seen.has_room(SourceKey("otlp_metrics", "app", pod, "meter"), first)]

    assert taken("stays", "gone 1", "gone 2") == ["stays", "gone 1", "gone 2"]
    now[0] += 12 * HOUR
    assert taken("stays", "new 1", "new 2") == ["stays"]
    now[0] += 12 * HOUR + 1
    assert taken("new 1", "new 2", "new 3", "stays") == ["new 1", "new 2", "stays"]
    now[0] += 24 * HOUR + 1
    assert taken("new 3") == ["new 3"]
    assert len(seen) == 1

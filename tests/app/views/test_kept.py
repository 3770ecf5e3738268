from __future__ import annotations

from app.views import kept
from storage.reads.window import Horizons, Window

HOUR = 3_600_000
LEFT = Horizons(raw_ms=100 * HOUR, tens_ms=100 * HOUR, minutes_ms=50 * HOUR, hours_ms=10 * HOUR)


def test_a_window_that_is_kept_whole_needs_no_words() -> None:
    assert not kept.note(Horizons(), Window(0, HOUR))
    assert not kept.note(LEFT, Window(100 * HOUR, 101 * HOUR))


def test_what_is_gone_is_said_and_what_that_hides() -> None:
    raw = kept.note(LEFT, Window(99 * HOUR, 101 * HOUR))
    assert "before 1970-01-05 04:00 UTC have been removed" in raw
    assert "whole hours" not in raw
    assert "Before 1970-01-03 02:00 UTC only whole hours" in kept.note(LEFT, Window(49 * HOUR, 101 * HOUR))
    assert kept.note(LEFT, Window(100 * HOUR, 101 * HOUR), Window(99 * HOUR, 100 * HOUR)) == f"Of the time compared with: {raw}"
    assert kept.note(LEFT, Window(99 * HOUR, 101 * HOUR), Window(97 * HOUR, 99 * HOUR)) == raw
    assert kept.note(LEFT, Window(0, HOUR)).endswith("Nothing from before 1970-01-01 10:00 UTC is kept.")

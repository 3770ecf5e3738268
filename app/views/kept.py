"""What retention has removed of a window, in words."""

from __future__ import annotations

from app.views import words
from storage.reads.window import Horizons, Window


def note(left: Horizons, window: Window) -> str:
    """Return what of the window is not there any more and what that hides; '' when all of it is kept."""
    told = []
    if window.start_ms < left.raw_ms:
        told.append(
            f"Spans and lookups from before {words.instant(left.raw_ms)[:16]} UTC have been removed: rates and durations go on from sums, "
            "lists and samples begin there."
        )
    if window.start_ms < left.minutes_ms:
        told.append(f"Before {words.instant(left.minutes_ms)[:16]} UTC only whole hours inside the window are counted.")
    if window.start_ms < left.hours_ms:
        told.append(f"Nothing from before {words.instant(left.hours_ms)[:16]} UTC is kept.")
    return " ".join(told)

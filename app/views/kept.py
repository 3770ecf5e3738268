"""What retention has removed of a window, in words."""

from __future__ import annotations

from app.views import words
from storage.reads.window import Horizons, Window


def note(left: Horizons, window: Window, compared: Window | None = None) -> str:
    """Return what of the window, and of the one that it is compared with, is gone and what that hides; '' when all is kept."""
    mine = _removed(left, window)
    others = [line for line in _removed(left, compared) if line not in mine] if compared else []
    return " ".join([*mine, *(["Of the time compared with:", *others] if others else [])])


def _removed(left: Horizons, window: Window) -> list[str]:
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
    return told

"""What a page of rates is asked."""

from __future__ import annotations

from dataclasses import dataclass

from storage.reads.window import Scope, Window


@dataclass(frozen=True, slots=True)
class Question:
    """before: compared with; None = the period before. usd_per_hour: what running the cache costs, None = not known."""

    window: Window
    scope: Scope
    window_name: str
    now_ms: int
    before: Window | None = None
    before_name: str = "the period before"
    usd_per_hour: float | None = None

    @property
    def compared(self) -> Window:
        return self.before or self.window.previous

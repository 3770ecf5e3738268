"""Waiting inside an event loop, with a deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable


async def eventually(condition: Callable[[], object], *, what: str, timeout_s: float = 60.0) -> None:
    """Poll, giving way to the loop, until the condition is true; fail with `what` at the deadline."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s} s: {what}")
        await asyncio.sleep(0.01)

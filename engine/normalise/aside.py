"""One thread beside the event loop, where texts are parsed: a long statement takes some 50 ms, which no other request waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from engine.types import Normaliser

T = TypeVar("T")
# A regular expression or two: less than the way to the thread and back.
_AT_ONCE = frozenset({Normaliser.NONE, Normaliser.WHITESPACE})


class Aside:
    """The thread begins with its first work. One, so that parsing never takes more of the interpreter than the loop does."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None

    async def run(self, kind: Normaliser, work: Callable[[], T]) -> T:
        """Return what the work returns, done in the thread when this normaliser parses. What it raises comes through."""
        if kind in _AT_ONCE:
            return work()
        if self._pool is None:
            self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="normalise")
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

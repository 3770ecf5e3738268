"""Texts of concurrent callers in few requests: equal ones are asked once, and those that come while all places are taken go together."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from engine.embedders.memo import VectorMemo, digest
from engine.errors import EmbedderMismatch, EmbedderUnavailable

Ask = Callable[[list[str]], Awaitable[NDArray[np.float32]]]


class TextRefused(EmbedderUnavailable):
    """What was asked was refused, not the asking: another text may be taken."""


class Batches:
    """ask: returns the vectors of some texts, shape (len(texts), dimension). Use from one event loop.

    most_texts: in one request; most_asking: requests at a time; most_waiting: texts, above which EmbedderUnavailable.
    """

    def __init__(self, ask: Ask, memo: VectorMemo, *, most_texts: int, most_asking: int, most_waiting: int) -> None:
        self._ask = ask
        self._memo = memo
        self._most_texts = most_texts
        self._most_asking = most_asking
        self._most_waiting = most_waiting
        self._known: dict[bytes, asyncio.Future[NDArray[np.float32]]] = {}
        self._queue: deque[tuple[bytes, str]] = deque()
        self._asking: set[asyncio.Task[None]] = set()
        self._closed = False

    async def embed(self, texts: Sequence[str], out: NDArray[np.float32]) -> None:
        """Write the texts' vectors into out, shape (len(texts), dimension). Raises what `ask` raises, and EmbedderUnavailable."""
        pending: list[tuple[int, asyncio.Future[NDArray[np.float32]]]] = []
        for row, text in enumerate(texts):
            key = digest(text)
            vector = self._memo.get(key)
            if vector is None:
                pending.append((row, self._submit(key, text, first=not pending)))
            else:
                out[row] = vector
        for row, future in pending:
            # Shielded: a caller that leaves must not cancel the text for those who wait for the same one.
            out[row] = await asyncio.shield(future)

    def _submit(self, key: bytes, text: str, *, first: bool) -> asyncio.Future[NDArray[np.float32]]:
        known = self._known.get(key)
        if known is not None:
            return known
        if self._closed:
            raise EmbedderUnavailable("the embedder is closed")
        if first and len(self._known) >= self._most_waiting:
            raise EmbedderUnavailable(f"{len(self._known)} texts wait for the embedder; at most {self._most_waiting} may")
        future = self._known[key] = asyncio.get_running_loop().create_future()
        future.add_done_callback(_seen)
        self._queue.append((key, text))
        if len(self._asking) < self._most_asking:
            self._begin()
        return future

    def _begin(self) -> None:
        task = asyncio.create_task(self._run())
        self._asking.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._asking.discard(task)
        if self._queue:  # it came after the task's last look, and before its place was free
            self._begin()

    async def _run(self) -> None:
        # A task begins after whoever made it has handed in all its texts, and others of this turn of the loop theirs.
        while self._queue:
            batch = [self._queue.popleft() for _ in range(min(self._most_texts, len(self._queue)))]
            waiting = [self._known[key] for key, _ in batch]
            try:
                vectors = await self._ask([text for _, text in batch])
            except TextRefused as error:
                if len(batch) > 1:  # one text must not cost those of other callers their vectors
                    await self._alone(batch)
                else:
                    waiting[0].set_exception(error)
            except (EmbedderUnavailable, EmbedderMismatch) as error:
                for future in waiting:
                    future.set_exception(error)
            else:
                for (key, _), future, vector in zip(batch, waiting, vectors, strict=True):
                    self._memo.put(key, vector)
                    future.set_result(vector)
            finally:
                for (key, _), future in zip(batch, waiting, strict=True):
                    self._known.pop(key, None)
                    if not future.done():  # it was closed meanwhile
                        future.set_exception(EmbedderUnavailable("the embedder gave no vector"))

    async def _alone(self, batch: list[tuple[bytes, str]]) -> None:
        for key, text in batch:
            try:
                [vector] = await self._ask([text])
            except (EmbedderUnavailable, EmbedderMismatch) as error:
                self._known[key].set_exception(error)
            else:
                self._memo.put(key, vector)
                self._known[key].set_result(vector)

    async def close(self) -> None:
        """Give up what waits: whoever waits for it is told so."""
        self._closed = True
        self._queue.clear()
        for task in list(self._asking):
            task.cancel()
        await asyncio.gather(*self._asking, return_exceptions=True)
        for future in self._known.values():
            future.set_exception(EmbedderUnavailable("the embedder is closed"))
        self._known.clear()


def _seen(future: asyncio.Future[NDArray[np.float32]]) -> None:
    """Take note of an exception that nobody waits for any more: all who asked have left."""
    if not future.cancelled():
        future.exception()

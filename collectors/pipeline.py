"""Between the receivers and the store: a queue bounded by bytes, one writer, one transaction for what waits.

A caller's `submit` returns after the commit of its rows; what was acknowledged survives a kill. While one transaction
runs, others gather; the more wait, the more share the next commit.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

from collectors.errors import CollectorError, Overloaded, StoreUnavailable, TooLarge, WriteFailed
from collectors.metrics import CollectorMetrics
from storage.errors import StorageError
from storage.rows import MetricBatch, SourceBatch, WriteResult

T = TypeVar("T")
Batch = SourceBatch | MetricBatch
Write = Callable[[Sequence[Batch]], Sequence[WriteResult]]

# Batches in one transaction: a commit stays under about a second, and an answer under an exporter's ten.
_GROUP_SPANS = 8_192


class Lease:
    """A share of the queue's bytes, taken while a body is read and given back after its commit."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self.bytes = 0

    def grow(self, size: int) -> None:
        """Take more. Raises Overloaded when the queue is full, TooLarge when it could never hold so much."""
        self._pipeline.take(size, of=self.bytes + size)
        self.bytes += size

    def release(self) -> None:
        """Give everything back; a second call does nothing."""
        self._pipeline.give(self.bytes)
        self.bytes = 0


class _Waiting(NamedTuple):
    batches: Sequence[Batch]
    rows: int
    lease: Lease
    done: asyncio.Future[int]


class Pipeline:
    """write: commits batches in one transaction and is idempotent; it is called on one thread only."""

    def __init__(self, write: Write, *, queue_bytes: int, metrics: CollectorMetrics) -> None:
        self._write = write
        self._queue_bytes = queue_bytes
        self._metrics = metrics
        self._used = 0
        self._queue: deque[_Waiting] = deque()
        self._wake = asyncio.Event()
        self._closing = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="writer")
        self._task: asyncio.Task[None] | None = None
        self.fault = ""  # why the store did not commit the last time; '' after a good one

    def start(self) -> None:
        """Start the writer. Needs a running loop."""
        self._task = asyncio.create_task(self._run(), name="writer")

    def lease(self) -> Lease:
        return Lease(self)

    def take(self, size: int, *, of: int) -> None:
        if of > self._queue_bytes:
            raise TooLarge(f"the body is larger than the collector's whole queue of {self._queue_bytes} bytes")
        self.check_room(size)
        self._used += size
        self._metrics.queue_bytes.set(self._used)

    def check_room(self, size: int = 1) -> None:
        """Raises Overloaded when so many bytes more cannot be taken now."""
        if self._closing or self._used + size > self._queue_bytes:
            self._metrics.failures.labels("queue", "closing" if self._closing else "full").inc()
            raise Overloaded("the collector has more waiting than it may hold; send again later")

    def give(self, size: int) -> None:
        self._used -= size
        self._metrics.queue_bytes.set(self._used)

    async def submit(self, batches: Sequence[Batch], *, lease: Lease) -> int:
        """Return after the batches are committed how many spans or points the store could not hold.

        The lease is the pipeline's from here on.
        Raises StoreUnavailable when the store did not commit, WriteFailed when it never will.
        """
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._queue.append(_Waiting(batches, sum(map(_rows, batches)), lease, done))
        self._wake.set()
        return await done

    async def call(self, function: Callable[[], T], *, writes: bool = False) -> T:
        """Run something else (scraped samples, retention) on the writer's thread: one writer a file.

        writes: it ends in a commit, and a good one ends the fault of an earlier one, for no sender may come to show it.
        """
        result = await asyncio.get_running_loop().run_in_executor(self._thread, function)
        if writes:
            self.fault = ""
        return result

    async def close(self) -> None:
        """Take nothing more, commit what waits, stop the writer."""
        self._closing = True
        self._wake.set()
        if self._task:
            await self._task
        await asyncio.to_thread(self._thread.shutdown)

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._queue:
                await self._commit(self._next_group())
            if self._closing:
                return

    def _next_group(self) -> list[_Waiting]:
        group = [self._queue.popleft()]
        rows = group[0].rows
        while self._queue and rows + self._queue[0].rows <= _GROUP_SPANS:
            group.append(self._queue.popleft())
            rows += group[-1].rows
        return group

    async def _commit(self, group: list[_Waiting]) -> None:
        outcome = await self._attempt(group)
        if isinstance(outcome, WriteFailed) and len(group) > 1:
            # Several requests shared the transaction: each alone, so that one poisonous batch fails by itself.
            for waiting in group:
                _resolve([waiting], await self._attempt([waiting]))
        else:
            _resolve(group, outcome)

    async def _attempt(self, group: list[_Waiting]) -> Sequence[WriteResult] | CollectorError:
        batches = [batch for waiting in group for batch in waiting.batches]
        started = time.perf_counter()
        try:
            results = await self.call(lambda: self._write(batches))
        except StorageError as error:
            # A broken database too: the operator mends it, and the sender's copy is the only one.
            self.fault = type(error).__name__
            self._failed(self.fault)
            return StoreUnavailable(f"the store did not commit ({type(error).__name__}); nothing was lost, send again later")
        except Exception as error:  # noqa: BLE001 - the process's one write loop; counted, answered, and it goes on
            self._failed(type(error).__name__)
            return WriteFailed(f"the rows could not be written ({type(error).__name__})")
        self.fault = ""
        self._metrics.commits.labels("ok").inc()
        self._metrics.commit_seconds.observe(time.perf_counter() - started)
        for batch, result in zip(batches, results, strict=True):
            of_points = isinstance(batch, MetricBatch)
            (self._metrics.committed_points if of_points else self._metrics.committed_spans).inc(result.accepted)
            (self._metrics.duplicate_points if of_points else self._metrics.duplicate_spans).inc(result.duplicates)
        return results

    def _failed(self, reason: str) -> None:
        self._metrics.commits.labels("failed").inc()
        self._metrics.failures.labels("store", reason).inc()


def _rows(batch: Batch) -> int:
    """Return how many spans or points are written: a point is up to some hundred samples, but few senders send many."""
    return len(batch.points) if isinstance(batch, MetricBatch) else len(batch.spans)


def _resolve(group: list[_Waiting], outcome: Sequence[WriteResult] | CollectorError) -> None:
    """Tell each sender. results lie in the order of the batches, request by request."""
    place = 0
    for waiting in group:
        waiting.lease.release()
        if isinstance(outcome, CollectorError):
            if not waiting.done.done():  # else the sender left; its rows stand
                waiting.done.set_exception(outcome)
            continue
        mine = outcome[place : place + len(waiting.batches)]
        place += len(waiting.batches)
        if not waiting.done.done():
            waiting.done.set_result(waiting.rows - sum(result.accepted + result.duplicates for result in mine))

"""The queue, the group commit, and what each sender is told."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from collectors.errors import Overloaded, StoreUnavailable, TooLarge, WriteFailed
from collectors.metrics import CollectorMetrics
from collectors.otlp.decode import PROTOBUF, decode_traces
from collectors.pipeline import Pipeline
from storage.errors import StoreBusy, StoreCorrupt, StoreFull
from storage.rows import SourceBatch, WriteResult
from tests.collectors.support import request
from tests.collectors.test_decode import SETTINGS


def batches(first: int, *, service: str = "shop") -> list[SourceBatch]:
    body = request(2, first=first, service=service).SerializeToString()
    return decode_traces(body, PROTOBUF, SETTINGS).batches


class Store:
    """What the pipeline writes to: an owned seam. Blocks until `open` is set, fails as told."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.open.set()
        self.transactions: list[list[str]] = []
        self.error: Exception | None = None
        self.unstorable = 0

    def write(self, given: Sequence[SourceBatch]) -> Sequence[WriteResult]:
        self.open.wait(timeout=20)
        services = [batch.source.service for batch in given]
        if self.error:
            raise self.error
        if "poison" in services:
            raise ZeroDivisionError
        self.transactions.append(services)
        return [WriteResult(len(batch.spans) - self.unstorable, 0, 0) for batch in given]


async def submitted(pipeline: Pipeline, first: int, *, service: str = "shop", size: int = 10) -> asyncio.Task[int]:
    lease = pipeline.lease()
    lease.grow(size)
    task = asyncio.create_task(pipeline.submit(batches(first, service=service), lease=lease))
    await asyncio.sleep(0)
    return task


async def test_requests_that_wait_together_share_a_transaction_and_each_is_answered() -> None:
    store, metrics = Store(), CollectorMetrics()
    pipeline = Pipeline(store.write, queue_bytes=1000, metrics=metrics)
    pipeline.start()
    store.open.clear()
    tasks = [await submitted(pipeline, first) for first in range(0, 20, 2)]
    assert not any(task.done() for task in tasks)
    assert pipeline._used == 100
    store.open.set()
    assert await asyncio.gather(*tasks) == [0] * 10
    assert len(store.transactions) <= 2
    assert pipeline._used == 0
    await pipeline.close()


async def test_one_poisonous_request_cannot_fail_the_others() -> None:
    store = Store()
    pipeline = Pipeline(store.write, queue_bytes=1000, metrics=CollectorMetrics())
    store.open.clear()
    pipeline.start()
    services = ["first", "good", "poison", "fine"]
    tasks = [await submitted(pipeline, 2 * number, service=name) for number, name in enumerate(services)]
    store.open.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [result for result in results if result == 0] == [0, 0, 0]
    assert isinstance(results[2], WriteFailed)
    assert pipeline._used == 0
    await pipeline.close()


@pytest.mark.parametrize("error", [StoreFull("full"), StoreCorrupt("broken")])
async def test_a_store_that_cannot_commit_is_told_as_retryable_and_counted(error: Exception) -> None:
    store, metrics = Store(), CollectorMetrics()
    store.error = error
    pipeline = Pipeline(store.write, queue_bytes=1000, metrics=metrics)
    pipeline.start()
    task = await submitted(pipeline, 0)
    with pytest.raises(StoreUnavailable):
        await task
    name = type(error).__name__
    assert pipeline.fault == name
    assert metrics.registry.get_sample_value("cachescope_collector_failures_total", {"place": "store", "reason": name}) == 1
    store.error = None
    assert await (await submitted(pipeline, 2)) == 0
    assert pipeline.fault == ""
    await pipeline.close()


async def test_a_full_queue_refuses_and_takes_again_after_the_commit() -> None:
    store = Store()
    store.open.clear()
    pipeline = Pipeline(store.write, queue_bytes=25, metrics=CollectorMetrics())
    pipeline.start()
    tasks = [await submitted(pipeline, first) for first in (0, 2)]
    with pytest.raises(Overloaded):
        pipeline.lease().grow(10)
    with pytest.raises(TooLarge):
        pipeline.lease().grow(26)
    store.open.set()
    await asyncio.gather(*tasks)
    assert await (await submitted(pipeline, 4)) == 0
    await pipeline.close()


async def test_a_sender_that_left_changes_nothing_for_the_others() -> None:
    store = Store()
    store.open.clear()
    pipeline = Pipeline(store.write, queue_bytes=1000, metrics=CollectorMetrics())
    pipeline.start()
    tasks = [await submitted(pipeline, first) for first in (0, 2, 4)]
    tasks[1].cancel()
    store.open.set()
    assert (await asyncio.gather(*tasks, return_exceptions=True))[::2] == [0, 0]
    assert sum(len(group) for group in store.transactions) == 3
    assert pipeline._used == 0
    await pipeline.close()


async def test_what_the_store_could_not_hold_is_told_to_its_sender() -> None:
    store = Store()
    store.unstorable = 1
    pipeline = Pipeline(store.write, queue_bytes=1000, metrics=CollectorMetrics())
    pipeline.start()
    assert await (await submitted(pipeline, 0)) == 1
    await pipeline.close()


async def test_closing_commits_what_waits_and_takes_nothing_more() -> None:
    store = Store()
    store.open.clear()
    pipeline = Pipeline(store.write, queue_bytes=1000, metrics=CollectorMetrics())
    pipeline.start()
    tasks = [await submitted(pipeline, first) for first in range(0, 8, 2)]
    closing = asyncio.create_task(pipeline.close())
    await asyncio.sleep(0)
    with pytest.raises(Overloaded):
        pipeline.lease().grow(1)
    store.open.set()
    await closing
    assert [await task for task in tasks] == [0] * 4


async def test_a_group_is_bounded_by_its_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collectors.pipeline._GROUP_SPANS", 4)
    store = Store()
    store.open.clear()
    pipeline = Pipeline(store.write, queue_bytes=1000, metrics=CollectorMetrics())
    pipeline.start()
    tasks = [await submitted(pipeline, first) for first in range(0, 20, 2)]
    store.open.set()
    await asyncio.gather(*tasks)
    assert max(len(group) for group in store.transactions) <= 2
    await pipeline.close()


async def test_a_good_write_of_another_kind_ends_the_fault() -> None:
    store = Store()
    pipeline = Pipeline(store.write, queue_bytes=1000, metrics=CollectorMetrics())
    pipeline.start()
    store.error = StoreBusy("busy")
    with pytest.raises(StoreUnavailable):
        await (await submitted(pipeline, 0))
    assert pipeline.fault == "StoreBusy"
    await pipeline.call(lambda: None)  # it only read
    assert pipeline.fault == "StoreBusy"
    await pipeline.call(lambda: None, writes=True)
    assert pipeline.fault == ""
    await pipeline.close()

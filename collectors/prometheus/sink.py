"""From what was seen of a source to the store, on the writer's own thread: one writer a file."""

from __future__ import annotations

from collectors.pipeline import Pipeline
from storage import counters, metrics
from storage.rows import Scrape, SourceKey
from storage.store import Store


class StoreSink:
    """The one Sink there is outside of tests."""

    def __init__(self, store: Store, pipeline: Pipeline) -> None:
        self._store = store
        self._pipeline = pipeline

    async def scraped(self, source: SourceKey, scrape: Scrape, *, max_series: int) -> str:
        """Store it; return what is wrong with it. Raises StorageError when the store does not commit."""
        return await self._pipeline.call(
            lambda: counters.write_scrape(self._store, source, scrape, now_ms=scrape.at_ms, max_series=max_series), writes=True
        )

    async def failed(self, source: SourceKey, error: str, now_ms: int) -> None:
        """Store that a look at a source failed. Raises StorageError when the store does not commit."""
        await self._pipeline.call(lambda: metrics.record_scrape_error(self._store, source, error, now_ms=now_ms), writes=True)

    async def newest_ms(self, source: SourceKey) -> int | None:
        """Return the time of the newest reading stored of a source. Raises StorageError."""
        return await self._pipeline.call(lambda: counters.newest_ms(self._store, source))

    async def snapshot(self, source: SourceKey, topic: str) -> str | None:
        """Return the JSON stored last under a topic. Raises StorageError."""
        return await self._pipeline.call(lambda: counters.snapshot(self._store, source, topic))

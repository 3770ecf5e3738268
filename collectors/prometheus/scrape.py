"""Fetches /metrics pages at jittered intervals and stores their samples; a failed scrape is stored as such."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol
from urllib.parse import urlsplit, urlunsplit

import httpx

from collectors.errors import ScrapeFailed
from collectors.metrics import CollectorMetrics
from collectors.prometheus.parse import Page, parse
from collectors.settings import ScrapeTarget
from storage.rows import SampleRow, SourceKey

_MAX_PAGE_BYTES = 16 * 1024 * 1024
_MAX_OTHERS = 5_000  # samples of foreign families a scrape: what a large exporter gives, and a bound for a broken one
_JITTER = 0.1  # targets started together must not be asked together for ever
_HEADERS = {"Accept": "text/plain;version=0.0.4;q=1,*/*;q=0.1"}


class Sink(Protocol):
    """Where scraped samples go. Both calls commit before they return."""

    async def samples(self, source: SourceKey, samples: Sequence[SampleRow], error: str, now_ms: int) -> None:
        """Store the samples, and the error of the lines that could not be read ('' = none)."""
        ...

    async def failure(self, source: SourceKey, error: str, now_ms: int) -> None:
        """Store that a scrape failed."""
        ...


class Scraper:
    """One task a target. now_ms and sleep are injected; rng in [0, 1) spreads the targets."""

    def __init__(
        self,
        targets: Sequence[ScrapeTarget],
        sink: Sink,
        metrics: CollectorMetrics,
        *,
        now_ms: Callable[[], int],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: Callable[[], float] = random.random,
    ) -> None:
        self._targets = targets
        self._sink = sink
        self._metrics = metrics
        self._now_ms = now_ms
        self._sleep = sleep
        self._rng = rng
        self._tasks: list[asyncio.Task[None]] = []
        self._client = httpx.AsyncClient(follow_redirects=False, trust_env=False, headers=_HEADERS)

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._loop(target), name="scrape") for target in self._targets]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._client.aclose()

    async def _loop(self, target: ScrapeTarget) -> None:
        await self._sleep(self._rng() * target.interval_s * _JITTER)
        while True:
            try:
                await self.once(target)
            except Exception as error:  # noqa: BLE001 - this target's loop; counted, and the next interval tries again
                self._metrics.failures.labels("scrape", type(error).__name__).inc()
            await self._sleep(target.interval_s * (1 + _JITTER * (self._rng() - 0.5)))

    async def once(self, target: ScrapeTarget) -> None:
        """Scrape a target and store what came of it."""
        source = SourceKey("scrape", shown(target.url))
        try:
            page = await self._fetch(target)
            if page.errors and not page.samples:
                raise ScrapeFailed(f"{shown(target.url)} gave no page of metrics: {page.errors[0]}")
        except ScrapeFailed as error:
            self._metrics.scrapes.labels("failed").inc()
            await self._sink.failure(source, str(error), self._now_ms())
            return
        faults = list(page.errors)
        if page.left_out:
            faults.append(f"{page.left_out} samples above the bound of {_MAX_OTHERS} were left out")
        self._metrics.scrapes.labels("partial" if faults else "ok").inc()
        await self._sink.samples(source, page.samples, "; ".join(faults), self._now_ms())

    async def _fetch(self, target: ScrapeTarget) -> Page:
        headers = {"Authorization": f"Bearer {target.bearer}"} if target.bearer else {}
        body = bytearray()
        try:
            async with (
                asyncio.timeout(target.timeout_s),
                self._client.stream("GET", target.url, headers=headers, timeout=target.timeout_s) as response,
            ):
                if response.status_code != 200:
                    raise ScrapeFailed(f"{shown(target.url)} answered {response.status_code}; expected 200")
                async for chunk in response.aiter_bytes():
                    body += chunk
                    if len(body) > _MAX_PAGE_BYTES:
                        raise ScrapeFailed(f"{shown(target.url)} gave more than {_MAX_PAGE_BYTES} bytes")
        except TimeoutError as error:
            raise ScrapeFailed(f"{shown(target.url)} did not answer within {target.timeout_s} s") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ScrapeFailed(f"{shown(target.url)}: {type(error).__name__}") from error
        # Time of arrival, not the exposition's own: the store's clock orders samples.
        now_ms = self._now_ms()
        return await asyncio.to_thread(parse, body.decode("utf-8", "replace").lstrip("\ufeff"), now_ms=now_ms, max_others=_MAX_OTHERS)


def shown(url: str) -> str:
    """Return the URL without user, password and query: it is stored and shown."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))

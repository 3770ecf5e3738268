"""Fetches /metrics pages at jittered intervals and stores what they say; a failed scrape is stored as such."""

from __future__ import annotations

import asyncio
import hashlib
import random
import ssl
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, Protocol
from urllib.parse import urlsplit, urlunsplit

import httpx

from collectors.errors import ScrapeFailed, TooLarge, Undecodable, UnsupportedMedia
from collectors.inflate import Inflater
from collectors.metrics import CollectorMetrics
from collectors.prometheus.families import Families
from collectors.prometheus.keep import sort
from collectors.prometheus.parse import OPENMETRICS, TEXT, Page, parse
from collectors.settings import ScrapeTarget
from collectors.ticking import Ticker
from storage.rows import Scrape, SourceKey

# The plain text format first: every exporter has it, and some give an OpenMetrics page that breaks its own rules.
_HEADERS: Final = {
    "Accept": "text/plain;version=0.0.4;q=1,application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.1",
    "Accept-Encoding": "gzip",
    "User-Agent": "cachescope",
}


class Sink(Protocol):
    """Where what was seen goes. What is written is committed before a call returns."""

    async def scraped(self, source: SourceKey, scrape: Scrape, *, max_series: int) -> str:
        """Store it; return what is wrong with it, '' when nothing is."""
        ...

    async def failed(self, source: SourceKey, error: str, now_ms: int) -> None:
        """Store that a look at a source failed."""
        ...

    async def newest_ms(self, source: SourceKey) -> int | None:
        """Return the time of the newest reading stored of a source, None when there is none."""
        ...

    async def snapshot(self, source: SourceKey, topic: str) -> str | None:
        """Return the JSON stored last under a topic, None when there is none."""
        ...


class Scraper:
    """One task a target. now_ms and sleep are injected; rng in [0, 1) spreads the targets."""

    def __init__(
        self,
        targets: Sequence[ScrapeTarget],
        sink: Sink,
        metrics: CollectorMetrics,
        *,
        families: Families,
        now_ms: Callable[[], int],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: Callable[[], float] = random.random,
    ) -> None:
        self._targets = targets
        self._sink = sink
        self._metrics = metrics
        self._families = families
        self._now_ms = now_ms
        self._ticker = Ticker("scrape", metrics, sleep=sleep, rng=rng)
        self._clients: dict[ScrapeTarget, httpx.AsyncClient] = {}

    def start(self) -> None:
        for target in self._targets:
            self._ticker.start(partial(self.once, target), interval_s=target.interval_s, jitter_ratio=target.jitter_ratio)

    async def stop(self) -> None:
        await self._ticker.stop()
        for client in self._clients.values():
            await client.aclose()

    async def once(self, target: ScrapeTarget) -> None:
        """Scrape a target and store what came of it."""
        source = source_of("scrape", target.url)
        try:
            page, at_ms = await self._fetch(target)
            if page.errors and not page.samples:
                raise ScrapeFailed(f"{shown(target.url)} gave no page of metrics: {page.errors[0]}")
        except ScrapeFailed as error:
            self._metrics.scrapes.labels("failed").inc()
            await self._sink.failed(source, str(error), self._now_ms())
            return
        scrape = await asyncio.to_thread(sort, page, self._families, at_ms=at_ms)
        faults = await self._sink.scraped(source, scrape, max_series=target.max_series)
        self._metrics.scrapes.labels("partial" if faults else "ok").inc()

    async def _fetch(self, target: ScrapeTarget) -> tuple[Page, int]:
        """Return the page and when it came. Raises ScrapeFailed."""
        place = shown(target.url)
        try:
            async with asyncio.timeout(target.timeout_s), self._client(target).stream("GET", target.url) as response:
                if response.status_code != 200:
                    raise ScrapeFailed(f"{place} answered {response.status_code}; expected 200")
                form = _form(response.headers.get("Content-Type", ""), place)
                inflater = Inflater(response.headers.get("Content-Encoding", ""), target.max_body_bytes)
                async for chunk in response.aiter_raw():
                    inflater.feed(chunk)
                body = inflater.body()
        except TimeoutError as error:
            raise ScrapeFailed(f"{place} did not answer within {target.timeout_s} s") from error
        except (TooLarge, Undecodable, UnsupportedMedia) as error:
            raise ScrapeFailed(f"{place}: {error}") from error
        except httpx.HTTPError as error:
            raise ScrapeFailed(f"{place}: {type(error).__name__} {str(error)[:160]}".rstrip()) from error
        except httpx.InvalidURL as error:
            raise ScrapeFailed(f"{place} is no URL that can be fetched") from error
        # Time of arrival, not the page's own: the store's clock orders samples.
        at_ms = self._now_ms()
        text = body.decode("utf-8", "replace").lstrip("\ufeff")
        return await asyncio.to_thread(parse, text, form=form), at_ms

    def _client(self, target: ScrapeTarget) -> httpx.AsyncClient:
        """Return the target's own client. Raises ScrapeFailed for a CA file that cannot be used."""
        if target not in self._clients:
            self._clients[target] = httpx.AsyncClient(
                follow_redirects=False,
                trust_env=False,
                headers=_HEADERS | ({"Authorization": f"Bearer {target.bearer}"} if target.bearer else {}),
                auth=httpx.BasicAuth(target.username, target.password) if target.username and not target.bearer else None,
                verify=tls_context(target.ca_file, verify=target.verify),
                timeout=target.timeout_s,
            )
        return self._clients[target]


def tls_context(ca_file: str, *, verify: bool) -> ssl.SSLContext:
    """Return what decides whose certificates are taken. Raises ScrapeFailed for a CA file that cannot be used."""
    try:
        context = ssl.create_default_context(cafile=ca_file or None)
    except OSError as error:  # ssl.SSLError is one
        raise ScrapeFailed(f"the CA file {ca_file} cannot be used: {error.strerror or error}; expected certificates in PEM") from error
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _form(content_type: str, place: str) -> str:
    """Return the format that a Content-Type names. Raises ScrapeFailed for one that is no text."""
    media = content_type.partition(";")[0].strip().lower()
    if media == "application/openmetrics-text":
        return OPENMETRICS
    if media == "application/vnd.google.protobuf":
        raise ScrapeFailed(f"{place} answered in {media}; expected the text format, which was asked for")
    return TEXT


def source_of(kind: str, url: str, *apart: str) -> SourceKey:
    """Return the source that a URL is. What tells sources of one address apart, its query and `apart`, is its instance, as a digest."""
    told = (urlsplit(url).query, *apart)
    instance = hashlib.blake2b("\0".join(told).encode(), digest_size=6).hexdigest() if any(told) else ""
    return SourceKey(kind, shown(url), instance)


def shown(url: str) -> str:
    """Return the URL without user, password and query: it is stored and shown."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))

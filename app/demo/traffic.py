"""Plays the demo's prompts through the real gateway, as several tenants would ask them: Zipf-repeated, some of them streamed."""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
from collections.abc import Mapping
from dataclasses import dataclass

import httpx

from app.demo.prompts import PromptGroup, load

log = logging.getLogger(__name__)

TENANTS = ("acme", "globex", "initech")
_SYSTEM = {
    "faq": "You answer questions of a shop's customers in one short paragraph.",
    "code": "You are a programming assistant. Answer with the shortest working example.",
    "docs": "You answer from the product's handbook only.",
}
_MODEL = {"faq": "demo-small", "code": "demo-large", "docs": "demo-small"}
_SHARES = {"acme": 0.55, "globex": 0.3, "initech": 0.15}
PARAPHRASE_SHARE, NEAR_MISS_SHARE = 0.25, 0.12
BURST_REQUESTS, BURST_CONCURRENCY, TRICKLE_S = 600, 6, 1.0


@dataclass(frozen=True, slots=True)
class Ask:
    """One request to play."""

    tenant: str
    namespace: str
    model: str
    text: str
    stream: bool


class Mix:
    """Draws requests without end: group by Zipf(1) over a fixed shuffle, then the prompt itself, a paraphrase or a near-miss."""

    def __init__(self, groups: list[PromptGroup], *, seed: int) -> None:
        self._rng = random.Random(seed)  # noqa: S311 - demo traffic, not a secret
        self._groups = list(groups)
        self._rng.shuffle(self._groups)
        self._weights = [1 / rank for rank in range(1, len(groups) + 1)]

    def draw(self) -> Ask:
        rng = self._rng
        group = rng.choices(self._groups, self._weights)[0]
        dice, text = rng.random(), group.prompt
        if dice < NEAR_MISS_SHARE and group.near_misses:
            text = rng.choice(group.near_misses)
        elif dice < NEAR_MISS_SHARE + PARAPHRASE_SHARE and group.paraphrases:
            text = rng.choice(group.paraphrases)
        tenant = rng.choices(TENANTS, [_SHARES[name] for name in TENANTS])[0]
        return Ask(tenant, group.namespace, _MODEL[group.namespace], text, stream=rng.random() < 0.4)


async def play(gateway_url: str, keys: Mapping[str, str], *, seed: int = 7, requests: int | None = None) -> dict[str, int]:
    """Play a burst, then a trickle; return counts by Cache-Status. keys: tenant -> API key. requests: None = until cancelled."""
    mix = Mix(load(), seed=seed)
    counts: dict[str, int] = {}
    gate = asyncio.Semaphore(BURST_CONCURRENCY)
    limits = httpx.Limits(max_connections=BURST_CONCURRENCY)
    async with httpx.AsyncClient(base_url=gateway_url, timeout=30, limits=limits) as client:

        async def one(ask: Ask) -> None:
            async with gate:
                status = await _send(client, keys[ask.tenant], ask)
                counts[status] = counts.get(status, 0) + 1

        burst = BURST_REQUESTS if requests is None else requests
        await asyncio.gather(*(one(mix.draw()) for _ in range(burst)))
        if requests is None:
            for _ in itertools.count():
                await one(mix.draw())
                await asyncio.sleep(TRICKLE_S)
    return counts


async def _send(client: httpx.AsyncClient, key: str, ask: Ask) -> str:
    """Send one request; return what the gateway said of it, without its figures, or the fault's name."""
    messages = [{"role": "system", "content": _SYSTEM[ask.namespace]}, {"role": "user", "content": ask.text}]
    headers = {"authorization": f"Bearer {key}", "cachescope-namespace": ask.namespace, "user-agent": "cachescope-demo/1"}
    try:
        answer = await client.post(
            "/v1/chat/completions",
            headers=headers,
            json={"model": ask.model, "messages": messages, "stream": ask.stream},
        )
    except httpx.HTTPError as fault:  # the gateway restarts or stops: the player goes on until it is stopped itself
        log.warning("demo request failed: %s", type(fault).__name__)
        return type(fault).__name__
    status = answer.headers.get("cache-status", f"status {answer.status_code}")
    return "; ".join(part for part in status.split("; ") if not part.startswith("ttl="))

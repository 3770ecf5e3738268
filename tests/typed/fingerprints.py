"""Held by mypy: a group's fingerprint cannot fetch an answer. An error that is not there any more is one as well."""

from __future__ import annotations

from engine.keys import Canonical
from engine.tiers.base import StoreTier, Tier
from engine.types import Entry


async def a_key_fetches(tier: Tier, store: StoreTier, found: Canonical) -> Entry | None:
    return await tier.get(found.key) or await store.get(found.key)


async def a_group_never_does(tier: Tier, store: StoreTier, found: Canonical) -> None:
    await tier.get(found.fingerprint)  # type: ignore[arg-type]
    await store.get(found.fingerprint)  # type: ignore[arg-type]
    await tier.get(found.fingerprint.hex)  # type: ignore[arg-type]

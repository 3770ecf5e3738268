"""Entries and clocks for the tiers' tests."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from engine.types import Entry, Usage

# Namespaces that a pattern, a C string or a careless join would get wrong.
ODD_NAMESPACES = (
    "faq",
    "a[1]*?\\",
    "*",
    "?",
    "",
    "faq:",
    "faq\0x",
    "😀 常见",
    "\ud800",
    "a%_",
    "%",
    "'; DROP TABLE entries; --",
    "x" * 5000,
)


@dataclass
class FakeClock:
    """Unix milliseconds that move when told to."""

    now_ms: int = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now_ms


def key_of(name: object) -> str:
    return hashlib.sha256(repr(name).encode()).hexdigest()


def unit(*numbers: float) -> bytes:
    """Return the normalised vector as an entry holds it."""
    vector = np.array(numbers, dtype="<f4")
    return (vector / np.linalg.norm(vector)).astype("<f4").tobytes()


_PLAIN = Entry(
    entry_id="0" * 32,
    key="0" * 64,
    partition="p" * 32,
    namespace="faq",
    tenant="acme",
    model="gpt-test",
    model_version="v1",
    generation="0000000000001-0000000000000001",
    created_ms=1_700_000_000_000,
    expires_ms=1_700_000_060_000,
    body=b'{"choices":[]}',
    prompt="What is a cache?",
    parse='{"n":[]}',
    embedder="test/3",
    usage=Usage(input_tokens=12, output_tokens=7, cached_input_tokens=None, cost_usd=0.25),
    upstream_ms=812.5,
)


def entry(name: object = 0, **changes: Any) -> Entry:
    """Return an entry whose key and id follow from `name`, live for a minute of a FakeClock."""
    made = replace(_PLAIN, key=key_of(name), entry_id=key_of((name, repr(changes)))[:32], vector=unit(1, 0, 0))
    return replace(made, **changes)

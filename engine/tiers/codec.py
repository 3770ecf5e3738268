"""An entry as bytes: a head (everything but vector and body), so that scans and catching up read no bodies.

Head, little-endian: version, flags, the numbers of `_NUMBERS`, the eleven lengths of `_LENGTHS`, then the texts in UTF-8.
Surrogates pass through: JSON may hold half a pair, and a client's odd prompt must not break a store.
A head of another version is no entry for us (None): while gateways are upgraded one by one, each misses the other's.
"""

from __future__ import annotations

import math
import struct
from typing import NamedTuple

from engine.types import Entry, EntryHead, Usage, VectorRow

VERSION = 1
_NUMBERS = struct.Struct("<BBqqqdqqqd")
_LENGTHS = struct.Struct("<11I")
_MAX_INT = 2**63 - 1


class _Head(NamedTuple):
    created_ms: int
    expires_ms: int
    size_bytes: int
    upstream_ms: float
    usage: Usage
    entry_id: str
    key: str
    partition: str
    namespace: str
    tenant: str
    model: str
    model_version: str
    generation: str
    embedder: str
    parse: str
    prompt: str


def to_bytes(text: str) -> bytes:
    """Return a text as UTF-8, halves of surrogate pairs included."""
    return text.encode("utf-8", "surrogatepass")


def to_text(data: bytes) -> str:
    """Return what `to_bytes` encoded."""
    return data.decode("utf-8", "surrogatepass")


def whole(number: int | None) -> int | None:
    """Return a count that fits 64 bits, else None: an upstream may report nonsense."""
    return number if number is not None and -_MAX_INT <= number <= _MAX_INT else None


def finite(number: float | None) -> float | None:
    """Return a finite number, else None."""
    return number if number is not None and math.isfinite(number) else None


def encode_head(entry: Entry) -> bytes:
    """Return everything of an entry but its vector and body."""
    usage = entry.usage
    tokens = [whole(usage.input_tokens), whole(usage.output_tokens), whole(usage.cached_input_tokens)]
    cost = finite(usage.cost_usd)
    flags = sum(1 << bit for bit, value in enumerate([*tokens, cost]) if value is not None)
    numbers = _NUMBERS.pack(
        VERSION,
        flags,
        entry.created_ms,
        entry.expires_ms,
        entry.size_bytes,
        finite(entry.upstream_ms) or 0.0,
        *(token or 0 for token in tokens),
        cost or 0.0,
    )
    texts = [
        to_bytes(text)
        for text in (
            entry.entry_id,
            entry.key,
            entry.partition,
            entry.namespace,
            entry.tenant,
            entry.model,
            entry.model_version,
            entry.generation,
            entry.embedder,
            entry.parse,
            entry.prompt,
        )
    ]
    return b"".join([numbers, _LENGTHS.pack(*map(len, texts)), *texts])


def decode(head: bytes, vector: bytes, body: bytes) -> Entry | None:
    """Return the entry, or None when the head is of another version or broken."""
    read = _read(head)
    if read is None:
        return None
    return Entry(
        entry_id=read.entry_id,
        key=read.key,
        partition=read.partition,
        namespace=read.namespace,
        tenant=read.tenant,
        model=read.model,
        model_version=read.model_version,
        generation=read.generation,
        created_ms=read.created_ms,
        expires_ms=read.expires_ms,
        body=body,
        prompt=read.prompt,
        parse=read.parse,
        vector=vector,
        embedder=read.embedder,
        usage=read.usage,
        upstream_ms=read.upstream_ms,
    )


def decode_head(head: bytes) -> EntryHead | None:
    """Return the entry without its body, or None as `decode` does."""
    read = _read(head)
    if read is None:
        return None
    return EntryHead(
        entry_id=read.entry_id,
        key=read.key,
        partition=read.partition,
        namespace=read.namespace,
        tenant=read.tenant,
        model=read.model,
        generation=read.generation,
        created_ms=read.created_ms,
        expires_ms=read.expires_ms,
        size_bytes=read.size_bytes,
        cost_usd=read.usage.cost_usd,
        prompt=read.prompt,
    )


def decode_vector(head: bytes, vector: bytes) -> VectorRow | None:
    """Return the entry's vector with what the vector tier filters by, or None as `decode` does."""
    read = _read(head)
    if read is None:
        return None
    return VectorRow(
        key=read.key,
        entry_id=read.entry_id,
        generation=read.generation,
        expires_ms=read.expires_ms,
        embedder=read.embedder,
        vector=vector,
    )


def _read(head: bytes) -> _Head | None:
    if not head or head[0] != VERSION:
        return None
    try:
        _, flags, created, expires, size, upstream_ms, given, made, cached, cost = _NUMBERS.unpack_from(head)
        lengths = _LENGTHS.unpack_from(head, _NUMBERS.size)
        at = _NUMBERS.size + _LENGTHS.size
        if at + sum(lengths) != len(head):
            return None
        texts = []
        for length in lengths:
            texts.append(to_text(head[at : at + length]))
            at += length
    except (struct.error, UnicodeDecodeError):
        return None
    usage = Usage(
        given if flags & 1 else None,
        made if flags & 2 else None,
        cached if flags & 4 else None,
        cost if flags & 8 else None,
    )
    return _Head(created, expires, size, upstream_ms, usage, *texts)

"""An entry as a row of the cache's SQLite file, and back."""

from __future__ import annotations

from typing import Any

from engine.tiers.codec import finite, to_bytes, to_text, whole
from engine.types import Entry, Usage

COLUMNS = (
    "key, entry_id, partition, generation, created_ms, expires_ms, size_bytes, upstream_ms, input_tokens, output_tokens, "
    "cached_input_tokens, cost_usd, namespace, tenant, model, model_version, embedder, prompt, vector, parse, body"
)


def row_of(entry: Entry) -> tuple[object, ...]:
    """Return its values in the order of the tier's columns."""
    usage = entry.usage
    return (
        entry.key,
        entry.entry_id,
        entry.partition,
        entry.generation,
        entry.created_ms,
        entry.expires_ms,
        entry.size_bytes,
        finite(entry.upstream_ms) or 0.0,
        whole(usage.input_tokens),
        whole(usage.output_tokens),
        whole(usage.cached_input_tokens),
        finite(usage.cost_usd),
        to_bytes(entry.namespace),
        to_bytes(entry.tenant),
        to_bytes(entry.model),
        to_bytes(entry.model_version),
        entry.embedder,
        to_bytes(entry.prompt),
        entry.vector,
        to_bytes(entry.parse),
        entry.body,
    )


def entry_of(row: tuple[Any, ...]) -> Entry:
    """Return the entry of values in the order of the tier's columns."""
    return Entry(
        key=row[0],
        entry_id=row[1],
        partition=row[2],
        generation=row[3],
        created_ms=row[4],
        expires_ms=row[5],
        upstream_ms=row[7],
        usage=Usage(row[8], row[9], row[10], row[11]),
        namespace=to_text(row[12]),
        tenant=to_text(row[13]),
        model=to_text(row[14]),
        model_version=to_text(row[15]),
        embedder=row[16],
        prompt=to_text(row[17]),
        vector=row[18],
        parse=to_text(row[19]),
        body=row[20],
    )

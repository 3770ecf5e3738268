"""The settings of how much the tiers hold, and what leaves them."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings

from engine.eviction import DEFAULT, POLICIES


class TierSettings(BaseSettings):
    """What the memory tier, the vector tier and the store are bounded by."""

    memory_bytes: int = Field(default=256 * 1024 * 1024, ge=0, description="Most bytes the memory tier of a gateway process holds.")
    store_bytes: int = Field(
        default=10 * 1024**3,
        ge=1024 * 1024,
        description="Most bytes in use of a SQLite cache file; above it the entries that expire first go. A Redis server has `maxmemory`.",
    )
    eviction: str = Field(default=DEFAULT, pattern=f"^({'|'.join(POLICIES)})$", description="Which entry leaves a full memory tier.")
    memory_ttl_s: float = Field(
        default=30.0,
        ge=0,
        description="Seconds after which a copy in the memory tier is asked of the store again: so long may a gateway serve an answer "
        "that another one has replaced.",
    )
    hnsw_above: int = Field(default=20_000, ge=1, description="Vectors in a partition above which it gets an HNSW index.")
    vector_bytes: int = Field(
        default=512 * 1024 * 1024,
        ge=1024 * 1024,
        description="Most bytes of vectors and their indexes that a gateway process holds. Above it the least recently searched "
        "partition goes, and of one that alone is larger the oldest vectors.",
    )

"""The tables of further sources: /metrics pages, Prometheus servers, Redis servers."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, field_validator

from app.config.addresses import web_url


class _SourceTable(BaseModel):
    """What all further sources have in common."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("url", check_fields=False)
    @classmethod
    def _web(cls, value: str) -> str:
        return web_url(value)

    def plain(self) -> dict[str, Any]:
        """Return the fields as the collector's settings take them, secrets in the clear."""
        return {name: value.get_secret_value() if isinstance(value, SecretStr) else value for name, value in self}


class _WebTable(_SourceTable):
    """Who asks, and whose certificate is taken."""

    bearer: SecretStr = Field(default=SecretStr(""), description="Bearer token that is sent.")
    username: str = Field(default="", description="User of Basic authorization, when there is no bearer.")
    password: SecretStr = Field(default=SecretStr(""), description="That user's password.")
    ca_file: str = Field(default="", description="PEM file of the authority to trust. Empty: the system's.")
    verify: bool = Field(default=True, description="Off: any certificate is taken.")
    max_body_bytes: int = Field(default=16 * 1024 * 1024, ge=1024, description="Largest answer, before and after decompression.")


class TargetTable(_WebTable):
    """One /metrics page to scrape."""

    url: str
    interval_s: float = Field(default=5.0, ge=1, description="Seconds from one look to the next.")
    timeout_s: float = Field(default=3.0, gt=0, description="Seconds after which a look is given up.")
    jitter_ratio: float = Field(default=0.1, ge=0, le=1, description="Share of the interval by which scrapes are spread.")
    max_series: int = Field(default=2_000, ge=1, le=50_000, description="Counters above it are summed into overflow series.")


class ServerTable(_WebTable):
    """One Prometheus server to ask."""

    url: str
    interval_s: float = Field(default=15.0, ge=1, description="Seconds from one look to the next.")
    timeout_s: float = Field(default=10.0, gt=0, description="Seconds after which a look is given up.")
    match: str = Field(default="", description='Label matchers that every series must meet, such as job="vllm".')
    backfill_s: float = Field(default=3_600.0, ge=0, le=31 * 86_400, description="How far back the first look goes.")
    step_s: float = Field(default=300.0, ge=10, le=3_600, description="How much time one query covers.")
    max_series: int = Field(default=5_000, ge=1, le=50_000, description="Counters above it are left out, which is said.")


class RedisTable(_SourceTable):
    """One Redis or Valkey server to sample."""

    url: str
    interval_s: float = Field(default=10.0, ge=1, description="Seconds from one look to the next.")
    timeout_s: float = Field(default=2.0, gt=0, description="Seconds after which a look is given up.")
    keys_per_tick: int = Field(default=200, ge=0, le=5_000, description="Keys looked at in a tick; 0 = none.")
    budget_ms: float = Field(default=25.0, gt=0, le=1_000, description="When a tick's looking at keys ends.")
    slowlog_entries: int = Field(default=16, ge=0, le=128, description="Newest slow commands read; 0 = none.")

    @field_validator("url")
    @classmethod
    def _web(cls, value: str) -> str:
        if not value.startswith(("redis://", "rediss://")):
            raise ValueError("expected redis://host:port/db or rediss://…")
        return value


def _apart(rows: tuple[_SourceTable, ...]) -> tuple[_SourceTable, ...]:
    """Refuse rows that would be stored as one source: their counters would be mixed."""
    seen: dict[tuple[str, ...], int] = {}
    for place, row in enumerate(rows, 1):
        url = urlsplit(getattr(row, "url", ""))
        source = (url.scheme, url.netloc.rpartition("@")[2], url.path, url.query, getattr(row, "match", ""))
        if source in seen:
            match = " and match" if isinstance(row, ServerTable) else ""
            raise ValueError(f"rows {seen[source]} and {place} have the same url{match}: expected each source once; remove one of them")
        seen[source] = place
    return rows


Targets = Annotated[tuple[TargetTable, ...], AfterValidator(_apart)]
Servers = Annotated[tuple[ServerTable, ...], AfterValidator(_apart)]
RedisServers = Annotated[tuple[RedisTable, ...], AfterValidator(_apart)]

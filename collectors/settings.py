"""What the collectors' constructors receive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from storage.settings import StorageSettings


@dataclass(frozen=True, slots=True)
class ScrapeTarget:
    """A /metrics page. url: the whole URL.

    bearer, or username and password: sent when not empty. ca_file: PEM of the authority to trust, '' = the system's; verify: off takes any
    certificate. jitter_ratio: the share of the interval by which scrapes are spread, 0…1. max_body_bytes: before and after decompression.
    max_series: counters kept apart; those above it are summed into overflow series.
    """

    url: str
    interval_s: float = 5.0
    timeout_s: float = 3.0
    bearer: str = ""
    username: str = ""
    password: str = ""
    ca_file: str = ""
    verify: bool = True
    jitter_ratio: float = 0.1
    max_body_bytes: int = 16 * 1024 * 1024
    max_series: int = 2_000


@dataclass(frozen=True, slots=True)
class PrometheusServer:
    """A Prometheus server to ask. url: its base. match: label matchers that every series must meet, such as job="vllm".

    backfill_s: how far back the first look goes; step_s: how much time one query covers. The rest is as for a scrape target.
    """

    url: str
    interval_s: float = 15.0
    timeout_s: float = 10.0
    bearer: str = ""
    username: str = ""
    password: str = ""
    ca_file: str = ""
    verify: bool = True
    match: str = ""
    backfill_s: float = 3_600.0
    step_s: float = 300.0
    max_body_bytes: int = 16 * 1024 * 1024
    max_series: int = 5_000


@dataclass(frozen=True, slots=True)
class RedisTarget:
    """A Redis or Valkey server to sample. keys_per_tick: keys looked at in a tick; budget_ms: when a tick's looking at keys ends.

    slowlog_entries: the newest slow commands that are read, without their arguments.
    """

    url: str
    interval_s: float = 10.0
    timeout_s: float = 2.0
    keys_per_tick: int = 200
    budget_ms: float = 25.0
    slowlog_entries: int = 16


@dataclass(frozen=True, slots=True)
class Tls:
    """PEM files of the receivers' certificate chain and its private key."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class CollectorSettings:
    storage: StorageSettings
    grpc_bind: str = "127.0.0.1:4317"
    http_bind: str = "127.0.0.1:4318"
    token: str = ""  # bearer asked of senders; empty = none (loopback only, unless insecure)
    insecure: bool = False  # may listen beyond this machine without a token
    tls: Tls | None = None  # None = plain text on both ports
    max_body_bytes: int = 64 * 1024 * 1024  # before and after decompression
    queue_bytes: int = 128 * 1024 * 1024  # accepted and not yet committed; above it: 503 / UNAVAILABLE
    max_request_spans: int = 100_000  # those after them in one request are refused by count
    max_attributes: int = 1_024  # of one span, event, link or resource; those after them are left out and counted
    max_attribute_chars: int = 65_536  # longer strings are cut with a marker
    max_series: int = 20_000  # of metrics sent by OTLP, in a day; points of further ones are refused
    record_prompts: bool = True  # off: prompt texts are dropped before they are stored
    secret: str = field(default="", repr=False)  # the installation's: with prompts off, what digests of labels are made with
    targets: Sequence[ScrapeTarget] = field(default_factory=tuple)
    servers: Sequence[PrometheusServer] = field(default_factory=tuple)
    redis: Sequence[RedisTarget] = field(default_factory=tuple)
    families_file: str = ""  # a table of the user's, beside the shipped one, of what counters mean

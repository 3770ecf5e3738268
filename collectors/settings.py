"""What the collectors' constructors receive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from storage.settings import StorageSettings


@dataclass(frozen=True, slots=True)
class ScrapeTarget:
    """url: the whole URL of a /metrics page. bearer: sent as a bearer token when not empty."""

    url: str
    interval_s: float = 5.0
    timeout_s: float = 3.0
    bearer: str = ""


@dataclass(frozen=True, slots=True)
class CollectorSettings:
    storage: StorageSettings
    grpc_bind: str = "127.0.0.1:4317"
    http_bind: str = "127.0.0.1:4318"
    token: str = ""  # bearer asked of senders; empty = none (loopback only, unless insecure)
    insecure: bool = False  # may listen beyond this machine without a token
    max_body_bytes: int = 64 * 1024 * 1024  # before and after decompression
    queue_bytes: int = 128 * 1024 * 1024  # accepted and not yet committed; above it: 503 / UNAVAILABLE
    max_attribute_chars: int = 65_536  # longer strings are cut with a marker
    record_prompts: bool = True  # off: prompt texts are dropped before they are stored
    targets: Sequence[ScrapeTarget] = field(default_factory=tuple)

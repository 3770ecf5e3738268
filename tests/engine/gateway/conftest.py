"""A real gateway on a free port, in front of a scripted upstream, on each store."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from engine.gateway.flights import Flights
from engine.gateway.server import create_app
from engine.gateway.state import GatewayState
from engine.settings import EngineSettings, GatewaySettings
from tests.support.servers import RedisServer, free_port, wait_for
from tests.support.upstream import StubUpstream, running_upstream, serving

ADMIN = "admin-token-of-the-tests"
SECRET = b"s" * 32


@dataclass
class Gateway:
    """One running gateway as its clients see it."""

    url: str
    state: GatewayState
    flights: Flights
    clients: list[Any] = field(default_factory=list)

    def openai(self, key: str = "sk-client", **headers: str) -> openai.OpenAI:
        client = openai.OpenAI(
            base_url=f"{self.url}/v1",
            api_key=key,
            max_retries=0,
            timeout=60,
            default_headers={k.replace("_", "-"): v for k, v in headers.items()},
        )
        self.clients.append(client)
        return client

    def http(self, **options: Any) -> httpx.Client:
        client = httpx.Client(base_url=self.url, timeout=60, **options)
        self.clients.append(client)
        return client

    def control(self, method: str, path: str, **options: Any) -> Any:
        answer = self.asked(method, path, **options)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def asked(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Ask the control API; return its answer, whatever its status."""
        headers = {"Authorization": f"Bearer {ADMIN}"}
        return httpx.request(method, f"{self.url}/control/v1{path}", headers=headers, timeout=60, **options)

    def lookups(self, **labels: str) -> int:
        """Return how many lookups the gateway counted with these labels."""
        total = 0.0
        for line in httpx.get(f"{self.url}/metrics", timeout=60).text.splitlines():
            if line.startswith("cachescope_lookups_total{"):
                found = dict(re.findall(r'(\w+)="([^"]*)"', line))
                if all(found.get(name) == value for name, value in labels.items()):
                    total += float(line.rsplit(" ", 1)[1])
        return int(total)

    def counts(self, count: int, **labels: str) -> None:
        """Wait until it has counted so many lookups with these labels: one is recorded after its answer was sent."""
        wait_for(lambda: self.lookups(**labels) == count, what=f"{count} lookups of {labels or 'any kind'} are counted")


@contextlib.contextmanager
def running_gateway(settings: GatewaySettings) -> Iterator[Gateway]:
    port = int(settings.bind.rpartition(":")[2])
    app = create_app(settings)
    gateway = Gateway(f"http://127.0.0.1:{port}", app.state.gateway, app.state.flights)

    def healthy() -> bool:
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(f"{gateway.url}/healthz").status_code == 200
        return False

    with serving(app, port, healthy=healthy):
        try:
            yield gateway
        finally:
            for client in gateway.clients:
                client.close()


def settings_for(
    cache_url: str, upstream_url: str, *, embedder: str = "none", store_timeout_s: float = 30, control_max_age_s: float = 30, **changes: Any
) -> GatewaySettings:
    """Return settings under which a slow machine is not a fault: a test of a deadline sets that deadline itself."""
    settings = GatewaySettings(
        engine=EngineSettings(
            cache_url=cache_url,
            secret=SECRET,
            embedder=embedder,
            store_timeout_s=store_timeout_s,
            embedder_timeout_s=30,
            control_max_age_s=control_max_age_s,
        ),
        bind=f"127.0.0.1:{free_port()}",
        upstream_url=upstream_url,
        upstream_api_key="sk-upstream",
        admin_token=ADMIN,
        upstream_connect_timeout_s=30,
    )
    return replace(settings, **changes)


@pytest.fixture
def upstream() -> Iterator[StubUpstream]:
    with running_upstream() as stub:
        yield stub


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'cache.db'}"


Start = Callable[..., Gateway]


@pytest.fixture
def start(upstream: StubUpstream, sqlite_url: str) -> Iterator[Start]:
    """Start a gateway on SQLite with changed settings, as often as wanted."""
    with contextlib.ExitStack() as stack:

        def begin(
            *, cache_url: str = sqlite_url, upstream_url: str = upstream.url, with_engine: EngineSettings | None = None, **changes: Any
        ) -> Gateway:
            settings = settings_for(cache_url, upstream_url, **changes)
            if with_engine is not None:
                settings = replace(settings, engine=replace(with_engine, cache_url=cache_url))
            return stack.enter_context(running_gateway(settings))

        yield begin


@pytest.fixture
def gateway(start: Start) -> Gateway:
    return start()


@pytest.fixture(params=["sqlite", pytest.param("redis", marks=pytest.mark.redis)])
def any_gateway(request: pytest.FixtureRequest, start: Start) -> Gateway:
    """A gateway on each store."""
    if request.param == "sqlite":
        return start()
    server: RedisServer = request.getfixturevalue("redis_server")
    return start(cache_url=server.url)


def ask(text: str = "What is a cache?", **more: Any) -> dict[str, Any]:
    """Return the arguments of a chat request."""
    return {"model": "gpt-test", "messages": [{"role": "user", "content": text}], **more}


def cache_status(headers: Any) -> dict[str, str | bool]:
    """Return the parameters of our Cache-Status, checked as a structured field (RFC 9211, RFC 8941)."""
    value = headers["cache-status"]
    assert re.fullmatch(r'cachescope(; [a-z*][a-z0-9_\-.*]*(=([A-Za-z*][\w!#$%&\'*+\-.^`|~:/]*|-?\d+|"[ -~]*"))?)*', value), value
    parts = [part.strip().partition("=") for part in value.split(";")[1:]]
    return {name: text if equals else True for name, equals, text in parts}


def misses_within(seconds: float, client: openai.OpenAI, *, purged: float) -> None:
    """Ask what was purged at this time until it is no hit; fail when a request that begins `seconds` after the purge still hits.

    How long a request or the whole machine stands still does not matter: what was asked earlier may hit.
    """
    while True:
        begun = time.monotonic()
        if not cache_status(client.chat.completions.with_raw_response.create(**ask()).headers).get("hit"):
            return
        assert begun - purged < seconds, "what was purged is still served"

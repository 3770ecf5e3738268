"""OpenAI's JavaScript client, unmodified, against the gateway: `python -m tests.bench.openai_js [--modules FOLDER]`.

Installs it with npm into a temporary folder (`--modules FOLDER`: into that one, unless it is there). Chat, streams, tools, embeddings,
errors, retries, time-outs and cancellation; what the client saw and what the upstream got must both be right. Exit code 1 when one is not.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.engine.gateway.conftest import Gateway, running_gateway, settings_for
from tests.support.servers import wait_for
from tests.support.upstream import StubUpstream, running_upstream

PACKAGE = "openai"
SCRIPT = Path(__file__).with_name("openai_client.mjs")


def install(folder: Path) -> str:
    """Install the client; return its version."""
    shutil.copy(SCRIPT, folder / SCRIPT.name)
    if not (folder / "node_modules").is_dir():
        (folder / "package.json").write_text('{"private": true, "type": "module"}')
        command = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--silent", PACKAGE]
        subprocess.run(command, cwd=folder, check=True, timeout=300)
    version: str = json.loads((folder / "node_modules" / PACKAGE / "package.json").read_text())["version"]
    return version


class Client:
    """The JavaScript client in front of one gateway."""

    def __init__(self, modules: Path, gateway: Gateway, upstream: StubUpstream) -> None:
        self.modules, self.gateway, self.upstream = modules, gateway, upstream

    def run(self, scenario: str, *, key: str = "sk-js", **behaviour: Any) -> tuple[Any, int]:
        """Return what the client saw, and how many chats reached the upstream."""
        self.upstream.behave(**behaviour)
        before = len(self.upstream.chats)
        command = ["node", SCRIPT.name, scenario, f"{self.gateway.url}/v1", key]
        done = subprocess.run(command, cwd=self.modules, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout), len(self.upstream.chats) - before


ANSWER = "Answer to: What is a cache? 你好 🙂 — 你好 🙂"


def chat(it: Client) -> None:
    (miss, hit, stream), calls = it.run("chat")
    assert calls == 1
    assert [one["text"] for one in (miss, hit, stream)] == [ANSWER] * 3
    assert "stored" in miss["cache"]
    assert "hit" in hit["cache"]
    assert "hit" in stream["cache"]
    assert miss["usage"] == hit["usage"] == 18
    assert stream["finish"] == "stop"


def streams(it: Client) -> None:
    (miss, hit, plain, helper), calls = it.run("streams")
    assert calls == 1
    assert len({one["text"] for one in (miss, hit, plain, helper)}) == 1
    assert miss["chunks"] > 3
    assert hit["chunks"] > 1
    assert miss["usage"] == hit["usage"] == 18
    assert "hit" in hit["cache"]


def tools(it: Client) -> None:
    seen, calls = it.run("tools", tool_calls=True)
    assert calls == 4, "a tool call is never served from the cache"
    assert [one["finish"] for one in seen] == ["tool_calls"] * 4
    assert json.loads(seen[0]["calls"][0]["function"]["arguments"]) == json.loads(seen[2]["calls"]) == {"city": "Zürich"}
    roles, calls = it.run("tool_loop", tool_calls=True)
    assert calls == 3, "each round of the loop is the upstream's"
    assert roles[:3] == ["user", "assistant", "tool"]


def embeddings(it: Client) -> None:
    (usual, floats), _ = it.run("embeddings")
    assert usual == [[0.25, 0.5]] * 2
    assert floats == [[0.25, 0.5]]
    assert it.run("models")[0] == ["gpt-test"]


def errors(it: Client) -> None:
    kinds = {
        400: "BadRequestError",
        401: "AuthenticationError",
        404: "NotFoundError",
        422: "UnprocessableEntityError",
        429: "RateLimitError",
    }
    for status, kind in {**kinds, 500: "InternalServerError", 503: "InternalServerError"}.items():
        seen, _ = it.run("error", mode="error", status=status)
        assert seen == [{"kind": kind, "status": status, "code": "stub"}] * 2, seen
    seen, calls = it.run("refused")
    assert calls == 0
    assert [one["kind"] for one in seen] == ["BadRequestError", "AuthenticationError"]
    assert [one["code"] for one in seen] == ["invalid_request", "invalid_api_key"]
    seen, _ = it.run("cut", mode="die")
    assert seen[0]["kind"] in {"APIError", "APIConnectionError", "Error", "TypeError"}, seen
    assert it.run("cut")[1] == 1, "a cut stream is not stored"


def retries(it: Client) -> None:
    it.upstream.behave(mode="error", status=429, headers=(("retry-after-ms", "300"),))
    before = len(it.upstream.chats)
    command = ["node", SCRIPT.name, "retried", f"{it.gateway.url}/v1", "sk-js"]
    process = subprocess.Popen(command, cwd=it.modules, stdout=subprocess.PIPE, text=True)
    wait_for(lambda: len(it.upstream.chats) > before, what="the first try", timeout_s=60)
    it.upstream.behave()
    output, _ = process.communicate(timeout=60)
    assert json.loads(output)["finish"] == "stop"


def time_outs(it: Client) -> None:
    seen, _ = it.run("timeout", mode="hang")
    assert [one["kind"] for one in seen] == ["APIConnectionTimeoutError"] * 2, seen
    seen, _ = it.run("slow_upstream", mode="hang")
    assert seen == [{"kind": "InternalServerError", "status": 504, "code": "upstream_timeout"}], seen


def cancellation(it: Client) -> None:
    seen, _ = it.run("aborted", delay_s=1.0)
    assert seen[0]["kind"] == "APIUserAbortError", seen
    before = it.upstream.cancelled
    assert it.run("left", chunk_delay_s=0.1)[0] == [True]
    wait_for(lambda: it.upstream.cancelled > before, what="the upstream's stream ends with its only client", timeout_s=30)
    assert it.run("left")[1] == 1, "an abandoned stream is not stored"


PARTS: tuple[Callable[[Client], None], ...] = (chat, streams, tools, embeddings, errors, retries, time_outs, cancellation)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modules", type=Path)
    asked = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="cachescope-js-") as name:
        modules = asked.modules or Path(name) / "modules"
        modules.mkdir(exist_ok=True)
        version = install(modules)
        for part in PARTS:
            cache = f"sqlite:///{Path(name) / part.__name__}.db"
            with running_upstream() as upstream, running_gateway(settings_for(cache, upstream.url, upstream_timeout_s=5.0)) as gateway:
                try:
                    part(Client(modules, gateway, upstream))
                    print(f"openai {version} for JavaScript: {part.__name__.replace('_', '-')} as with the provider itself", flush=True)
                except AssertionError as error:
                    failed += 1
                    print(f"openai {version} for JavaScript: {part.__name__} FAILED: {error}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

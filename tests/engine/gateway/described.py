"""The control API against its own description: schemathesis makes requests from it and judges the answers by it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.engine.gateway.conftest import ADMIN, running_gateway, settings_for
from tests.support.upstream import running_upstream


@contextlib.contextmanager
def control_api(folder: Path) -> Iterator[str]:
    """Yield the control API's URL of a gateway with an upstream that answers."""
    with running_upstream() as upstream, running_gateway(settings_for(f"sqlite:///{folder / 'cache.db'}", upstream.url)) as gateway:
        yield f"{gateway.url}/control/v1"


def judge(url: str, folder: Path, *options: str, timeout_s: float) -> tuple[bool, str]:
    """Run schemathesis in a process of its own; return whether it found nothing, and what it said."""
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi.json", "-H", f"Authorization: Bearer {ADMIN}", "--no-color"]
    done = subprocess.run([*command, *options], cwd=folder, capture_output=True, text=True, timeout=timeout_s, check=False)
    return done.returncode == 0, done.stdout + done.stderr

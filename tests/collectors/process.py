"""The collector as a process of its own: `python -m tests.collectors.process <settings as JSON>`."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator

from collectors import runner
from collectors.settings import CollectorSettings, ScrapeTarget
from storage.settings import StorageSettings
from tests.support.servers import wait_for


def start(settings: CollectorSettings) -> subprocess.Popen[bytes]:
    given = json.dumps(dataclasses.asdict(settings))
    return subprocess.Popen([sys.executable, "-m", "tests.collectors.process", given], stderr=subprocess.PIPE)


def healthy(settings: CollectorSettings) -> bool:
    try:
        with urllib.request.urlopen(f"http://{settings.http_bind}/healthz", timeout=2) as response:
            return bool(response.read() == b"ok")
    except (urllib.error.URLError, OSError):
        return False


@contextlib.contextmanager
def collecting(settings: CollectorSettings, started: subprocess.Popen[bytes] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """A healthy collector; `started` is one that was started before."""
    process = started or start(settings)
    try:
        wait_for(lambda: process.poll() is not None or healthy(settings), what="the collector is healthy")
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=60)


def main() -> int:
    given = json.loads(sys.argv[1])
    given["storage"] = StorageSettings(**given["storage"])
    given["targets"] = tuple(ScrapeTarget(**target) for target in given["targets"])
    runner._GRACE_S = 60  # a slow machine is not a fault
    return runner.run(CollectorSettings(**given))


if __name__ == "__main__":
    sys.exit(main())

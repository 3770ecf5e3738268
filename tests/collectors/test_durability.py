"""What was acknowledged is in the database, whatever happens to the collector."""

from __future__ import annotations

import os
import random
import signal
import threading
from pathlib import Path

import httpx

from tests.collectors.process import collecting, start
from tests.collectors.support import PROTOBUF, request, rows, settings
from tests.support.servers import wait_for

_SPANS = 50


class Sender:
    """Sends numbered requests one after another; remembers the spans whose 200 it saw."""

    def __init__(self, url: str, first: int) -> None:
        self.acknowledged: list[int] = []
        self._url = url
        self._next = first
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with httpx.Client(timeout=60) as client:
            while True:
                body = request(_SPANS, first=self._next).SerializeToString()
                try:
                    response = client.post(self._url, content=body, headers=PROTOBUF)
                except httpx.HTTPError:
                    return
                if response.status_code == 200:
                    self.acknowledged += range(self._next, self._next + _SPANS)
                self._next += _SPANS

    def join(self) -> None:
        self._thread.join(timeout=90)
        assert not self._thread.is_alive()


def kill_often(folder: Path, kills: int, *, seed: int) -> tuple[int, int]:
    """Kill a collector under load at random points; return how many spans were acknowledged, how many are stored.

    Fails when an acknowledged span is missing, the file is damaged, or the counters differ from the rows.
    """
    rng = random.Random(seed)
    acknowledged: set[int] = set()
    given, started = settings(folder), None
    for kill in range(kills):
        with collecting(given, started) as process:
            url = f"http://{given.http_bind}/v1/traces"
            senders = [Sender(url, first=(kill * 4 + number) * 1_000_000) for number in range(4)]
            goal = rng.randrange(1, 8) * _SPANS
            given, started = settings(folder), None
            if kill + 1 < kills:
                started = start(given)  # starts while the load runs, on the same database
            wait_for(lambda: sum(len(one.acknowledged) for one in senders) >= goal, what="spans are acknowledged")  # noqa: B023
            os.kill(process.pid, signal.SIGKILL)
            process.wait(timeout=60)
            for sender in senders:
                sender.join()
                acknowledged.update(sender.acknowledged)
    stored = {int.from_bytes(trace_id, "big") - 1 for (trace_id,) in rows(folder, "SELECT trace_id FROM spans")}
    assert len(acknowledged) >= kills * _SPANS
    assert acknowledged <= stored
    assert rows(folder, "PRAGMA integrity_check") == [("ok",)]
    assert rows(folder, "SELECT sum(accepted) FROM sources") == [(len(stored),)]
    return len(acknowledged), len(stored)


def test_every_acknowledged_span_survives_kill_9_under_load(tmp_path: Path) -> None:
    """Three kills; `python -m tests.bench.otlp_faults` does fifty."""
    kill_often(tmp_path, 3, seed=3)


def test_sigterm_commits_what_was_taken_and_exits_0(tmp_path: Path) -> None:
    given = settings(tmp_path)
    with collecting(given) as process:
        senders = [Sender(f"http://{given.http_bind}/v1/traces", first=number * 1_000_000) for number in range(4)]
        wait_for(lambda: all(len(one.acknowledged) >= 3 * _SPANS for one in senders), what="spans are acknowledged")
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=90) == 0
        for sender in senders:
            sender.join()
    acknowledged = {number for sender in senders for number in sender.acknowledged}
    stored = {int.from_bytes(trace_id, "big") - 1 for (trace_id,) in rows(tmp_path, "SELECT trace_id FROM spans")}
    assert acknowledged <= stored

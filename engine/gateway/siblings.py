"""What the processes of one gateway count, gathered by whichever of them is asked: each answers the others on a socket of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prometheus_client import Metric, generate_latest
from prometheus_client.registry import Collector

from engine import semconv
from engine.metrics import Metrics, totals

ANSWER_S = 2.0  # a scrape waits so long for a process that does not answer; then it is shown as down
# A process gives a sign of life on the file of its socket every BEAT_S. One that gave none for SILENT_S, or none since it last did not
# answer, is stopped or hangs: it is asked all the same, and not waited for.
BEAT_S = 1.0
SILENT_S = 3.0
SILENT_ANSWER_S = 0.1

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Figures:
    """What one process counts. gateway_id: of its heartbeat. families: None = it did not answer."""

    process: int
    gateway_id: str = ""
    pid: int | None = None
    families: Sequence[Metric] | None = None


class Siblings:
    """number, count and folder: of this process's Place."""

    def __init__(self, metrics: Metrics, *, number: int, count: int, folder: Path, gateway_id: str, pid: int) -> None:
        self._metrics = metrics
        self._number = number
        self._count = count
        self._folder = folder
        self._gateway_id = gateway_id
        self._pid = pid
        self._server: asyncio.Server | None = None
        self._beating: asyncio.Task[None] | None = None
        self._unanswered: dict[int, float] = {}  # process -> its last sign of life when it did not answer

    async def start(self) -> None:
        """Answer the others from now on."""
        path = self._path(self._number)
        path.unlink(missing_ok=True)  # of a process that was killed
        self._server = await asyncio.start_unix_server(self._answer, path)
        self._beating = asyncio.create_task(self._beat(path), name="cachescope-sibling")

    async def _beat(self, path: Path) -> None:
        with contextlib.suppress(OSError):  # the folder is removed when the parent ends, and all with it
            while True:
                os.utime(path)
                await asyncio.sleep(BEAT_S)

    async def close(self) -> None:
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.gather(self._beating, return_exceptions=True)
            self._beating = None
        if self._server is not None:
            self._server.close()
            self._server = None

    async def all(self) -> list[Figures]:
        """Return the figures of every process in their order, this one's own among them."""
        return list(await asyncio.gather(*(self._of(number) for number in range(self._count))))

    async def exposition(self) -> bytes:
        """Return the Prometheus text of all processes, each series with the label `process`."""
        return generate_latest(_Merged(await self.all()))

    def _path(self, number: int) -> Path:
        return self._folder / f"{number}.sock"

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del reader
        told = {"gateway_id": self._gateway_id, "pid": self._pid, "families": [_plain(family) for family in self._metrics.families()]}
        with contextlib.suppress(OSError):
            writer.write(json.dumps(told).encode())  # not orjson: it has no infinity
            await writer.drain()
            writer.close()
            await writer.wait_closed()

    async def _of(self, number: int) -> Figures:
        if number == self._number:
            return Figures(number, self._gateway_id, self._pid, self._metrics.families())
        path = self._path(number)
        try:
            alive_s = path.stat().st_mtime
        except OSError:
            return Figures(number)  # it has not started yet, or is gone
        silent = time.time() - alive_s > SILENT_S or self._unanswered.get(number) == alive_s
        try:
            async with asyncio.timeout(SILENT_ANSWER_S if silent else ANSWER_S):
                reader, writer = await asyncio.open_unix_connection(path)
                try:
                    told = json.loads(await reader.read())
                finally:
                    writer.close()
        except (OSError, TimeoutError, ValueError):
            self._unanswered[number] = alive_s
            return Figures(number)
        self._unanswered.pop(number, None)
        return Figures(number, told["gateway_id"], told["pid"], [_family(family) for family in told["families"]])


def counters(found: Sequence[Figures]) -> dict[str, float]:
    """Return every counter's sum over the processes that answered, by name and labels."""
    summed: Counter[str] = Counter()
    for figures in found:
        for name, value in totals(figures.families or ()).items():
            summed[name] += value  # type: ignore[assignment]  # a Counter counts floats as well
    return dict(summed)


class _Merged(Collector):
    def __init__(self, found: Sequence[Figures]) -> None:
        self._found = found

    def collect(self) -> Iterator[Metric]:
        merged: dict[str, Metric] = {}
        for figures in self._found:
            label = {"process": str(figures.process)}
            for family in figures.families or ():
                into = merged.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                for sample in family.samples:
                    into.add_sample(sample.name, {**sample.labels, **label}, sample.value)
        for figures in self._found:
            if figures.families is None:
                merged[semconv.METRIC_PROCESS_UP].add_sample(semconv.METRIC_PROCESS_UP, {"process": str(figures.process)}, 0.0)
        yield from merged.values()


def _plain(family: Metric) -> Json:
    samples = [[sample.name, dict(sample.labels), sample.value] for sample in family.samples]
    return {"name": family.name, "help": family.documentation, "type": family.type, "samples": samples}


def _family(told: Json) -> Metric:
    family = Metric(told["name"], told["help"], told["type"])
    for name, labels, value in told["samples"]:
        family.add_sample(name, labels, value)
    return family

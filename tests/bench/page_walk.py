"""Odd telemetry through the real doors, and then every page looked at: `python -m tests.bench.page_walk [state …]`.

A real collector takes each state over OTLP/HTTP, OTLP/gRPC or a scrape; the worker's jobs compute what they compute; every page is
drawn by Streamlit's own runner, whole and narrowed. What is drawn is read: no traceback, no number that is none, and nothing of which
nothing is known told as 0 %. Exit code 1 when anything is found.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import math
import os
import re
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import httpx
import streamlit as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from streamlit.testing.v1 import AppTest

from app.config import load
from app.jobs import drift as drift_job
from app.jobs import regret as regret_job
from app.ui import handles, panels, tables
from collectors.runner import Collector
from collectors.settings import CollectorSettings
from tests.app import support
from tests.app.views.test_bad_input_everywhere import numbers
from tests.bench.odd_states import COUNTERS, MARKUP, STATES, Sender
from tests.support.servers import page_server, wait_for

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("overview", "hit_rate", "traces", "drift", "regret", "purge", "warmup", "thresholds", "audit", "sources")
_NONE = re.compile(r"(?<![\w.])(nan|NaN|NaT|-?inf|infinity|None|undefined|null)(?![\w.])")
_NOUGHT = re.compile(r"(?<![\d.,])0(\.0+)?[\u00a0 ]?\\?%")


class Collecting:
    """A collector in a thread of its own, on this installation's ports."""

    def __init__(self, settings: CollectorSettings) -> None:
        self.settings = settings
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._collector = Collector(settings)
        self._call(self._collector.start())

    def _call(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=120)

    def stop(self) -> None:
        self._call(self._collector.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def send(self, request: ExportTraceServiceRequest, *, over_grpc: bool) -> str:
        """Return what the collector answered: '' or what it refused."""
        body = request.SerializeToString()
        if over_grpc:
            with grpc.insecure_channel(self.settings.grpc_bind) as channel:
                method = channel.unary_unary("/opentelemetry.proto.collector.trace.v1.TraceService/Export")
                answered = method(body, timeout=120)
                return repr(answered)[:200] if answered else ""
        answer = httpx.post(
            f"http://{self.settings.http_bind}/v1/traces", content=body, headers={"Content-Type": "application/x-protobuf"}, timeout=120
        )
        return f"{answer.status_code} {answer.content[:200]!r}" if answer.status_code != 200 or answer.content else ""


@contextlib.contextmanager
def recorded() -> Iterator[tuple[list[Any], list[Any]]]:
    """Keep the rows of every table and every figure that a page draws, before they became JSON, which knows no NaN."""
    rows: list[Any] = []
    figures: list[Any] = []
    show, chart = tables.show, panels.chart

    def shown(given: Any, **more: Any) -> None:
        rows.append((more.get("alt"), given))
        show(given, **more)

    def drawn(made: Any, **more: Any) -> None:
        figures.append((made.title, made.figure))
        rows.append((made.title, more.get("rows")))
        chart(made, **more)

    tables.show, panels.chart = shown, drawn
    try:
        yield rows, figures
    finally:
        tables.show, panels.chart = show, chart


def _texts(node: Any) -> Iterator[str]:
    """Every text of every element, as it goes to the browser."""
    from google.protobuf.message import Message

    def strings(message: Message, path: str) -> Iterator[str]:
        for spec, value in message.ListFields():
            for one in value if isinstance(value, Iterable) and not isinstance(value, str | bytes) else [value]:
                if isinstance(one, str):
                    if spec.name not in {
                        "id",
                        "spec",
                        "data",
                        "config",
                        "columns",
                        "form_id",
                        "options",
                        "raw_values",
                        "raw_value",
                        "alt",
                        "alt_text",
                        "default",
                        "value",
                        "set_value",
                        "config_json",
                        "figure",
                        "deferred_file_id",
                        "page_script_hash",
                        "url",
                    }:
                        yield one
                elif isinstance(one, Message):
                    yield from strings(one, f"{path}.{spec.name}")

    for element in _elements(node):
        proto = getattr(element, "proto", None)
        if proto is not None:
            yield from strings(proto, "")


def _elements(node: Any) -> Iterator[Any]:
    children = getattr(node, "children", None)
    if children:
        for child in children.values():
            yield child
            yield from _elements(child)


def look(page: str, *, known: bool, allowed: Sequence[str] = (), **query: str) -> list[str]:
    """Draw a page; return what is wrong with it."""
    found: list[str] = []
    with recorded() as (rows, figures):
        begun = time.perf_counter()
        test = AppTest.from_file(str(ROOT / "app/main.py"), default_timeout=600)
        test.switch_page(f"../pages/{page}.py")
        for name, value in query.items():
            test.query_params[name] = value
        test.run()
        took = time.perf_counter() - begun
    found += [f"EXCEPTION {error.message} | {' / '.join(str(error.stack_trace[-3:]).split())[:600]}" for error in test.exception]
    texts = list(_texts(test._tree))
    if len(texts) < 9:
        found.append(f"hardly a text: {texts}")
    for text in texts:
        clean = text
        for word in allowed:
            clean = clean.replace(word, "")
        if _NONE.search(clean) and not clean.startswith((":material", "<svg", "data:")):
            found.append(f"text {text[:160]!r}")
        if not known and _NOUGHT.search(clean) and " of 0" not in clean:
            found.append(f"a 0 %: {text[:160]!r}")
        if re.search(r"(?<!\\)<script|(?<!\\):red\[|(?<!\\)\[x\]\(|\u202e", text):
            found.append(f"markup {text[:160]!r}")
    for title, given in rows:
        for path, number in numbers(given, str(title)):
            if not math.isfinite(number):
                found.append(f"table {path} {number}")
        for row in given or ():
            for name, value in row.items():
                if isinstance(value, str) and _NONE.search(value) and value not in allowed and not any(word in value for word in allowed):
                    found.append(f"cell {title}.{name} {value[:100]!r}")
                if isinstance(value, str) and "\u202e" in value:
                    found.append(f"override in cell {title}.{name}")
    for title, figure in figures:
        made = figure.to_dict()
        found += [f"figure {path} {number}" for path, number in numbers(made, title) if not math.isfinite(number)]
        spec = figure.to_json()
        if re.search(r"<script|<a href|\\u202e", spec):
            found.append(f"markup in figure {title}: {re.search('.{40}(<script|<a href|.u202e).{40}', spec)}")
    if took > 20:
        found.append(f"took {took:.0f} s")
    return list(dict.fromkeys(found))


@dataclass
class Place:
    folder: Path
    environ: dict[str, str]

    @contextlib.contextmanager
    def console(self) -> Iterator[Any]:
        """The environment of a console in this process."""
        kept = {name: os.environ.get(name) for name in self.environ}
        os.environ.update(self.environ)
        for cached in (handles.wiring, handles.failures):
            cached.clear()
        st.cache_data.clear()
        try:
            config = load(os.environ)
            config.prepare()
            yield config
        finally:
            handles.wiring().close()
            handles.wiring.clear()
            for name, value in kept.items():
                if value is None:
                    os.environ.pop(name)
                else:
                    os.environ[name] = value


def fill(config: Any, state: str) -> str:
    """Send a state through a real collector; return what it refused."""
    given = config.collector_settings()
    if state in COUNTERS:
        return _scraped(given, *COUNTERS[state][0])
    collector = Collecting(given)
    try:
        sender = Sender(time.time_ns())
        STATES[state](sender)
        if not sender.number:
            return ""
        over_grpc = sum(map(ord, state)) % 2 == 0
        return collector.send(sender.request, over_grpc=over_grpc)
    finally:
        collector.stop()


def _scraped(given: CollectorSettings, page: str, values: list[tuple[Any, Any]]) -> str:
    from dataclasses import replace

    from collectors.settings import ScrapeTarget

    asked = 0

    def answer() -> bytes:
        nonlocal asked
        n, h = values[min(asked, len(values) - 1)]
        asked += 1
        return page.format(n=n, h=h).encode("utf-8", "replace")

    with page_server(answer) as url:
        collector = Collecting(replace(given, targets=(ScrapeTarget(url, interval_s=0.3, jitter_ratio=0),)))
        try:
            wait_for(lambda: asked > len(values) + 1, what="every page was scraped")
        finally:
            collector.stop()
    return ""


def analyse() -> None:
    """Compute what the worker computes ahead."""
    ctx = support.admin(handles.wiring())
    for kind in (regret_job, drift_job):
        support.worked(ctx, kind)


def walk(state: str, *, pages: Sequence[str] = PAGES, say: Callable[[str], None] = print) -> int:
    faults = 0
    with tempfile.TemporaryDirectory(prefix="cachescope-walk-") as scratch:
        place = Place(Path(scratch), support.environ(Path(scratch)))
        with place.console() as config:
            refused = fill(config, state)
            if refused:
                say(f"   {state}: the collector said {refused}")
            analyse()
            known = state not in {"nothing", "a clock ahead", "the year 2262", "the year 1970", *COUNTERS}
            namespace = "faq" if state not in {"markup", "odd names", "unnamed"} else MARKUP if state == "markup" else "\u202eevil"
            for page in pages:
                allowed = (
                    ["None.", "NaN", "nan", "None", "NULL", "null"]
                    if state in {"odd names", "rubbish as JSON", "lists and maps"}
                    else ["None.", "None was told"]
                )
                for query in (
                    {},
                    {"namespace": namespace},
                    {"range": "7d"},
                    {"range": "15m", "namespace": namespace, "compare": "vs day before"},
                ):
                    for line in look(page, known=known, allowed=allowed, **query):
                        faults += 1
                        say(f"!! {state} | {page} {query} | {line}")
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("states", nargs="*", help="of which: all unless some are named")
    parser.add_argument("--pages", nargs="*", default=list(PAGES))
    asked = parser.parse_args()
    faults = 0
    logging.disable(logging.WARNING)  # Streamlit's, about a run without a browser
    for state in asked.states or [*STATES, *COUNTERS]:
        begun = time.perf_counter()
        found = walk(state, pages=asked.pages)
        faults += found
        print(f"{state}: {found} faults, {time.perf_counter() - begun:.0f} s", flush=True)
    return min(1, faults)


if __name__ == "__main__":
    sys.exit(main())

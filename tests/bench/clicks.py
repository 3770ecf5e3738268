"""Clicks on a point of every chart of every page, and says where each led: `python -m tests.bench.clicks [page …]`.

The store holds an injected incident (tests.bench.incident), counters, a fitted score, and what the worker computes ahead. On each chart a
point is clicked, the button beside its title is pressed by keyboard, and, where time is the axis, a region is dragged over. Exit code 1
when a chart leads nowhere and `definitions.UNSELECTABLE` does not say so, or when one that it names leads on or has a hand as pointer.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from playwright.sync_api import Locator, Page
from playwright.sync_api import TimeoutError as NotYet
from sqlalchemy import select

from app.admin import actions
from app.jobs import drift as drift_job
from app.jobs import regret as regret_job
from app.views import definitions, regret_past
from storage import analyses, counters
from storage.reads.window import lookups
from storage.rows import CounterReading, Scrape, SourceKey
from storage.store import open_ops
from tests.app import support
from tests.app.admin.test_verification import teach
from tests.bench import incident
from tests.e2e.screens import DRAWN, SETTLED, browser
from tests.e2e.stack import console_alone
from tests.support import telemetry

PAGES = ("overview", "hit_rate", "drift", "regret", "thresholds?namespace=faq", "traces")
OVER_TIME = frozenset({"outcomes", "rate", "latency", "counters"})  # those on pages with a switch for dragging
_PATIENCE_MS, _STEP_MS, _STILL_MS = 180_000, 20_000, 2_500
_MINUTE_MS, _HOUR_MS = 60_000, 3_600_000
_MOST_POINTS = 4  # a point may lie beneath another one's bar
_BLOCKS = [{"hash_ids": [1, 2, 3], "input_length": 1_400}, {"hash_ids": [1, 2, 4], "input_length": 1_500}]

# Where the points lie in the window: of bars their middle, the largest first; of lines their markers, the last first.
_POINTS = """(holder) => {
    const drawn = holder.querySelector('.js-plotly-plot'), layout = drawn._fullLayout, at = drawn.getBoundingClientRect();
    const found = [];
    drawn.calcdata.forEach((points, trace) => points.forEach((point) => {
        const full = drawn._fullData[trace];
        if (full.hoverinfo === 'skip' || !(full.type === 'bar' || /markers/.test(full.mode))) return;
        const own = (full.customdata || [])[point.i ?? point.index ?? points.indexOf(point)];
        if (Array.isArray(own) && own[own.length - 1] === '') return;
        const lying = full.orientation === 'h';
        let x, y, size = 0;
        if (full.type === 'bar') {
            if (!point.s) return;
            const along = lying ? layout.xaxis : layout.yaxis, middle = along.c2p(point.b + point.s / 2);
            [x, y] = lying ? [middle, layout.yaxis.c2p(point.y)] : [layout.xaxis.c2p(point.x), middle];
            size = Math.abs(along.c2p(point.b + point.s) - along.c2p(point.b));
        } else {
            if (typeof point.x !== 'number' || typeof point.y !== 'number') return;
            [x, y] = [layout.xaxis.c2p(point.x), layout.yaxis.c2p(point.y)];
        }
        if (Number.isFinite(x) && Number.isFinite(y)) found.push([at.x + layout.xaxis._offset + x, at.y + layout.yaxis._offset + y, size]);
    }));
    return found.reverse().sort((one, other) => other[2] - one[2]);
}"""


def fill(home: Path) -> str:
    """Write everything that a chart can be drawn of; return the id of a trace."""
    wired = support.wiring(home)
    now = time.time_ns() // 1_000_000
    made = telemetry.open_store(home / "data"), open_ops(telemetry.settings(home / "data"))
    incident.write(made[0], made[1], "purge", now_ms=now, at_ms=now - 25 * _MINUTE_MS)
    for back, hits, misses in ((30, 0, 0), (20, 30, 10), (10, 70, 50)):
        at_ms = now - back * _MINUTE_MS
        told = {"hits": hits, "misses": misses}
        readings = [CounterReading(f"litellm_cache_{name}_metric_total", "{}", at_ms, n, None, "") for name, n in told.items()]
        counters.write_scrape(made[0], SourceKey("scrape", "http://proxy"), Scrape(at_ms, counters=readings), now_ms=at_ms, max_series=10)
    for store in made:
        store.close()
    support.fill(wired.config, "faq", 1)
    ctx = support.admin(wired)
    teach(ctx)
    assert actions.fit_score(ctx, "faq", support.operation()).ok
    for kind in (regret_job, drift_job):
        support.worked(ctx, kind)
    with wired.ops().read() as conn:
        newest = [one for one in analyses.newest(conn, kind="regret", horizon="24h") if one.result is not None]
    for one in newest:  # a course needs two times
        earlier = {name: getattr(one, name) - 3 * _HOUR_MS for name in ("at_ms", "start_ms", "end_ms")}
        analyses.put(wired.ops(), regret_past.with_past(replace(one, **earlier))[1])
    with wired.telemetry().read() as conn:
        trace_id = conn.execute(select(lookups.c.trace_id).limit(1)).scalar_one().hex()
    wired.close()
    return str(trace_id)


@contextmanager
def opened() -> Iterator[Page]:
    with browser() as one:
        context = one.new_context(viewport={"width": 1440, "height": 1000}, timezone_id="Asia/Shanghai")
        context.set_default_timeout(_PATIENCE_MS)
        yield context.new_page()
        context.close()


def show(tab: Page, address: str) -> None:
    """Open a page that stands still; bring the file that *Granularity* asks for."""
    tab.goto(f"{address}{'&' if '?' in address else '?'}live=false")
    tab.locator("h1").first.wait_for()
    tab.wait_for_function(SETTLED)
    if "/regret" in address:
        lines = "\n".join(json.dumps(block) for block in _BLOCKS * 60).encode()
        tab.locator("input[type=file]").set_input_files({"name": "trace.jsonl", "mimeType": "application/json", "buffer": lines})
        tab.get_by_role("figure", name="What each size of unit").wait_for()
    tab.wait_for_function(DRAWN)
    tab.wait_for_timeout(800)  # figures fade in, and the page's height settles


def keys(tab: Page) -> list[str]:
    """Return the keys of the charts that are drawn, in their order; what is added at each selection is left out."""
    found = tab.locator("[data-testid=stElementContainer][class*=st-key-]:has([data-testid=stPlotlyChart])")
    names = [name for held in found.all() for name in (held.get_attribute("class") or "").split() if name.startswith("st-key-")]
    return [name.removeprefix("st-key-") for name in names]


def chart(tab: Page, key: str) -> Locator:
    held = tab.locator(f".st-key-{key}")
    held.scroll_into_view_if_needed()
    return held


def led(tab: Page, act: Callable[[], None], *, patience_ms: int = _STEP_MS) -> str:
    """Return the page and what of its address came with the act; '' when it led nowhere."""
    address = tab.url
    act()
    try:
        tab.wait_for_function("(before) => location.href !== before", arg=address, timeout=patience_ms)
    except NotYet:
        return ""
    tab.wait_for_timeout(600)  # the query comes before the path
    tab.wait_for_function(SETTLED)
    before, after = urlsplit(address), urlsplit(tab.url)
    held = set(parse_qsl(before.query))
    more = ", ".join(f"{name}={value}" for name, value in parse_qsl(after.query) if (name, value) not in held)
    return f"{after.path} {more}"


def arrived(tab: Page) -> str:
    """Return the first words of the answer where a click led, or what is wrong with it."""
    if tab.get_by_test_id("stException").count():
        return "a traceback"
    if "since=" in tab.url:
        tab.get_by_text("Why did it change?").first.wait_for()
    told = tab.locator("h5").first.inner_text().replace("\n", " ")
    return f"{told[:90]}"


def point(tab: Page, key: str) -> Callable[[], None]:
    """Return the click on a point of a chart. Of points that hide one another the next is tried."""

    def click() -> None:
        before = tab.url
        for x, y, _ in chart(tab, key).evaluate(_POINTS)[:_MOST_POINTS]:
            tab.mouse.move(x - 3, y)
            tab.mouse.move(x, y)
            tab.wait_for_timeout(200)
            tab.mouse.click(x, y)
            tab.wait_for_timeout(_STILL_MS)
            if tab.url != before:
                return

    return click


def dragged(tab: Page, key: str) -> Callable[[], None]:
    def drag() -> None:
        box = chart(tab, key).locator(".nsewdrag").first.bounding_box()
        assert box is not None
        y = box["y"] + box["height"] / 2
        tab.mouse.move(box["x"] + box["width"] * 0.3, y)
        tab.mouse.down()
        for share in (0.4, 0.5, 0.6):
            tab.mouse.move(box["x"] + box["width"] * share, y)
        tab.mouse.up()

    return drag


def pressed(tab: Page, key: str) -> Callable[[], None]:
    """Return the press of the button beside a chart's title, by keyboard alone."""

    def press() -> None:
        button = tab.locator(f".st-key-{key}_worst button")
        if button.count():
            button.first.focus()
            tab.keyboard.press("Enter")

    return press


def walk(tab: Page, address: str, page: str) -> list[str]:
    """Click on every chart of a page; print where each led, and return what is wrong."""
    faults: list[str] = []
    show(tab, f"{address}/{page}")
    for drawn in keys(tab):
        base = drawn.rsplit("_", 1)[0] if drawn.rsplit("_", 1)[-1].isdigit() else drawn
        name = base.split("_", maxsplit=1)[0]
        show(tab, f"{address}/{page}")
        hand = chart(tab, drawn).locator(".nsewdrag").first.evaluate("(drag) => getComputedStyle(drag).cursor") == "pointer"
        if name in definitions.UNSELECTABLE:
            to = led(tab, point(tab, drawn), patience_ms=1)
            said = f"nothing to select: {definitions.UNSELECTABLE[name]}"
            wrong = [f"leads to {to}" if to else "", "has a hand as pointer" if hand else ""]
            faults += [f"{page} {base}: it is said to have nothing to select, and {one}" for one in wrong if one]
            print(f"{page:24} {base:20} {'click':8} {to or said}", flush=True)
            continue
        if not hand:
            faults.append(f"{page} {base}: no hand as pointer")
        ways = {"click": point(tab, drawn), "keyboard": pressed(tab, base)}
        if name in OVER_TIME:
            ways["drag"] = dragged(tab, drawn)
        for way, act in ways.items():
            show(tab, f"{address}/{page}" + ("&" if "?" in page else "?") * (way == "drag") + "drag=true" * (way == "drag"))
            to = led(tab, act)
            said = arrived(tab) if to else "led nowhere"
            print(f"{page:24} {base:20} {way:8} {to} | {said}", flush=True)
            if not to or said == "a traceback" or said.startswith("warning No lookup"):
                faults.append(f"{page} {base}: {way} {to} {said}")
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", default=list(PAGES))
    asked = parser.parse_args()
    faults: list[str] = []
    with tempfile.TemporaryDirectory(prefix="cachescope-clicks-") as scratch:
        home = Path(scratch)
        trace_id = fill(home)
        with console_alone({**os.environ, **support.environ(home)}) as address, opened() as tab:
            for page in asked.pages:
                faults += walk(tab, address, f"traces?trace={trace_id}" if page == "traces" else page)
    print(*(f"!! {fault}" for fault in faults), sep="\n")
    return min(1, len(faults))


if __name__ == "__main__":
    sys.exit(main())

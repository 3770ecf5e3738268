"""Walks through the console as a person does who was told "the hit rate fell, why?", and says how long each step takes.

`python -m tests.bench.incident_walk` writes an injected incident (tests.bench.incident), starts a console on it, and in a browser goes from
the front page to the answer, from a bar of its chart to the answer since that time, and from there to a trace. `--kind` is the incident.
"""

from __future__ import annotations

import argparse
import os
import re
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import Page, expect

from storage.store import open_ops
from tests.app.support import environ
from tests.bench import incident
from tests.e2e.screens import browser
from tests.e2e.stack import console_alone
from tests.support import telemetry

ANSWERS = {"purge": "Cache", "model": "Model", "traffic": "Traffic", "outage": "No change"}
_PATIENCE_MS = 180_000
_MINUTE_MS = 60_000
_STEP_MS, _ATTEMPTS = 20_000, 9
_ASIDE = 0.006  # of the width: a third of a bar of a minute


def bar_after(tab: Page, share: float) -> None:
    """Click on a bar of the outcomes at about this share of the chart's width, until it leads on: between two bars a click hits none."""
    for attempt in range(_ATTEMPTS):
        with suppress(PlaywrightError, AssertionError):
            plot = tab.get_by_role("figure", name=re.compile("Lookups by outcome")).first
            plot.scroll_into_view_if_needed(timeout=_STEP_MS)
            box = plot.locator(".nsewdrag").first.bounding_box(timeout=_STEP_MS)
            if box:
                at = (box["x"] + box["width"] * (share + attempt * _ASIDE), box["y"] + box["height"] * 0.95)
                tab.mouse.move(*at)
                tab.mouse.click(*at)
                expect(tab).to_have_url(re.compile("hit_rate.*since="), timeout=_STEP_MS)
                return
    raise AssertionError(f"a click on the chart led nowhere; the page is {tab.url}")


def trace_of(tab: Page) -> None:
    """Follow the link of the first example lookup, beneath the table of them."""
    table = tab.get_by_label("Example lookups of the first segment").first
    expect(table).to_be_visible()
    tab.locator("a[href*='trace=']").first.click()
    expect(tab).to_have_url(re.compile("traces.*trace="))


def walk(address: str, kind: str) -> None:
    """Print each step with the seconds since the front page was asked for."""
    with browser() as opened:
        context = opened.new_context(viewport={"width": 1440, "height": 1000}, timezone_id="Asia/Shanghai")
        context.set_default_timeout(_PATIENCE_MS)
        expect.set_options(timeout=_PATIENCE_MS)
        tab = context.new_page()
        begun = time.monotonic()

        def done(step: str) -> None:
            print(f"{time.monotonic() - begun:7.1f} s  {step}", flush=True)

        tab.goto(address)
        expect(tab.get_by_text(re.compile(rf"Cache, model or traffic\?\W+{ANSWERS[kind]}"))).to_be_visible()
        done(f"the front page says {ANSWERS[kind]}")
        for dial in ("Hit rate", "Entropy", "Drift", "Regret"):
            expect(tab.get_by_text(dial, exact=True).first).to_be_visible()
        done("the four dials are drawn")
        bar_after(tab, 0.75)
        expect(tab.get_by_text("Why did it change?")).to_be_visible()
        done("a bar of its chart leads to why, since that time")
        tab.get_by_text("Compare with the chosen period again").click()
        expect(tab).not_to_have_url(re.compile("since="))
        expect(tab.get_by_text(re.compile(rf"^{ANSWERS[kind]}: ")).first).to_be_visible()
        done("the evidence since the time that was found")
        if kind != "outage":
            trace_of(tab)
            expect(tab.get_by_text("Spans of this trace").first).to_be_visible()
            done("an example trace is open")
        context.close()


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--kind", choices=incident.KINDS, default="purge")
    options.add_argument("--minutes", type=int, default=25, help="how long ago it began")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        now = time.time_ns() // 1_000_000
        (home / "data").mkdir()
        made = telemetry.open_store(home / "data"), open_ops(telemetry.settings(home / "data"))
        written = incident.write(made[0], made[1], given.kind, now_ms=now, at_ms=now - given.minutes * _MINUTE_MS)
        for store in made:
            store.close()
        with console_alone({**os.environ, **environ(home)}) as address:
            print(f"{written:,} lookups; {given.kind} {given.minutes} minutes ago")
            walk(address, given.kind)

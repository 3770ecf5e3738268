"""In a session that is under way: a link shows the range and the filters that it names, and Back and Forward what was shown."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.app.support import environ
from tests.bench import incident
from tests.e2e.screens import browser
from tests.e2e.stack import console_alone
from tests.support import telemetry
from tests.support.servers import wait_for

pytestmark = pytest.mark.browser
_PATIENCE_MS = 180_000  # a machine that does other work draws slowly
_MINUTE_MS = 60_000


@pytest.fixture
def console(tmp_path: Path) -> Iterator[str]:
    now = time.time_ns() // 1_000_000
    (tmp_path / "data").mkdir()
    store = telemetry.open_store(tmp_path / "data")
    incident.write(store, None, "model", now_ms=now, at_ms=now - 40 * _MINUTE_MS, per_minute=10)
    store.close()
    with console_alone({**os.environ, **environ(tmp_path)}) as address:
        yield address


def said(tab: Page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(tab.url).query)


def shown(tab: Page) -> tuple[str, str]:
    """Return the time range and the namespace that the bar shows."""
    ranges = tab.get_by_role("radiogroup", name=re.compile("Time range")).get_by_role("radio", checked=True).first
    return ranges.inner_text(), tab.get_by_role("combobox", name=re.compile("All namespaces")).first.input_value()


def test_a_link_shows_the_range_and_the_filters_that_it_names(console: str) -> None:
    with browser() as opened:
        context = opened.new_context(viewport={"width": 1440, "height": 1000})
        context.set_default_timeout(_PATIENCE_MS)
        expect.set_options(timeout=_PATIENCE_MS)
        tab = context.new_page()
        tab.goto(f"{console}/overview?range=6h&namespace=faq")
        tab.get_by_text("The hit rate in detail").click()
        expect(tab).to_have_url(re.compile("/hit_rate"))
        wait_for(lambda: shown(tab) == ("6h", "faq"), what="the hit rate is of the same lookups")
        link = tab.locator("[data-testid=stMain] a[href*='from=']").first
        named = parse_qs(urlsplit(link.get_attribute("href") or "").query)
        link.click()
        expect(tab).to_have_url(re.compile("/traces"))
        wait_for(lambda: shown(tab) == ("custom", "faq"), what="the traces are of the range of the link")
        assert {name: said(tab)[name] for name in named} == named

        tab.go_back()
        wait_for(lambda: shown(tab) == ("6h", "faq"), what="the hit rate is of what it was of before")
        expect(tab).to_have_url(re.compile("/hit_rate"))
        assert (said(tab)["range"], said(tab)["namespace"], "from" in said(tab)) == (["6h"], ["faq"], False)
        tab.go_forward()
        wait_for(lambda: shown(tab) == ("custom", "faq"), what="the traces are of the range of the link again")
        expect(tab).to_have_url(re.compile("/traces"))
        assert {name: said(tab)[name] for name in named} == named

        tab.get_by_role("radiogroup", name=re.compile("Time range")).get_by_role("radio", name="24h").click()
        wait_for(lambda: shown(tab) == ("24h", "faq") and "from" not in said(tab), what="the traces are of a day, and the times are gone")
        tab.get_by_test_id("stSidebarNav").get_by_text("Drift", exact=True).click()
        expect(tab).to_have_url(re.compile("/drift"))
        wait_for(lambda: shown(tab) == ("24h", "faq"), what="the drift is of the same lookups")
        tab.go_back()
        expect(tab).to_have_url(re.compile("/traces"))
        wait_for(lambda: shown(tab) == ("24h", "faq"), what="the traces are of a day again")

        expect(tab.get_by_test_id("stException")).to_have_count(0)
        context.close()

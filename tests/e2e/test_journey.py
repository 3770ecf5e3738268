"""The main job in a browser: traffic in, a hit rate out, a trace that says why, a purge that works, a warm-up, a threshold."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from app.demo.traffic import TENANTS, play
from tests.e2e.screens import browser
from tests.e2e.stack import Stack, console_alone, running_stack, running_stub
from tests.support.servers import wait_for

pytestmark = pytest.mark.browser
REQUESTS = 300
# Chromium and five services on two cores: what the engine gives up in time is tested elsewhere.
PATIENT = {"store_timeout_s": "30", "control_max_age_s": "30", "embedder_timeout_s": "30", "upstream_connect_timeout_s": "30"}
expect.set_options(timeout=60_000)  # a page on a busy machine
PAGES = ("overview", "hit_rate", "traces", "drift", "regret", "purge", "warmup", "thresholds", "audit", "sources")
# Names are kept as bytes: a text never equals them.
VISIBLE = "SELECT count(*) FROM entries, json_each(?) WHERE namespace = ? AND generation = value AND expires_ms > ?"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("home")
    with (
        running_stub() as upstream,
        running_stack(folder, demo=False, upstream_url=upstream, upstream_api_key="none", undo_window_s="600", **PATIENT) as made,
    ):
        yield made


def played(stack: Stack, keys: dict[str, str], requests: int) -> Mapping[str, int]:
    """Play the demo's traffic, in a thread of its own: the browser's driver has this one's event loop."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(play(stack.gateway, keys, requests=requests))).result()


@pytest.fixture(scope="module")
def keys(stack: Stack) -> dict[str, str]:
    """Tenants' keys, after the demo's traffic was played with them and all of its telemetry is stored."""
    made = {tenant: stack.cli("key", "create", tenant)["secret"] for tenant in TENANTS}
    counts = played(stack, made, REQUESTS)
    assert sum(counts.values()) == REQUESTS
    stored = "SELECT count(*) FROM lookups WHERE purpose = 'traffic'"
    wait_for(lambda: stack.rows("telemetry.db", stored)[0][0] == REQUESTS, what=f"{REQUESTS} lookups are stored")
    return made


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


@pytest.fixture
def tab(chromium: Browser) -> Iterator[Page]:
    context = chromium.new_context(viewport={"width": 1440, "height": 1000}, timezone_id="Asia/Shanghai")
    context.set_default_timeout(60_000)
    page = context.new_page()
    yield page
    context.close()


def settled(tab: Page, url: str) -> None:
    """Open a page and wait until its script has run to its end."""
    tab.goto(url)
    tab.locator("h1").first.wait_for()
    tab.wait_for_function("document.querySelector('[data-testid=stApp]').dataset.testScriptState === 'notRunning'")


def dial(tab: Page, label: str) -> str:
    """Return the value of the dial of this name: of the innermost block that holds both the label and a value."""
    named = tab.get_by_test_id("stVerticalBlock").filter(has=tab.get_by_text(label, exact=True))
    return named.filter(has=tab.locator("h3")).last.locator("h3").first.inner_text()


def number(text: str) -> float:
    found = re.search(r"[\d,]+(\.\d+)?", text)
    assert found, text
    return float(found[0].replace(",", ""))


def ask(stack: Stack, key: str, namespace: str, body: object) -> httpx.Response:
    headers = {"authorization": f"Bearer {key}", "cachescope-namespace": namespace}
    answer = httpx.post(f"{stack.gateway}/v1/chat/completions", json=body, headers=headers, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer


def body_of(prompt: str, model: str = "demo-small") -> dict[str, object]:
    return {"model": model, "messages": [{"role": "user", "content": prompt}]}


def visible(stack: Stack, namespace: str) -> int:
    """Count what may be served, past all of our own code: live generations of the record, entries of the table."""
    import json
    import time

    record = stack.rows("cache.db", "SELECT value FROM control WHERE key = ?", f"generations:{namespace}".encode())
    assert record, f"{namespace} has no record of its generations"
    live = json.dumps(json.loads(record[0][0])["live"])
    return int(stack.rows("cache.db", VISIBLE, live, namespace.encode(), int(time.time() * 1000))[0][0])


def test_every_namespace_shows_exact_and_semantic_hits(stack: Stack, keys: dict[str, str], tab: Page) -> None:
    for namespace in ("faq", "code", "docs"):
        settled(tab, f"{stack.console}/hit_rate?namespace={namespace}&range=24h")
        expect(tab.get_by_text("Hit rate", exact=True).last).to_be_visible()
        kinds = "SELECT outcome, count(*) FROM lookups WHERE namespace = ? GROUP BY outcome"
        counted = dict(stack.rows("telemetry.db", kinds, namespace))
        assert counted["exact_hit"] > 0
        assert counted["semantic_hit"] > 0
        settled(tab, f"{stack.console}/?namespace={namespace}&range=24h")
        expect(tab.get_by_text("Semantic hits", exact=True).first).to_be_visible()
        eligible = sum(n for outcome, n in counted.items() if outcome not in {"bypass", "error"})
        assert number(dial(tab, "Exact hits")) == pytest.approx(100 * counted["exact_hit"] / eligible, abs=0.06)
        assert number(dial(tab, "Semantic hits")) == pytest.approx(100 * counted["semantic_hit"] / eligible, abs=0.06)


def test_a_trace_says_why_it_hit(stack: Stack, keys: dict[str, str], tab: Page) -> None:
    query = "SELECT hex(trace_id), similarity, threshold, entry_id FROM lookups WHERE outcome = 'semantic_hit' LIMIT 1"
    trace, similarity, threshold, entry = stack.rows("telemetry.db", query)[0]
    tab.goto(f"{stack.console}/traces?trace={trace.lower()}&range=24h")
    main = tab.get_by_test_id("stMain")
    for words in ("semantic hit", f"{similarity:.4f}", f"{threshold:.4f}", entry):
        expect(main).to_contain_text(re.compile(re.escape(words), re.IGNORECASE))


def test_a_purge_from_the_page_is_counted_confirmed_verified_recorded_and_done_once(stack: Stack, keys: dict[str, str], tab: Page) -> None:
    prompt = "How long does the purge test's own entry live?"
    assert "stored" in ask(stack, keys["acme"], "faq", body_of(prompt)).headers["cache-status"]
    assert "hit" in ask(stack, keys["acme"], "faq", body_of(prompt)).headers["cache-status"].split("; ")
    before = {namespace: visible(stack, namespace) for namespace in ("faq", "code", "docs")}

    settled(tab, f"{stack.console}/purge?namespace=faq")
    tab.get_by_role("button", name="Preview a purge").click()
    expect(tab.get_by_text(f"A purge of faq would hide {before['faq']:,} entries").first).to_be_visible()
    assert number(dial(tab, "Entries")) == before["faq"]
    assert number(dial(tab, "Hits a minute")) > 0
    tab.get_by_role("button", name="Purge this namespace").click()
    dialog = tab.get_by_role("dialog")
    act = dialog.get_by_role("button", name="Purge", exact=True)
    expect(act).to_be_disabled()
    dialog.get_by_role("textbox").fill("faqs")
    expect(dialog.get_by_text("That is not the name.").first).to_be_visible()
    dialog.get_by_role("textbox").fill("faq")
    expect(act).to_be_enabled()
    act.dblclick()
    expect(tab.get_by_text(f"{before['faq']:,} entries hidden").first).to_be_visible()
    expect(tab.get_by_text("none from before is visible").first).to_be_visible()

    answer = ask(stack, keys["acme"], "faq", body_of(prompt))
    assert "fwd=miss" in answer.headers["cache-status"]
    assert {namespace: visible(stack, namespace) for namespace in ("code", "docs")} == {
        namespace: before[namespace] for namespace in ("code", "docs")
    }
    events = stack.rows("ops.db", "SELECT event, namespace, origin, act_id FROM act_events WHERE kind = 'purge' ORDER BY seq")
    assert [row[:3] for row in events] == [("pending", "faq", "console"), ("done", "faq", "console")]
    tab.goto(f"{stack.console}/audit?act={events[0][3]}")
    expect(tab.get_by_text("The record is whole").first).to_be_visible()
    expect(tab.get_by_text(f"{before['faq']:,} entries hidden").first).to_be_visible()


def test_a_purge_confirmed_in_two_tabs_with_queued_clicks_is_one_purge(stack: Stack, keys: dict[str, str], tab: Page) -> None:
    ask(stack, keys["acme"], "twice", body_of("Is it purged once?"))
    tabs = [tab, tab.context.new_page()]
    for one in tabs:
        settled(one, f"{stack.console}/purge?namespace=twice")
        one.get_by_role("button", name="Preview a purge").click()
        one.get_by_role("button", name="Purge this namespace").click()
        one.get_by_role("dialog").get_by_role("textbox").fill("twice")
        expect(one.get_by_role("dialog").get_by_role("button", name="Purge", exact=True)).to_be_enabled()
    first, second = (one.get_by_role("dialog").get_by_role("button", name="Purge", exact=True) for one in tabs)
    first.evaluate("button => { button.click(); button.click(); button.click() }")
    expect(tabs[0].get_by_text("1 entry hidden").first).to_be_visible()
    ask(stack, keys["acme"], "twice", body_of("Is what came after it still there?"))
    second.click()
    expect(tabs[1].get_by_text("was purged or restored since the preview").first).to_be_visible()
    acts = "SELECT event FROM act_events WHERE kind = 'purge' AND namespace = 'twice' ORDER BY seq"
    assert stack.rows("ops.db", acts) == [("pending",), ("done",)]
    assert visible(stack, "twice") == 1


def test_a_warm_up_from_the_page_brings_the_entries_back(stack: Stack, keys: dict[str, str], tab: Page) -> None:
    missed = "SELECT prompt, tenant FROM lookups WHERE namespace = 'docs' AND outcome = 'miss' GROUP BY key ORDER BY count(*) DESC, key"
    assert stack.rows("telemetry.db", missed)
    purge = stack.cli("purge", "docs", "--yes", "--confirm", "docs")
    assert purge["state"] == "done"
    assert visible(stack, "docs") == 0
    settled(tab, f"{stack.console}/warmup?namespace=docs")
    tab.get_by_role("button", name="Plan", exact=True).click()
    tab.get_by_role("button", name=re.compile(r"Warm \d+ requests")).click()
    tab.get_by_role("dialog").get_by_role("button", name="Start the warm-up").click()
    ended = "SELECT event FROM act_events WHERE kind = 'warmup' AND event <> 'pending'"
    wait_for(lambda: stack.rows("ops.db", ended), what="the warm-up ends", timeout_s=180)
    assert stack.rows("ops.db", ended) == [("done",)]
    assert visible(stack, "docs") > 0
    written = "SELECT count(*) FROM lookups WHERE purpose = 'warmup'"
    wait_for(lambda: stack.rows("telemetry.db", written)[0][0] > 0, what="the warm-up's lookups are stored, apart from traffic")
    counts = played(stack, keys, 20)
    assert sum(n for status, n in counts.items() if "; hit" in status) > 0


def test_a_threshold_moved_on_the_page_is_in_force_at_the_gateway(stack: Stack, keys: dict[str, str], tab: Page) -> None:
    settled(tab, f"{stack.console}/thresholds?namespace=code&range=24h")
    slider = tab.get_by_role("slider")
    first = number(tab.get_by_role("button", name=re.compile(r"Apply 0\.\d+")).inner_text())
    for step in range(1, 6):
        slider.press("ArrowRight")
        wanted = first + step / 1000
        apply = tab.get_by_role("button", name=f"Apply {wanted:.3f}")
        expect(apply).to_be_enabled()  # the page has followed: a key pressed while it draws itself anew may be lost
    apply.click()
    tab.get_by_role("dialog").get_by_role("textbox").fill("code")
    tab.get_by_role("dialog").get_by_role("button", name="Set the threshold").click()
    expect(tab.get_by_text(re.compile("Policy of code: .*threshold")).first).to_be_visible()
    policies = {row["name"]: row["policy"] for row in stack.control("/namespaces")["namespaces"]}
    assert policies["code"]["threshold"] == pytest.approx(wanted)
    ask(stack, keys["acme"], "code", body_of("How do I reverse a tuple in Python?", "demo-large"))
    recorded = "SELECT threshold, policy_version FROM lookups WHERE namespace = 'code' ORDER BY id DESC LIMIT 1"
    wait_for(lambda: stack.rows("telemetry.db", recorded)[0][1] == 1, what="a lookup under the new policy is stored")
    assert stack.rows("telemetry.db", recorded)[0][0] == pytest.approx(wanted)
    assert stack.rows("ops.db", "SELECT event FROM act_events WHERE kind = 'threshold' ORDER BY seq") == [("pending",), ("done",)]


def test_the_gateway_s_counters_and_the_stored_lookups_reconcile(stack: Stack, keys: dict[str, str]) -> None:
    def counted() -> dict[tuple[str, str, str], int]:
        found = {}
        for line in httpx.get(f"{stack.gateway}/metrics", timeout=60).text.splitlines():
            match = re.fullmatch(r'cachescope_lookups_total\{namespace="(.*)",outcome="(.*)",purpose="(.*)"\} (.*)', line)
            if match:
                found[match[1], match[2], match[3]] = round(float(match[4]))
        return found

    def stored() -> dict[tuple[str, str, str], int]:
        query = "SELECT namespace, outcome, purpose, count(*) FROM lookups GROUP BY 1, 2, 3"
        return {row[:3]: row[3] for row in stack.rows("telemetry.db", query)}

    wait_for(lambda: counted() == stored(), what="counters and stored lookups agree")
    assert sum(counted().values()) > REQUESTS


_FITS = "(() => { const main = document.querySelector('[data-testid=stMain]'); return main.scrollWidth - main.clientWidth <= 1 })()"


def faults(tab: Page, base: str) -> list[str]:
    """Open every page at the tab's width; return what no page may show."""
    found = []
    for name in PAGES:
        settled(tab, f"{base}/{name}")
        if tab.get_by_test_id("stException").count() or "Traceback" in tab.get_by_test_id("stMain").inner_text():
            found.append(f"{name}: an exception")
        if tab.get_by_role("dialog").count():
            found.append(f"{name}: {tab.get_by_role('dialog').inner_text()}")
        try:  # a figure is drawn at its width only after the page has its own
            tab.wait_for_function(_FITS, timeout=20_000)
        except PlaywrightTimeout:
            found.append(f"{name}: wider than the window")
    return found


@pytest.mark.parametrize("width", [1440, 390])
def test_every_page_of_the_menu_opens_with_data(stack: Stack, keys: dict[str, str], tab: Page, width: int) -> None:
    settled(tab, f"{stack.console}/")
    expect(tab.get_by_test_id("stSidebarNavLink")).to_have_count(len(PAGES))
    linked = [link.get_attribute("href") or "" for link in tab.get_by_test_id("stSidebarNavLink").all()]
    assert [link.rsplit("/", 1)[1] for link in linked] == list(PAGES)
    tab.set_viewport_size({"width": width, "height": 844})
    assert faults(tab, stack.console) == []


def test_every_page_opens_while_no_gateway_runs(stack: Stack, keys: dict[str, str], tab: Page) -> None:
    with console_alone(stack.environment) as console:
        tab.set_viewport_size({"width": 390, "height": 844})
        assert faults(tab, console) == []
        settled(tab, f"{console}/purge")
        expect(tab.get_by_text(re.compile("no gateway answers", re.IGNORECASE)).first).to_be_visible()


def test_a_browser_far_away_reads_the_same_utc_times_in_chart_and_table(stack: Stack, keys: dict[str, str], tab: Page) -> None:
    tab.set_viewport_size({"width": 1440, "height": 1600})
    settled(tab, f"{stack.console}/overview?range=15m")
    assert tab.evaluate("new Date().getTimezoneOffset()") == -480
    tab.get_by_text("Table: Lookups by outcome").first.click()
    cells = tab.get_by_test_id("stDataFrame").first.locator("table td")
    expect(cells.first).to_have_text(re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"))
    chart = tab.locator(".js-plotly-plot").first

    def read() -> tuple[list[str], list[str], set[str]]:
        """The times in the table's rows that are in sight, in the chart, and at its ticks."""
        rows = [text for text in cells.all_text_contents() if re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", text)]
        ticks, drawn = chart.evaluate(
            "plot => [[...plot.querySelectorAll('.xtick text')].map(tick => tick.textContent), [...plot.data[0].x]]"
        )
        return rows, drawn, {found[0] for text in ticks if (found := re.search(r"\d\d:\d\d", text))}

    def alike() -> bool:
        rows, drawn, ticks = read()
        last = datetime.fromisoformat(drawn[-1])
        # The end of the last bucket may have a tick too.
        axis = {datetime.fromisoformat(time).strftime("%H:%M") for time in drawn} | {f"{last + timedelta(minutes=1):%H:%M}"}
        return bool(rows and ticks) and rows == drawn[: len(rows)] and ticks <= axis

    wait_for(alike, what="table and chart tell the same times: they are read one after the other, and the page draws itself anew")
    last = datetime.fromisoformat(read()[1][-1]).replace(tzinfo=UTC)
    assert timedelta(0) <= datetime.now(UTC) - last < timedelta(minutes=5)


def test_the_demo_fills_the_console_and_stops_cleanly(tmp_path: Path, tab: Page) -> None:
    with running_stack(tmp_path, demo=True, upstream_url="http://127.0.0.1:9/v1") as demo:
        hits = "SELECT count(*) FROM lookups WHERE outcome = ?"
        for outcome in ("exact_hit", "semantic_hit"):
            wait_for(
                lambda outcome=outcome: (demo.home / "telemetry.db").exists() and demo.rows("telemetry.db", hits, outcome)[0][0] > 20,
                what=f"the demo's traffic has its {outcome}s",
                timeout_s=180,
            )
        tab.goto(f"{demo.console}/?range=24h")
        expect(tab.get_by_text("Demo data: generated traffic against a bundled stub model").first).to_be_visible()
        expect(tab.get_by_text("Hit rate", exact=True).last).to_be_visible()
        assert number(dial(tab, "Hit rate")) > 0
    assert demo.process.returncode == 0, "".join(demo.output)

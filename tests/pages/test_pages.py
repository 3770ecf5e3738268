"""The pages run by Streamlit's own test runner on a real SQLite cache: what they draw, and that names stay text."""

import contextlib
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from app.admin import actions as admin_acts
from app.analysis import regret
from app.analysis.what_if import analyse
from app.config import Config, load
from app.ui import handles
from app.ui.text import literal
from app.views import words
from app.wiring import now_ms
from storage import actions, analyses, counters, labels, points, spans
from storage.reads import drift
from storage.rows import CounterReading, ExemplarRow, MetricBatch, PointRows, SampleRow, Scrape, SourceKey
from storage.store import open_telemetry
from tests.app import support
from tests.app.admin.test_verification import teach
from tests.app.analysis.test_what_if import HOUR_MS, events
from tests.storage.support import Made, batch

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["overview", "hit_rate", "traces", "drift", "regret", "purge", "warmup", "thresholds", "audit", "sources"]
HOSTILE = ["a[1]*?\\", "<script>alert(1)</script>", "**bold** :red[x]", "left\u202eright", "n" * 200]


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    values = support.environ(tmp_path)
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    handles.wiring.clear()
    handles.failures.clear()
    st.cache_data.clear()  # views are kept for a minute, of the test before too
    load(values).prepare()
    yield values
    handles.wiring().close()
    handles.wiring.clear()


def _run(page: str, **query: str) -> AppTest:
    if page == "traces":  # its rows are links
        return _routed(page, **query)
    # The overview links to other pages, so it needs the router; `/` leads to it.
    script = "app/main.py" if page == "overview" else f"pages/{page}.py"
    test = AppTest.from_file(str(ROOT / script), default_timeout=60)
    for name, value in query.items():
        test.query_params[name] = value
    test.run()
    assert not test.exception
    return test


def _routed(page: str, **query: str) -> AppTest:
    """Run a page through the router: what came of an act links to another page."""
    test = AppTest.from_file(str(ROOT / "app/main.py"), default_timeout=60).run()
    test.switch_page(f"../pages/{page}.py")
    for name, value in query.items():
        test.query_params[name] = value
    test.run()
    assert not test.exception
    return test


def _texts(test: AppTest) -> list[str]:
    drawn = [*test.markdown, *test.caption, *test.error, *test.warning, *test.info, *test.success]
    return [str(element.value) for element in drawn]


@pytest.mark.parametrize("page", PAGES)
def test_page_has_a_headline_when_there_is_nothing(environ: dict[str, str], page: str) -> None:
    assert any(text.startswith("##### ") for text in _texts(_run(page)))


@pytest.mark.parametrize("before", ["9" * 30, "9" * 5_000, "9223372036854775807", "-1", "٣", "1.5"])
def test_the_audit_takes_any_link(environ: dict[str, str], before: str) -> None:
    assert any("No act" in text or "Nothing to show" in text for text in _texts(_run("audit", before=before)))


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("namespace", HOSTILE)
def test_hostile_names_are_drawn_as_text(environ: dict[str, str], page: str, namespace: str) -> None:
    support.fill(load(environ), namespace, 2)
    support.record_misses(load(environ), namespace, [namespace])
    test = _run(page, namespace=namespace)
    if page in {"purge", "warmup"}:
        assert test.selectbox(key="namespace").value == namespace
        assert test.button(key="preview_purge" if page == "purge" else "plan_warmup")
    for text in _texts(test):
        assert "\u202e" not in text
        assert not re.search(r"(?<!\\)<script|(?<!\\):red(?<!\\)\[|(?<!\*)\*\*bold\*\*", text)


def test_overview_draws_four_dials_each_with_its_definition_and_offers_its_tables(environ: dict[str, str]) -> None:
    support.record_misses(load(environ), "faq", ["one", "two"])
    test = _run("overview")
    helps = {str(element.value): element.proto.help for element in test.markdown}
    told = [helps[f":gray[{label}]"] for label in ("Hit rate", "Entropy", "Drift", "Regret")]
    assert [text[:12] for text in told] == ["Hits \\/ \\(hi", "How varied t", "How far the ", "What a perfe"]
    texts = _texts(test)
    assert {"nothing to compare with", "not computed yet"} <= set(texts)  # neither is a 0
    assert any(expander.label == "Save the tables of this page" for expander in test.expander)
    assert "Health of the gateway and of each source of telemetry" not in texts
    test.session_state["save_live"] = True  # opened
    texts = _texts(test.run())
    assert "Health of the gateway and of each source of telemetry" in texts
    assert "Effect of each namespace on the change of the hit rate" not in texts  # nothing to compare: no table to save


def test_preview_counts_what_the_engine_counts(environ: dict[str, str]) -> None:
    support.fill(load(environ), "a[1]*?\\", 7)
    support.fill(load(environ), "a1", 3)
    test = _run("purge", namespace="a[1]*?\\")
    test.button(key="preview_purge").click().run()
    assert not test.exception
    assert f"**A purge of {literal(words.name('a[1]*?' + chr(92)))} would hide 7 entries**" in _texts(test)
    assert handles.engine().visible("a[1]*?\\").visible == 7


def test_viewer_sees_why_he_may_not_act(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    support.fill(load(environ), "faq", 1)
    monkeypatch.setenv("CACHESCOPE_CONSOLE_ROLE", "viewer")
    test = _run("purge", namespace="faq")
    button = test.button(key="preview_purge")
    assert button.disabled
    assert "is viewer; purge needs operator" in button.help
    assert all(test.button(key=f"switch_{switch}").disabled for switch in ("on", "exact-only", "off"))


def test_a_normaliser_is_chosen_confirmed_by_the_name_and_told(environ: dict[str, str]) -> None:
    support.fill(load(environ), "faq", 1)
    test = _run("thresholds", namespace="faq")
    test.selectbox(key="normaliser_faq_0").select("sql").run()
    test.button(key="open_normaliser").click().run()
    assert any("are not served under another" in text for text in _texts(test))
    (name,) = [field for field in test.text_input if field.label.startswith("Type")]
    name.input("faq").run()
    (act,) = [button for button in test.button if button.label == "Set the normaliser"]
    act.click().run()  # its outcome links to the audit, which this runner cannot
    assert handles.engine().namespaces()[0].policy.normaliser == "sql"
    assert _run("thresholds", namespace="faq").selectbox(key="normaliser_faq_1").value == "sql"


def test_harmful_buttons_are_never_primary() -> None:
    for file in [*(ROOT / "app" / "ui").glob("*.py"), *(ROOT / "pages").glob("*.py")]:
        for call in re.findall(r"st\.button\((?:[^()]|\([^()]*\))*\)", file.read_text()):
            if 'type="primary"' in call:
                assert not re.search(r"Purge this|Undo|Restore|Apply|Warm \{|act_label", call), (file.name, call)


def test_regret_draws_what_the_worker_stored(environ: dict[str, str]) -> None:
    found = analyse(events(), ttl_ms=HOUR_MS)
    assert found is not None
    for name, result in (("faq", regret.as_json(found)), (HOSTILE[1], None)):
        analyses.put(handles.ops(), analyses.Analysis("regret", name, "24h", now_ms(), 0, now_ms(), 1_200, {"usable": 9}, result))
    texts = _texts(_run("regret"))
    assert any("Worth a look in namespace faq" in text for text in texts)
    assert any("it computes these numbers" in text for text in texts)  # no worker was ever seen
    assert any("200 needed in a namespace" in text for text in _texts(_run("regret", namespace=HOSTILE[1])))
    assert any("No analysis of the last 7 days" in text for text in _texts(_run("regret", horizon="7d")))


def test_regret_says_that_the_worker_cannot_store_on_a_full_disk(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    analyses.put(handles.ops(), analyses.Analysis("regret", "faq", "24h", now_ms(), 0, now_ms(), 1_200, {"usable": 9}, None))
    assert not any("The disk of ops" in text for text in _texts(_run("regret")))
    room = shutil.disk_usage(environ["HOME"])
    monkeypatch.setattr(shutil, "disk_usage", lambda _: room._replace(free=4_096))
    texts = _texts(_run("regret"))
    assert any("The disk of ops" in text and "4.0 KiB are left" in text.replace("\\", "") for text in texts)
    assert not any("gave no sign of life" in text or "was never seen" in text for text in texts)


def test_regret_says_of_which_namespaces_it_tells_nothing(environ: dict[str, str]) -> None:
    found = analyse(events(), ttl_ms=HOUR_MS)
    assert found is not None
    why = "9 lookups of it came through a sampler"
    for name, told, result in (("faq", {}, regret.as_json(found)), (HOSTILE[1], {"refused": why}, None)):
        analyses.put(handles.ops(), analyses.Analysis("regret", name, "24h", now_ms(), 0, now_ms(), 1_200, {"usable": 9, **told}, result))
    assert any(text.startswith("Not judged") and why in text for text in _texts(_run("regret")))
    alone = _run("regret", namespace=HOSTILE[1])
    assert any("Whether tuning is worth it cannot be told for namespace" in text for text in _texts(alone))
    assert not any(text.startswith("Not judged") for text in _texts(alone))  # the headline has said it


def test_drift_says_that_its_counts_are_of_a_sample(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drift, "MOST_BRIEF", 50)
    monkeypatch.setattr(drift, "ENOUGH", 25)
    now = now_ms()
    with contextlib.closing(open_telemetry(load(environ).storage_settings(), write=True)) as store:
        for back, prompt in ((90, "old"), (30, "new")):
            start = (now - back * 60_000) * 1_000_000
            made = [Made(back * 1_000 + number, start_ns=start, extra={"prompt_hash": prompt, "prompt": prompt}) for number in range(300)]
            spans.write(store, [batch(*made)], now_ms=now)
    assert any(
        text.startswith("Counts of prompts, entries and lookups are of a sample, one lookup in ") for text in _texts(_routed("drift"))
    )


def test_a_hit_is_called_right_or_wrong_once_a_word(environ: dict[str, str]) -> None:
    hostile = HOSTILE[2]
    pair = {"similarity": 0.96, "threshold": 0.94, "prompt": hostile, "candidate_prompt": hostile, "candidate_id": "e", "prompt_hash": "p"}
    hit = Made(1, start_ns=now_ms() * 1_000_000, outcome="semantic_hit", extra=pair)
    with contextlib.closing(open_telemetry(load(environ).storage_settings(), write=True)) as store:
        spans.write(store, [batch(hit)], now_ms=now_ms())
    test = _routed("traces", trace=hit.ids[0].hex())
    for serves, words_kept in ((True, [True]), (True, [True]), (False, [False])):
        test.button(key=f"label_{hit.ids[1].hex()}_{serves}").click().run()
        assert not test.exception
        with handles.ops().read() as conn:
            assert [label.serves for label in labels.list(conn)] == words_kept
    with handles.ops().read() as conn:
        assert len(actions.history(conn, kind="label")) == 2
    assert any("the same answer does not serve" in text for text in _texts(test))


def test_a_score_is_shown_with_its_worth_and_tried_before_it_decides(environ: dict[str, str]) -> None:
    support.fill(load(environ), "faq", 1)
    support.record_misses(load(environ), "faq", ["one"])
    ctx = support.admin(handles.wiring())
    teach(ctx)
    assert admin_acts.fit_score(ctx, "faq", support.operation()).ok
    test = _run("thresholds", namespace="faq")
    assert any("Calibration of score 1" in text for text in _texts(test))
    assert not test.button(key="fit_score").disabled
    test.button(key="apply_score").click().run()
    assert not test.exception
    assert any("0 newest semantic hits of the last 7 days" in text for text in _texts(test))


def _count(config: Config, target: str, label: str) -> None:
    """Store two looks at a target that only counts: 30 hits of 40 requests, and a keyspace of one shape. A sender pushes the same."""
    store = open_telemetry(config.storage_settings(), write=True)
    labels = json.dumps({"model": label}, sort_keys=True)
    shape = {"shape": label, "type": "hash", "keys": 5, "sized": 5, "size_bytes": 500, "lifetimes": {"none": 5}}
    for at_ms, hits, misses in ((now_ms() - 150_000, 0, 0), (now_ms() - 120_000, 30, 10)):
        readings = [
            CounterReading(f"litellm_cache_{what}_metric_total", labels, at_ms, value, None, "")
            for what, value in (("hits", hits), ("misses", misses))
        ]
        snapshots = {"keyspace": json.dumps({"looked_at": 5, "whole": True, "keys": 5, "groups": [shape]})}
        scrape = Scrape(at_ms, counters=readings, error=f"line 1: {label}", snapshots=snapshots)
        counters.write_scrape(store, SourceKey("scrape", target), scrape, now_ms=at_ms, max_series=10)
        sample = SampleRow("x_total", labels, "counter", at_ms, 1.0)
        exemplar = ExemplarRow(label, labels, at_ms, 1.0, b"\1" * 16, None, "{}")
        pushed = MetricBatch(SourceKey("otlp_metrics", label, "", label), [PointRows((sample,), (exemplar,), tuple(readings))])
        points.write(store, [pushed], now_ms=at_ms, since_ms=0)
    store.close()


def test_sources_that_only_count_are_drawn_with_hostile_names_as_text(environ: dict[str, str]) -> None:
    for hostile in HOSTILE:
        _count(load(environ), f"http://{hostile}/metrics", hostile)
    for page in ("hit_rate", "sources"):
        test = _run(page)
        texts = _texts(test)
        assert any("10 hit rates of 10 sources that only count" in text for text in texts), page
        for text in texts:
            assert "\u202e" not in text
            assert not re.search(r"(?<!\\)<script|(?<!\\):red(?<!\\)\[|(?<!\*)\*\*bold\*\*", text)
        (rates,) = [table.value for table in test.dataframe if "hit rate" in table.value and "kind" in table.value]
        assert list(rates["hit rate"]) == [75.0] * 10
        assert list(rates["95 %"]) == ["59.8–85.8 %"] * 10
        behind = [table.value for table in test.dataframe if "trace id" in table.value]
        assert [(len(table), "trace" in table) for table in behind] == ([(10, False)] if page == "sources" else [])  # none is stored

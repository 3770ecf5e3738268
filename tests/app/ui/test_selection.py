"""What is picked on a chart, and what is saved from a table."""

import io
from pathlib import Path

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from app.ui import filters, handles, panels, tables
from storage.reads.window import Scope
from tests.app import support

AT = 1_775_000_040_000  # 2026-03-31 23:34 UTC


@pytest.mark.parametrize(
    ("selection", "picked"),
    [
        ({"points": [{"x": "2026-03-31 23:34:00"}], "box": []}, (AT, None)),
        ({"points": [], "box": [{"x": ["2026-03-31 23:36:00.5", "2026-03-31 23:34:00"]}]}, (AT, AT + 120_500)),
        ({"points": [{"x": "2026-03-31 23:50:00"}], "box": [{"x": ["2026-03-31 23:34:00", "2026-03-31 23:35:00"]}]}, (AT, AT + 60_000)),
        ({"points": [], "box": []}, None),
        ({"points": [{"x": "no time"}], "box": []}, None),
        ({"points": [{}], "box": [{"x": []}]}, None),
        ({}, None),
    ],
)
def test_a_selection_is_a_time_or_a_region_or_nothing(selection: dict[str, object], picked: tuple[int, int | None] | None) -> None:
    assert panels.times(selection) == picked


@pytest.mark.parametrize(
    ("at_ms", "step_ms", "start_ms"),
    [(AT + 30_000, 60_000, AT), (AT + 31_000, 60_000, AT + 31_000), (AT + 5_000, 10_000, AT), (AT, 60_000, AT), (AT, 0, AT)],
)
def test_a_click_on_a_step_is_of_its_start_and_one_on_a_mark_of_its_own_time(at_ms: int, step_ms: int, start_ms: int) -> None:
    assert panels.beginning(at_ms, step_ms) == start_ms


@pytest.mark.parametrize(
    ("selection", "named"),
    [
        ({"points": [{"customdata": ["$1", "a[1]*?"]}]}, "a[1]*?"),
        ({"points": [{"customdata": ["$1", ""]}]}, ""),
        ({"points": [{"customdata": "told"}, {"x": 1}]}, None),
        ({"points": []}, None),
    ],
)
def test_a_selection_on_a_chart_of_names_is_a_name_or_nothing(selection: dict[str, object], named: str | None) -> None:
    assert panels.name(selection) == named


ROWS = [{"namespace": "=1+1", "n": 3, "hit rate": None}, {"namespace": "@faq", "n": 4, "hit rate": 61.5}]


def test_a_csv_holds_what_is_shown_and_no_formula() -> None:
    read = pd.read_csv(io.BytesIO(tables.csv(ROWS)))
    assert list(read["namespace"]) == ["'=1+1", "'@faq"]
    assert list(read["n"]) == [3, 4]
    assert read["hit rate"].isna().tolist() == [True, False]


def test_a_parquet_file_keeps_types_and_texts() -> None:
    read = pd.read_parquet(io.BytesIO(tables.parquet(ROWS)))
    assert list(read["namespace"]) == ["=1+1", "@faq"]
    assert read["n"].dtype == "int64"
    mixed = pd.read_parquet(io.BytesIO(tables.parquet([{"limit": 3}, {"limit": "none"}, {"limit": None}])))
    assert list(mixed["limit"].fillna("")) == ["3", "none", ""]


HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("chosen", "hours", "compare", "back_h", "name"),
    [
        ("7d", 168, filters.DAY, 168, "the same time 7 days before"),
        ("7d", 168, filters.WEEK, 168, "the week before"),
        ("24h", 24, filters.DAY, 24, "the day before"),
        ("custom", 25, filters.DAY, 48, "the same time 2 days before"),
        ("custom", 200, filters.WEEK, 336, "the same time 2 weeks before"),
    ],
)
def test_no_lookup_is_in_both_periods_compared(chosen: str, hours: int, compare: str, back_h: int, name: str) -> None:
    selection = filters.Selection(chosen, Scope(), AT - hours * HOUR_MS, AT, compare)
    window = selection.window(AT)
    before = selection.before(window)
    assert window.start_ms - before.start_ms == back_h * HOUR_MS
    assert before.end_ms - window.start_ms <= 60_000  # the minute that has begun
    assert selection.before_name == name


def _compared_with() -> None:
    import streamlit as st

    from app.ui import filters
    from storage.reads.window import Window

    compare, _ = filters._comparison(Window(1_775_000_040_000, 1_775_007_240_000))
    st.write(compare)


@pytest.mark.parametrize(("begins", "told"), [("2026-03-31T22:34", "vs period before"), ("2026-03-31T21:34", "vs chosen time")])
def test_a_chosen_period_that_shares_lookups_is_refused_and_said(begins: str, told: str) -> None:
    test = AppTest.from_function(_compared_with)
    test.query_params["compare"], test.query_params["compare_from"] = filters.CHOSEN, begins
    test.run()
    assert not test.exception
    assert test.markdown[-1].value == told
    assert bool(test.caption) is (told == filters.PREVIOUS)


def _picked() -> None:
    import streamlit as st

    from app.ui import filters

    if "done" not in st.session_state:
        st.session_state["done"] = True
        filters.since(1_775_000_040_000)
    st.write(str(filters.held_since()))
    st.button("region", on_click=filters.pick_range, args=(1_775_000_040_000, 1_775_000_400_000))
    st.button("forget", on_click=filters.forget_since)


def test_a_point_is_kept_in_the_url_and_a_region_becomes_the_range() -> None:
    test = AppTest.from_function(_picked).run()
    assert test.query_params["since"] == "2026-03-31T23:34"
    assert test.markdown[0].value == str(AT)
    test.button[0].click().run()
    assert "since" not in test.query_params
    assert test.session_state["range"] == "custom"
    assert (test.session_state["to"] - test.session_state["from"]).total_seconds() == 360


def _bar() -> None:
    import streamlit as st

    from app.ui import filters

    selection = filters.bar(compare=True)
    st.write(f"{selection.range} {selection.start_ms} {selection.end_ms}")
    st.button("region", on_click=filters.pick_range, args=(1_775_000_040_000, 1_775_000_400_000))


def test_a_region_moves_the_bar_and_the_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in support.environ(tmp_path).items():
        monkeypatch.setenv(name, value)
    handles.wiring.clear()
    test = AppTest.from_function(_bar, default_timeout=60).run()
    test.button[0].click().run()
    assert not test.exception
    assert test.markdown[-1].value == "custom 1775000040000 1775000400000"
    assert (test.query_params["from"], test.query_params["to"]) == ("2026-03-31T23:34", "2026-03-31T23:40")
    test.run()
    assert test.markdown[-1].value == "custom 1775000040000 1775000400000"
    handles.wiring.clear()


def _chosen() -> None:
    import streamlit as st

    from app.ui import regret_panel

    st.write(str(regret_panel.choose()))
    for name in ("docs", ""):
        st.button(f"pick {name}", on_click=regret_panel.show, args=(name,))


def test_a_namespace_picked_on_the_regret_is_chosen_above_and_in_the_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in support.environ(tmp_path).items():
        monkeypatch.setenv(name, value)
    handles.wiring.clear()
    test = AppTest.from_function(_chosen, default_timeout=60).run()
    for button, chosen in ((0, "docs"), (1, "")):
        test.button[button].click().run()
        assert not test.exception
        assert test.markdown[-1].value == str(("24h", chosen))
        assert test.query_params["namespace"] == (chosen or "(not recorded)")
    handles.wiring().close()
    handles.wiring.clear()


def _linked() -> None:
    import streamlit as st

    from app.ui import filters

    for page in ("overview", "hit_rate", "drift", "traces", "regret"):
        st.write(page, " ".join(filters.query(page)))
    st.write(filters.query("hit_rate", since="2026-03-31T23:34")["since"])


def test_a_link_names_what_its_page_has_and_no_more() -> None:
    test = AppTest.from_function(_linked)
    for name in ("range", "namespace", "compare", "drag", "since", "horizon", "tier", "trace"):
        test.query_params[name] = "x"
    test.run()
    assert not test.exception
    assert [element.value for element in test.markdown] == [
        "overview range namespace compare drag",
        "hit_rate range namespace compare drag",
        "drift range namespace compare",
        "traces range namespace",
        "regret namespace",
        "2026-03-31T23:34",
    ]

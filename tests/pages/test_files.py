"""What is saved from a page is what it draws: every table and every chart's twin, cell by cell, as CSV and as Parquet."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from app.wiring import now_ms
from storage.store import open_ops
from tests.app import support
from tests.bench import incident
from tests.bench.page_walk import PAGES, ROOT, Place, analyse
from tests.pages.test_pages import _count
from tests.support import telemetry

pytestmark = pytest.mark.slow
FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass
class Shown:
    """What a page gave to Streamlit. tables: as drawn, by what they are; files: by name."""

    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """An installation with an incident, a sender that only counts, and what the worker computes of them."""
    folder = Path(tmp_path_factory.mktemp("filled"))
    with Place(folder, support.environ(folder)).console() as config:
        at_ms = now_ms()
        store, ops = telemetry.open_store(folder / "data"), open_ops(telemetry.settings(folder / "data"))
        with contextlib.closing(store), contextlib.closing(ops):
            incident.write(store, ops, "purge", now_ms=at_ms, at_ms=at_ms - 25 * 60_000)
        support.fill(config, "faq", 3)
        _count(config, "http://vllm/metrics", "=1+1")
        analyse()
        yield


def shown(page: str, monkeypatch: pytest.MonkeyPatch, **query: str) -> Shown:
    """Run a page through the router; note what it gives to Streamlit on the way there."""
    found = Shown()
    table, button, expander = st.dataframe, st.download_button, st.expander

    def dataframe(data: Any, **more: Any) -> Any:
        frame = pd.DataFrame(data)
        found.tables[more["alt"]] = frame[list(more.get("column_order") or frame.columns)]
        return table(data, **more)

    def download_button(label: str, *, data: bytes, file_name: str, **more: Any) -> Any:
        assert file_name not in found.files, f"two files are called {file_name}"
        found.files[file_name] = data  # made now: a page that reads again must not take it from a click
        return button(label, data=data, file_name=file_name, **more)

    def opened(label: str, **more: Any) -> Any:
        return expander(label, **{**more, "expanded": True})

    test = AppTest.from_file(str(ROOT / "app/main.py"), default_timeout=120).run()
    monkeypatch.setattr(st, "dataframe", dataframe)
    monkeypatch.setattr(st, "download_button", download_button)
    monkeypatch.setattr(st, "expander", opened)
    test.switch_page(f"../pages/{page}.py")
    for name, value in query.items():
        test.query_params[name] = value
    test.run()
    assert not test.exception
    return found


def cells(frame: pd.DataFrame) -> list[list[Any]]:
    """Return the values row by row, None where there is none."""
    return [[None if pd.isna(value) or value == "" else value for value in row] for row in frame.itertuples(index=False)]


def as_saved(value: Any, told: str) -> bool:
    """Return whether a CSV's text tells the value: a number in full, a formula as text."""
    if value is None:
        return told == ""
    if isinstance(value, str):
        return told == (f"'{value}" if value[:1] in FORMULA else value)
    return float(told) == float(value)


@pytest.mark.parametrize("query", [{}, {"range": "6h", "namespace": "faq"}])
@pytest.mark.parametrize("page", PAGES)
def test_files_hold_what_is_drawn(filled: None, monkeypatch: pytest.MonkeyPatch, page: str, query: dict[str, str]) -> None:
    found = shown(page, monkeypatch, **query)
    saved = {name: data for name, data in found.files.items() if name.endswith(".csv")}
    read = {name: pd.read_csv(io.BytesIO(data), dtype=str, keep_default_na=False) for name, data in saved.items()}
    drawn = {alt: frame for alt, frame in found.tables.items() if len(frame)}
    assert drawn or page in {"warmup"}
    for alt, frame in drawn.items():
        assert all(any(value is not None for value in column) for column in zip(*cells(frame), strict=True)), f"{alt}: an empty column"
        like = [
            name
            for name, file in read.items()
            if list(file.columns) == list(frame.columns)
            and len(file) == len(frame)
            and all(
                as_saved(value, told)
                for row, texts in zip(cells(frame), file.itertuples(index=False), strict=True)
                for value, told in zip(row, texts, strict=True)
            )
        ]
        assert like, f"no CSV holds what is drawn as {alt!r}: {list(frame.columns)}"
        parquet = pd.read_parquet(io.BytesIO(found.files[like[0].removesuffix("csv") + "parquet"]))
        assert list(parquet.columns) == list(frame.columns), alt
        for mine, theirs in zip(cells(frame), cells(parquet), strict=True):
            assert [value if value is None or value == other else str(value) for value, other in zip(mine, theirs, strict=True)] == theirs

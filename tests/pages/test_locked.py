"""Pages whose databases another process has locked: told after one short wait, by all of a page's reads together."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import streamlit as st

from app import wiring as wired
from app.admin.actions import Actor, Role
from app.config import load
from app.ui import handles
from app.wiring import Wiring
from storage.errors import StoreBusy
from storage.store import open_ops, open_telemetry
from tests.app import support
from tests.pages.test_pages import PAGES, _run, _texts
from tests.support import locks

OPENED = {"telemetry.db": "open_telemetry", "ops.db": "open_ops"}
# The pages that hide something without it. Drift compares by itself what the worker's record does not tell.
TOLD_ON = {
    "telemetry.db": {"overview", "hit_rate", "traces", "drift", "thresholds", "sources"},
    "ops.db": {"overview", "hit_rate", "regret", "purge", "warmup", "thresholds", "audit"},
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    values = support.environ(tmp_path)
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(handles, "LOCK_WAIT_S", 0.05)
    handles.wiring.clear()
    handles.failures.clear()
    st.cache_data.clear()
    config = load(values)
    config.prepare()
    open_telemetry(config.storage_settings(), write=True).close()
    open_ops(config.storage_settings()).close()
    yield Path(config.data_dir)
    handles.wiring().close()
    handles.wiring.clear()


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, float | None]]:
    """How long each opening of a database was let wait, in order. They are opened all the same."""
    kept: list[tuple[str, float | None]] = []

    def noted(name: str, opened: Any) -> Any:
        def note(*given: Any, wait_s: float | None = None, **more: Any) -> Any:
            kept.append((name, wait_s))
            return opened(*given, wait_s=wait_s, **more)

        return note

    for name, function in OPENED.items():
        monkeypatch.setattr(wired, function, noted(name, getattr(wired, function)))
    return kept


@pytest.mark.parametrize("database", OPENED)
@pytest.mark.parametrize("page", PAGES)
def test_a_page_waits_once_for_a_locked_database_and_tells_of_it(
    folder: Path, waits: list[tuple[str, float | None]], database: str, page: str
) -> None:
    with locks.held(folder / database, locks.EVERYTHING):
        texts = _texts(_run(page, namespace="faq"))
        tried = [wait_s for name, wait_s in waits if name == database]
        assert tried[:1] in ([], [0.05])
        assert not any(tried[1:])
        told = f"{database} is locked by another process".replace(".", "\\.")
        assert any(told in text for text in texts) == (page in TOLD_ON[database])
        waits.clear()
        _run(page, namespace="faq")  # while it is so nobody waits again
        assert not any(wait_s for name, wait_s in waits if name == database)
    st.cache_data.clear()
    assert not any("is locked" in text for text in _texts(_run(page, namespace="faq")))


def test_an_act_is_refused_with_the_reason_and_waits_as_a_write_does_where_the_record_answers(folder: Path) -> None:
    ann = Actor("ann", Role.ADMIN)
    with locks.held(folder / "ops.db", locks.EVERYTHING), pytest.raises(StoreBusy, match="locked by another process"):
        handles.wiring().admin(ann, "console")
    with locks.held(folder / "ops.db", locks.WRITING):
        ctx = handles.wiring().admin(ann, "console")
    with ctx.ops.write() as connection:
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar() == 5_000


def test_who_was_not_told_to_hurry_waits_for_each_opening_as_a_write_does(folder: Path, waits: list[tuple[str, float | None]]) -> None:
    wiring = Wiring(handles.config())
    wiring.ops()
    wiring.telemetry()
    wiring.close()
    assert [wait_s for _, wait_s in waits] == [None, None]

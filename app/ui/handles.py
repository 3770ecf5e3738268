"""What pages work with: the configuration, the stores and the engine, made once a process. A failure is not kept."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import streamlit as st

from app.adapters.base import EngineAdapter
from app.config import Config, load
from app.wiring import Wiring, settle
from collectors.prometheus.families import Families
from collectors.prometheus.families import load as load_families
from storage.store import Store

# A page makes up to ten reads one after the other. Readers are locked out by no writer, only by who has the file for himself.
LOCK_WAIT_S = 1.0


@st.cache_resource(show_spinner=False)
def wiring() -> Wiring:
    settle()
    return Wiring(load(os.environ), wait_s=LOCK_WAIT_S)


def config() -> Config:
    return wiring().config


def telemetry() -> Store:
    """Return the telemetry database, read-only. Raises StorageError; the next call tries again."""
    return wiring().telemetry()


def ops() -> Store:
    return wiring().ops()


def engine() -> EngineAdapter:
    return wiring().engine()


def families() -> Families:
    """Return what counters mean: the shipped table and the user's. Raises BadFamilies."""
    return _families(config().families_path)


@st.cache_resource(show_spinner=False)
def _families(extension: Path | None) -> Families:
    return load_families(extension)


def now_ms() -> int:
    """Return the server's time, UTC."""
    return time.time_ns() // 1_000_000


@dataclass(slots=True)
class Failures:
    """Since when each source has been failing, for every session of this process."""

    since_ms: dict[str, int] = field(default_factory=dict)
    clock: Callable[[], int] = now_ms

    def failing(self, source: str) -> int:
        return self.since_ms.setdefault(source, self.clock())

    def works(self, source: str) -> None:
        self.since_ms.pop(source, None)


@st.cache_resource(show_spinner=False)
def failures() -> Failures:
    return Failures()

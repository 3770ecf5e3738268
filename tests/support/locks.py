"""A database that another process has locked."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

_HOLDER = """
import sqlite3, sys
raw = sqlite3.connect(sys.argv[1], isolation_level=None)
for statement in sys.argv[2:]:
    raw.execute(statement)
print("held", flush=True)
sys.stdin.read()
"""
WRITING = ("BEGIN IMMEDIATE",)
# With a log beside the file only this keeps readers out, and it is had only while no other process has the file open.
EVERYTHING = ("PRAGMA locking_mode=EXCLUSIVE", "BEGIN EXCLUSIVE")


@contextlib.contextmanager
def held(path: Path, how: tuple[str, ...]) -> Iterator[None]:
    """Another process holds this lock on the file as long as the block lasts."""
    command = [sys.executable, "-c", _HOLDER, str(path), *how]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n", "the other process could not lock it"
        yield
        process.communicate()

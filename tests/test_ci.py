"""What lands is tested: no skip passes unseen, and the system packages that the tests need are declared in one place."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TESTS = """
import pytest

def test_passes(): pass

@pytest.mark.skip(reason="not today")
def test_marked(): pass

def test_skips_itself(): pytest.skip("nothing to test with")

@pytest.mark.xfail(reason="a known limit")
def test_known(): assert False

@pytest.mark.shared_data
def test_of_shared_data(): pass
"""


def _run(folder: Path, *, ci: str) -> subprocess.CompletedProcess[str]:
    """Run TESTS under this project's own conftest, in a folder that has no ../shared."""
    root = folder / "project"
    shutil.copytree(ROOT / "tests" / "support", root / "tests" / "support")
    for name in ("pyproject.toml", "tests/__init__.py", "tests/conftest.py"):
        shutil.copy(ROOT / name, root / name)
    (root / "tests" / "test_sample.py").write_text(TESTS)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "tests/test_sample.py"],
        cwd=root,
        env={**os.environ, "CI": ci},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_skip_fails_in_ci_and_is_named(tmp_path: Path) -> None:
    done = _run(tmp_path, ci="true")
    assert done.returncode == 1, done.stdout
    assert "1 passed" in done.stdout
    for told in ("1 failed", "1 error", "1 xfailed"):  # what is skipped before it begins is an error
        assert told in done.stdout
    listed = done.stdout.split("skipped, which fails with CI=true")[1]
    assert "tests/test_sample.py::test_marked: Skipped: not today" in listed
    assert "tests/test_sample.py::test_skips_itself: Skipped: nothing to test with" in listed


def test_only_what_needs_the_absent_folder_may_skip_and_is_listed(tmp_path: Path) -> None:
    done = _run(tmp_path, ci="true")
    assert "1 skipped" in done.stdout
    assert "tests/test_sample.py::test_of_shared_data" in done.stdout.split("skipped, as it may be")[1]


def test_a_skip_is_a_skip_elsewhere(tmp_path: Path) -> None:
    done = _run(tmp_path, ci="")
    assert (done.returncode, "3 skipped" in done.stdout) == (0, True), done.stdout


def _tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def test_system_packages_are_declared_in_one_place() -> None:
    installs = re.compile(r"apt(?:-get)?\b[^\n]*\binstall\b[^\n]*\b(?:redis-server|chromium|fonts-[a-z-]+)")
    fonts = [line for line in (ROOT / "system-packages.txt").read_text().splitlines() if line.startswith("fonts-")]
    assert fonts
    found = []
    for file in _tracked():
        if file.name == "system-packages.txt" or file == Path(__file__):
            continue
        text = file.read_bytes().decode(errors="replace")
        if installs.search(text) or any(font in text for font in fonts):
            found.append(file.relative_to(ROOT).as_posix())
    assert found == []


@pytest.mark.parametrize("said", ["make test", "/usr/bin/python3", "CI=true"])
def test_ci_runs_the_documented_command_and_the_distribution_s_python(said: str) -> None:
    assert said in (ROOT / ".ci" / "run").read_text()

"""What `tests/typed` says is checked by each run of mypy, where an error that has gone is an error."""

from __future__ import annotations

import tomllib
from pathlib import Path


def test_mypy_reads_this_folder_and_counts_errors_that_are_gone() -> None:
    settings = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["tool"]["mypy"]
    assert "tests.typed" in settings["packages"]
    assert settings["strict"]
    assert settings.get("warn_unused_ignores", True)

"""`cachescope backup`, `check` and `restore` on an installation of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.cli.backup import databases
from app.config import load
from tests.app.cli.test_cli import Run, environ, run  # noqa: F401 - fixtures


@pytest.fixture
def installation(environ: dict[str, str]) -> dict[str, str]:  # noqa: F811 - the fixture
    """All three databases exist, and nothing runs."""
    config = load(environ)
    config.prepare()
    from engine.tiers.sqlite_file import connect
    from storage.store import open_ops, open_telemetry, path_of

    open_telemetry(config.storage_settings(), write=True).close()
    open_ops(config.storage_settings()).close()
    connect(path_of(config.shared_cache_url), timeout_s=30).close()
    return environ


def test_there_and_back_from_the_terminal(run: Run, installation: dict[str, str], tmp_path: Path) -> None:  # noqa: F811
    copy = tmp_path / "copy"
    done = run(installation, "backup", str(copy), "--json")
    assert done.returncode == 0, done.stderr
    taken = json.loads(done.stdout)
    assert [file["name"] for file in taken["files"]] == ["telemetry.db", "ops.db", "cache.db"]
    checked = run(installation, "check", str(copy))
    assert checked.returncode == 0
    assert "cache.db" in checked.stdout
    sound = run(installation, "check", "--json")
    assert [row["name"] for row in json.loads(sound.stdout)["databases"]] == ["telemetry.db", "ops.db", "cache.db"]
    asked = run(installation, "restore", str(copy), text="n\n")
    assert (asked.returncode, "purged since" in asked.stdout) == (4, True)
    restored = run(installation, "restore", str(copy), "--yes", "--only", "ops")
    assert restored.returncode == 0, restored.stderr
    home = load(installation).home
    assert [path.name for path in home.glob("replaced-*/*")] == ["ops.db"]


def test_a_default_folder_lies_in_the_data_folder(run: Run, installation: dict[str, str]) -> None:  # noqa: F811
    assert run(installation, "backup").returncode == 0
    (folder,) = (load(installation).home / "backups").iterdir()
    assert (folder / "manifest.json").is_file()


def test_a_restore_while_a_service_runs_is_refused(run: Run, installation: dict[str, str], tmp_path: Path) -> None:  # noqa: F811
    assert run(installation, "backup", str(tmp_path / "copy")).returncode == 0
    from engine.tiers.sqlite_file import connect

    cache = next(database for database in databases(load(installation)) if database.name == "cache.db")
    gateway = connect(cache.path, timeout_s=30)
    done = run(installation, "restore", str(tmp_path / "copy"), "--yes")
    gateway.close()
    assert done.returncode == 4
    assert "stop gateway, collector, worker and console first" in done.stderr


def test_damage_is_one_line_and_exit_code_1(run: Run, installation: dict[str, str]) -> None:  # noqa: F811
    path = load(installation).home / "ops.db"
    path.write_bytes(path.read_bytes()[:5_000] + b"\xff" * 9_000)
    done = run(installation, "check")
    assert done.returncode == 1
    assert "ops.db" in done.stderr
    assert "Traceback" not in done.stderr

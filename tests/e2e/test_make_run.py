"""`make run` in a fresh clone with an empty home: what it starts, how it ends, and one clear line for whatever is in the way."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import httpx
import pytest

from tests.app import support
from tests.support.servers import wait_for

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
STOPPED_WITHIN_S = 30.0  # ten, as documented, and what a slow machine takes for it
SERVICES = ("collector", "gateway", "worker", "console", "stub-model", "traffic")


def script(file: Path, *lines: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    file.chmod(0o755)
    return file


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone of what is committed, beside an environment that is made already: making one is a step of its own in CI."""
    folder = tmp_path_factory.mktemp("clone")
    subprocess.run(["git", "clone", "-q", "--no-hardlinks", str(ROOT), str(folder / "project")], check=True, timeout=120)
    script(folder / "venv/bin/cachescope", f'PYTHONPATH="{folder / "project"}" exec "{sys.executable}" -m app.cli "$@"')
    (folder / "venv/.run").touch()  # newer than the clone's lock file: nothing to install
    return folder


def environ(home: Path, **more: str) -> dict[str, str]:
    binds = {name: value for name, value in support.environ(home).items() if name.endswith("_BIND")}
    return {"PATH": os.environ["PATH"], "HOME": str(home), **binds, **more}


def make(clone: Path, env: Mapping[str, str], *words: str) -> subprocess.Popen[str]:
    """Start make in a session of its own, as a terminal does."""
    return subprocess.Popen(
        ["make", "run", f"VENV={clone / 'venv'}", *words],
        cwd=clone / "project",
        env=dict(env),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def refused(clone: Path, env: Mapping[str, str]) -> str:
    """Return the one line that says why nothing was started; the rest is make's own."""
    process = make(clone, env)
    told, _ = process.communicate(timeout=180)
    assert process.returncode == 2, told  # make's own code for a command that failed
    assert "Traceback" not in told
    assert "Error 3" in told  # the command's: cannot start
    (line,) = [line for line in told.splitlines() if line.startswith("cachescope:")]
    return line


def test_it_starts_everything_and_ctrl_c_stops_everything(clone: Path, tmp_path: Path) -> None:
    env = environ(tmp_path)
    process = make(clone, env)
    output: list[str] = []
    reader = threading.Thread(target=lambda: output.extend(process.stdout or ()), daemon=True)
    reader.start()
    try:
        ready: Callable[[], bool] = lambda: any(line.startswith("ready in") for line in output)  # noqa: E731 - one line, one use
        wait_for(lambda: ready() or process.poll() is not None, what="everything is ready", timeout_s=180)
        assert ready(), "".join(output)
        assert {name for name in SERVICES if any(line.startswith(name) for line in output)} == set(SERVICES)
        console = f"http://{env['CACHESCOPE_CONSOLE_BIND']}"
        assert httpx.get(f"{console}/_stcore/health", timeout=60, trust_env=False).text == "ok"
        assert {path.name for path in tmp_path.iterdir()} <= {".local", ".cache"}
        pressed = time.monotonic()
        os.killpg(process.pid, signal.SIGINT)
        process.wait(timeout=STOPPED_WITHIN_S + 5)
        assert time.monotonic() - pressed < STOPPED_WITHIN_S
        reader.join(timeout=60)
        assert any(line.startswith("stopped") for line in output), "".join(output)
        for name, bind in env.items():
            if name.endswith("_BIND"):
                assert not listens(bind), f"something still listens on {name}"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=60)


def listens(bind: str) -> bool:
    host, port = bind.rsplit(":", 1)
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


def test_a_taken_port_is_one_line_with_the_setting_to_change(clone: Path, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        line = refused(clone, environ(tmp_path, CACHESCOPE_CONSOLE_BIND=f"127.0.0.1:{port}"))
    assert f"port {port} is taken" in line
    assert "CACHESCOPE_CONSOLE_BIND" in line


def test_a_folder_that_cannot_be_written_is_one_line(clone: Path, tmp_path: Path) -> None:
    (tmp_path / ".local").write_text("a file where a folder is needed")
    line = refused(clone, environ(tmp_path))
    assert ".local" in line
    assert "CACHESCOPE_DATA_DIR" in line or "data_dir" in line


# What is missing before anything can be installed


def venv(tmp_path: Path, python: str) -> tuple[int, str]:
    done = subprocess.run(
        [ROOT / "tools/venv", python, tmp_path / "venv", "requirements.lock"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert not (tmp_path / "venv").exists()
    (line,) = done.stderr.splitlines()
    return done.returncode, line


def test_no_python_at_all_is_one_line(tmp_path: Path) -> None:
    code, line = venv(tmp_path, "python-that-nobody-has")
    assert code == 3
    assert "no python-that-nobody-has found: install Python 3.11" in line


def test_a_python_that_is_too_old_is_named(tmp_path: Path) -> None:
    old = script(tmp_path / "python3.9", '[ "$1" = --version ] && echo "Python 3.9.2" && exit 0', "exit 1")
    code, line = venv(tmp_path, str(old))
    assert code == 3
    assert "Python 3.9.2 is too old: Python 3.11 or newer is needed" in line


def test_a_python_without_venv_names_the_package(tmp_path: Path) -> None:
    bare = script(tmp_path / "python3", 'case "$2" in *ensurepip*) exit 1 ;; esac', f'exec "{sys.executable}" "$@"')
    code, line = venv(tmp_path, str(bare))
    assert code == 3
    assert "install python3-venv" in line


def test_missing_system_packages_without_root_are_named_in_one_line(tmp_path: Path) -> None:
    for name, *lines in (
        ("dpkg-query", 'case "$4" in chromium) exit 1 ;; esac', "echo installed"),
        ("id", "echo 1000"),
        ("sudo", "exit 1"),
    ):
        script(tmp_path / name, *lines)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    done = subprocess.run([ROOT / "tools/system-packages"], env=env, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 3
    (line,) = done.stderr.splitlines()
    missing = "chromium"
    assert f"the tests need {missing}: install them as root (apt-get install {missing})" in line

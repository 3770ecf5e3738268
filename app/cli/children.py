"""Child processes: started apart from the terminal's signals, logged to files, never outliving their parent."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.config import Config

ROOT = Path(__file__).resolve().parents[2]  # the folder that holds app/, pages/ and .streamlit/
_PR_SET_PDEATHSIG = 1
KEPT_LOGS = 3
TAIL_LINES = 12


def child_environ(config: Config) -> dict[str, str]:
    """Return this environment with what depends on the working folder or an option made explicit."""
    from app.config import CONFIG_VARIABLE

    environ = {
        **os.environ,
        "CACHESCOPE_DEMO": "1" if config.demo else "0",
        "CACHESCOPE_DATA_DIR": str(config.data_dir),
        "PYTHONUNBUFFERED": "1",
    }
    file = environ.get(CONFIG_VARIABLE)
    if file:
        environ[CONFIG_VARIABLE] = str(Path(file).expanduser().absolute())
    return environ


def _die_with_parent() -> Callable[[], None] | None:
    """Return what a child does before it becomes its program, so that the kernel ends it with its parent; None where none can.

    Linux only. Elsewhere a parent that is killed outright leaves its children running; they are stopped by every other end.
    """
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    parent = os.getpid()

    def before_exec() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # the parent died between the fork and the call
            os._exit(1)

    return before_exec


@dataclass
class Child:
    """A service as a child process. Its output goes to `log`, the former ones are kept beside it."""

    name: str
    command: Sequence[str]
    log: Path
    cwd: Path | None = None
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def start(self, environ: Mapping[str, str]) -> None:
        _rotate(self.log)
        descriptor = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            # A session of its own: a Ctrl-C in the terminal reaches the parent alone, which stops all in order.
            self.process = subprocess.Popen(  # noqa: S603 - our own interpreter and arguments
                self.command,
                env=dict(environ),
                cwd=self.cwd,
                stdin=subprocess.DEVNULL,
                stdout=descriptor,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_die_with_parent(),  # noqa: PLW1509 - this process has one thread
            )
        finally:
            os.close(descriptor)

    @property
    def exit_code(self) -> int | None:
        return self.process.poll() if self.process else None

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        if self.process is not None and self.running:
            self.process.send_signal(number)

    def tail(self) -> list[str]:
        """Return the last lines of its log."""
        try:
            text = self.log.read_bytes()[-20_000:].decode(errors="replace")
        except OSError:
            return []
        return text.splitlines()[-TAIL_LINES:]


def stop_all(children: Sequence[Child], *, first: Sequence[str], grace_s: float, hurry: Callable[[], bool]) -> None:
    """Stop the children named `first`, then the others, which take their last telemetry; kill what is left after grace_s."""
    deadline = time.monotonic() + grace_s
    half = time.monotonic() + grace_s * 0.6
    leaders = [child for child in children if child.name in first]
    for child in leaders:
        child.signal(signal.SIGTERM)
    while any(child.running for child in leaders) and time.monotonic() < half and not hurry():
        time.sleep(0.02)
    for child in children:
        child.signal(signal.SIGTERM)
    while any(child.running for child in children) and time.monotonic() < deadline and not hurry():
        time.sleep(0.02)
    for child in children:
        child.signal(signal.SIGKILL)
    for child in children:
        if child.process is not None:
            child.process.wait()


def _rotate(log: Path) -> None:
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for number in range(KEPT_LOGS - 1, -1, -1):
        older = log.with_name(f"{log.name}.{number}" if number else log.name)
        if older.exists():
            older.replace(log.with_name(f"{log.name}.{number + 1}"))

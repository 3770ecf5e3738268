"""How long `cachescope up` takes until all services are healthy: the first start in an empty folder, then the starts after it.

Run: python -m tests.bench.start_bench [--starts 5] [--demo]. Figures belong to a quiet machine: another load of one core adds a second.
With --commands: what an operator's commands take instead, each in a process of its own, while no service runs.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.app import support

LIMIT_S = 5.0  # a second start
GIVE_UP_S = 120
COMMANDS = ("--help", "status", "switch faq", "switch faq on", "key list", "key create acme", "purge faq --json", "threshold faq")
ROOT = Path(__file__).resolve().parents[2]


def started(environ: dict[str, str], *, demo: bool) -> float:
    """Start, wait for the line that says how long it took, stop; return seconds."""
    command = [sys.executable, "-m", "app.cli", "up", "--demo" if demo else "--no-demo"]
    with subprocess.Popen(command, env=environ, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                found = re.search(r"ready in ([\d.]+) s", line)
                if found:
                    return float(found[1])
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(GIVE_UP_S)
    raise SystemExit("cachescope up ended before it was ready")


def commands(environ: dict[str, str], times: int) -> None:
    """Print what each command takes, of so many runs after a first one, which makes the databases or fills the disk's cache."""
    for command in COMMANDS:
        took = []
        for _ in range(times + 1):
            began = time.perf_counter()
            subprocess.run([sys.executable, "-m", "app.cli", *command.split()], env=environ, cwd=ROOT, capture_output=True, check=False)
            took.append(time.perf_counter() - began)
        print(f"cachescope {command:<18} median {statistics.median(took[1:]):.2f} s, worst {max(took[1:]):.2f} s (n = {times})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--demo", action="store_true")
    parser.add_argument("--commands", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        environ = {"PATH": os.environ["PATH"], **support.environ(Path(folder))}
        if asked.commands:
            commands(environ, asked.starts)
            return
        took = [started(environ, demo=asked.demo) for _ in range(asked.starts + 1)]
    again = took[1:]
    print(f"first start {took[0]:.1f} s; {len(again)} later ones: median {statistics.median(again):.1f} s, worst {max(again):.1f} s")
    print(f"limit {LIMIT_S} s: {'held' if max(again) <= LIMIT_S else 'NOT HELD'}")


if __name__ == "__main__":
    main()

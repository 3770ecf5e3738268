"""Each service alone, in the foreground: gateway, collect, worker, console, demo."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.common import Demo, configure

if TYPE_CHECKING:
    import threading

    from app.config import Config


class DemoPart(StrEnum):
    ALL = "all"
    STUB = "stub"
    TRAFFIC = "traffic"


def gateway(demo: Demo = None) -> None:
    """Run the gateway: the OpenAI-compatible API with the cache behind it."""
    _log()
    config = configure(demo)
    _one_thread_a_product()
    from engine.gateway.server import run

    raise typer.Exit(run(config.gateway_settings()))


def collect(demo: Demo = None) -> None:
    """Run the collector: OTLP over gRPC and HTTP, and the scraper of /metrics pages."""
    _log()
    config = configure(demo)
    config.guard("collector")
    from collectors.runner import run

    raise typer.Exit(run(config.collector_settings()))


def worker(demo: Demo = None) -> None:
    """Run the worker: reclaims what was purged, runs warm-ups, computes regret and drift, sweeps acts that a crash left open."""
    _log()
    config = configure(demo)
    import os
    import socket

    from app.admin.roles import Actor, Role
    from app.errors import CannotStart
    from app.jobs.runner import Worker
    from app.wiring import Wiring
    from storage.errors import StorageError

    stop = _stop_on_signals()
    wiring = Wiring(config)
    try:
        ctx = wiring.admin(Actor("worker", Role.ADMIN), "worker")
    except StorageError as error:
        raise CannotStart(str(error)) from error
    runner = Worker(ctx, worker_id=f"{socket.gethostname()}-{os.getpid()}", sweep_after_s=config.sweep_after_s)
    try:
        runner.run(stop)
    finally:
        wiring.close()


def console(demo: Demo = None) -> None:
    """Run the console, the web pages."""
    config = configure(demo)
    config.guard("console")
    import os
    import sys

    from app.cli.children import ROOT, child_environ

    os.chdir(ROOT)  # Streamlit reads its theme from the folder it is started in
    os.execve(sys.executable, console_command(config), child_environ(config))  # noqa: S606 - our own interpreter and arguments


def console_command(config: Config) -> list[str]:
    """Return the command that serves the pages. Nothing leaves the machine: usage statistics and the e-mail prompt are off."""
    import sys

    from app.config import split_bind

    host, port = split_bind(config.console_bind)
    options = {
        "server.headless": "true",
        "server.address": host,
        "server.port": str(port),
        "server.fileWatcherType": "none",
        "server.enableXsrfProtection": "true",
        "server.enableCORS": "true",
        "browser.gatherUsageStats": "false",
        "client.toolbarMode": "viewer",
        "client.showErrorDetails": "none",
        "logger.level": "warning",
    }
    flags = [f"--{name}={value}" for name, value in options.items()]
    return [sys.executable, "-P", "-m", "streamlit", "run", "app/main.py", *flags]


def demo(
    only: Annotated[DemoPart, typer.Option("--only", help="The stub model alone, or the traffic alone.")] = DemoPart.ALL,
) -> None:
    """Run the demo's stub model and play its traffic through the demo's gateway (`cachescope gateway --demo`)."""
    _log()
    config = configure(True)
    config.guard("stub")
    from app.cli.demo import run

    raise typer.Exit(run(config, stub=only != DemoPart.TRAFFIC, traffic=only != DemoPart.STUB))


def _one_thread_a_product() -> None:
    """Keep numpy, which is not loaded yet, from dividing a search's product among threads, unless the environment says otherwise.

    It is made on the event loop and takes microseconds. Two threads win little; where the cores are busy each waits for the other
    to get its turn, and a search of 4,000 vectors took thirty times as long.
    """
    import os

    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def _log() -> None:
    import logging

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for talkative in ("httpx", "alembic"):
        logging.getLogger(talkative).setLevel(logging.WARNING)


def _stop_on_signals() -> threading.Event:
    import signal
    import threading

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop

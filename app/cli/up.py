"""`cachescope up`: all services on this machine, started, watched and stopped together."""

from __future__ import annotations

import typer

from app.cli.common import Demo, configure


def up(demo: Demo = None) -> None:
    """Start gateway, collector, worker and console, and in the demo the stub model and its traffic. Ctrl-C stops them all."""
    config = configure(demo)
    from app.cli.supervisor import Supervisor

    raise typer.Exit(Supervisor(config).run())

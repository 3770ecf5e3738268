"""The command `cachescope`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from app.cli import acts, backup, keys, normaliser, services, status, switch, up, verification

app = typer.Typer(
    name="cachescope",
    epilog="Exit codes: 0 done, 1 failed or something is down, 2 wrong usage or value, 3 cannot start, 4 refused, nothing changed.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"cachescope {version('cachescope')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    """Cachescope: a cache for generative AI, and the console that watches and drives it."""


app.command("up", short_help="Start gateway, collector, worker and console")(up.up)
app.command("gateway", short_help="Run the gateway: the API with the cache behind it")(services.gateway)
app.command("collect", short_help="Run the collector: OTLP, and the scraper of metrics")(services.collect)
app.command("worker", short_help="Run the worker: warm-ups, reclaiming, analyses")(services.worker)
app.command("console", short_help="Run the console, the web pages")(services.console)
app.command("demo", short_help="Run the demo's stub model and its traffic")(services.demo)
app.command("status", short_help="Is each service alive?")(status.status)
app.add_typer(keys.app, name="key")
app.command("switch", short_help="Show or set what a namespace may serve")(switch.switch)
app.command("purge", short_help="Hide all entries of a namespace; undo it")(acts.purge)
app.command("warm", short_help="Ask and store a namespace's frequent misses")(acts.warm)
app.command("threshold", short_help="Show or set from which similarity candidates serve")(acts.threshold)
app.command("normaliser", short_help="Show or set which spellings share a key")(normaliser.normaliser)
app.command("verification", short_help="Show or set how candidates are verified")(verification.verification)
app.command("label", short_help="Say whether a stored answer serves a prompt")(verification.label)
app.command("score", short_help="Fit, try and apply a score from labels")(verification.score)
app.command("backup", short_help="Copy the databases while everything runs")(backup.backup)
app.command("check", short_help="Check a back-up, or the databases in use")(backup.check)
app.command("restore", short_help="Put a back-up's copies in place")(backup.restore)


def main() -> None:
    """Run the command line; faults of ours are one line on stderr."""
    from app.cli.common import checked_arguments, reported

    sys.exit(reported(lambda: app(checked_arguments(sys.argv[1:]), standalone_mode=True)))

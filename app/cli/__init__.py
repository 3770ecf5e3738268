"""The command `cachescope`."""

from __future__ import annotations

import sys

import typer

from app.cli import acts, backup, keys, normaliser, services, status, switch, up, verification

app = typer.Typer(
    name="cachescope",
    help="Cachescope: a cache for generative AI, and the console that watches and drives it.",
    epilog="Exit codes: 0 ok, 1 a failed act or something is down, 2 wrong usage, 3 cannot start, 4 refused.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("up")(up.up)
app.command("gateway")(services.gateway)
app.command("collect")(services.collect)
app.command("worker")(services.worker)
app.command("console")(services.console)
app.command("demo")(services.demo)
app.command("status")(status.status)
app.add_typer(keys.app, name="key")
app.command("switch")(switch.switch)
app.command("purge")(acts.purge)
app.command("warm")(acts.warm)
app.command("threshold")(acts.threshold)
app.command("normaliser")(normaliser.normaliser)
app.command("verification")(verification.verification)
app.command("label")(verification.label)
app.command("score")(verification.score)
app.command("backup")(backup.backup)
app.command("check")(backup.check)
app.command("restore")(backup.restore)


def main() -> None:
    """Run the command line; faults of ours are one line on stderr."""
    from app.cli.common import checked_arguments, reported

    sys.exit(reported(lambda: app(checked_arguments(sys.argv[1:]), standalone_mode=True)))

"""What the commands share: options, configuration, output, and faults as one line."""

from __future__ import annotations

import getpass
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from app.admin.context import AdminContext
    from app.admin.record import ActResult
    from app.config import Config
    from app.wiring import Wiring

Demo = Annotated[bool | None, typer.Option("--demo/--no-demo", help="The demo's own folder and stub model. Default: the setting `demo`.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def named(name: str | None) -> str | None:
    """Return the name. Raises BadParameter at one that no namespace and no tenant can have, as the gateway does."""
    from engine.naming import fault

    wrong = "is empty" if name is not None and not name.strip() else fault(name or "")
    if wrong:
        raise typer.BadParameter(f"the name {wrong}")
    return name


_NAMED = typer.Argument(metavar="NAMESPACE", help="The namespace, exactly: no patterns.", callback=named)
Name = Annotated[str, _NAMED]
NameOrNone = Annotated[str | None, _NAMED]

# What JSON leaves as it is and a terminal acts on: DEL, C1 controls, marks that turn the direction of text.
_UNSAFE = re.compile("[\u007f-\u009f\u202a-\u202e\u2066-\u2069]")

OK, FAILED, USAGE, CANNOT_START, REFUSED = 0, 1, 2, 3, 4


def checked_arguments(arguments: Sequence[str]) -> list[str]:
    """Return the arguments. Ends with USAGE at one that is no text: nothing could be recorded or shown under such a name."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            complain(f"the argument {argument!a} is no text in UTF-8; write it anew. Nothing was changed")
            sys.exit(USAGE)
    return list(arguments)


def configure(demo: bool | None) -> Config:
    """Return the configuration, with its folder made. Raises ConfigError."""
    from app.config import load

    config = load(os.environ, demo=demo)
    config.prepare()
    return config


def wired(demo: bool | None) -> Wiring:
    from app.wiring import Wiring

    return Wiring(configure(demo))


def context(wiring: Wiring) -> AdminContext:
    """Return the context of acts from a terminal: who can read the folder's secrets is its administrator."""
    from app.admin.roles import Actor, Role

    return wiring.admin(Actor(os_user(), Role.ADMIN), "cli")


def os_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return f"uid {os.getuid()}"


def usd(value: float) -> str:
    """Return US dollars with as many digits as it takes to see something."""
    return f"{value:,.2f} USD" if abs(value) >= 1 or value == 0 else f"{value:.4g} USD"


def reported(command: Callable[[], Any]) -> int:
    """Run a command; return its exit code. Faults of ours become one line on stderr, without a traceback."""
    try:
        command()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BrokenPipeError:  # the reader of our output left, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except Exception as error:  # only to tell our own faults from bugs, which go on as they are
        code = _exit_code(error)
        if code is None:
            raise
        complain(str(error))
        return code
    return OK


def _exit_code(error: Exception) -> int | None:
    from app.errors import AppError

    if isinstance(error, AppError):
        return error.exit_code
    from storage.errors import InUse, StorageError

    if isinstance(error, InUse):
        return REFUSED
    return FAILED if isinstance(error, StorageError) else None


def complain(message: str) -> None:
    print(f"cachescope: {' '.join(message.split())}", file=sys.stderr)


def answer(question: str) -> str:
    """Ask on stderr; return the line that is typed, '' when there is none to read."""
    print(f"{question} ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().rstrip("\r\n")


def say(message: str = "") -> None:
    print(message, flush=True)


def show_json(value: Any) -> None:
    print(_UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, indent=2, ensure_ascii=False, default=str)))


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print columns as wide as their widest cell. Control characters of tenants' texts are shown, not sent to the terminal."""
    cells = [list(heads), *([plain(str(cell)) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(heads))]
    for row in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def plain(text: str) -> str:
    """Return the text with whatever a terminal could act on made visible."""
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


def new_operation_id() -> str:
    import secrets

    return secrets.token_hex(16)


def told(name: str, value: object) -> str:
    """Return a field of a policy in words."""
    if value is None:
        return "the installation's" if name == "holdout_ratio" else "none"
    return f"version {value['version']}, cut {value['cut']:.3f}" if name == "score" and isinstance(value, dict) else str(value)


def finish(result: ActResult, *, as_json: bool, words: str) -> None:
    """Print an act's outcome and leave with its exit code."""
    if as_json:
        show_json(
            {
                "act_id": result.act_id,
                "kind": result.kind,
                "namespace": result.namespace,
                "state": result.state,
                "reason": result.reason,
                "figures": dict(result.figures),
            }
        )
    elif result.ok:
        say(words)
        say(f"audit record {result.act_id}")
    if not result.ok:
        what = "refused" if result.exit_code == REFUSED else result.state
        complain(f"{result.kind} {what}: {result.reason or 'see the audit'} (audit record {result.act_id})")
        raise typer.Exit(result.exit_code)

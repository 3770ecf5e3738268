"""`cachescope normaliser`: which spellings of a request share a key in a namespace."""

from __future__ import annotations

import contextlib
from enum import StrEnum
from typing import Annotated

import typer

from app.cli.common import AsJson, Demo, Name, context, finish, new_operation_id, plain, say, show_json, wired


class Kind(StrEnum):
    """As `engine.types.Normaliser`, which is not imported for the sake of --help; a test holds them equal."""

    NONE = "none"
    WHITESPACE = "whitespace"
    TEMPLATE = "template"
    SQL = "sql"
    PYTHON = "python"


_METAVAR = "[none|whitespace|template|sql|python]"


def normaliser(
    namespace: Name,
    wanted: Annotated[Kind | None, typer.Argument(metavar=_METAVAR, help="Without it: show what is set.")] = None,
    demo: Demo = None,
    as_json: AsJson = False,
) -> None:
    """Show which spellings of a request share a key in a namespace, or set it. Entries made under another one are not served."""
    from app.admin import policy
    from app.views.normalisers import MEANS

    with contextlib.closing(wired(demo)) as wiring:
        ctx = context(wiring)
        now = policy.policy_in_force(ctx, namespace)
        if wanted is None:
            kind = now.normaliser.value
            if as_json:
                show_json({"namespace": namespace, "normaliser": kind, "version": now.version})
            else:
                say(f"{plain(namespace)}: {kind} ({MEANS[kind]}), policy version {now.version}")
            return
        result = policy.set_normaliser(ctx, namespace, wanted.value, new_operation_id(), now.version)
    after = result.figures.get("after", {})
    finish(
        result,
        as_json=as_json,
        words=f"{plain(namespace)}: {after.get('normaliser')} ({MEANS[wanted.value]}), policy version {after.get('version')}",
    )

"""`cachescope switch`: what a namespace may serve, the first lever at night."""

from __future__ import annotations

import contextlib
import difflib
from enum import StrEnum
from typing import Annotated

import typer

from app.cli.common import REFUSED, AsJson, Demo, Name, complain, context, finish, new_operation_id, plain, say, show_json, wired


class Wanted(StrEnum):
    """As `engine.types.Switch`, which is not imported for the sake of --help; a test holds them equal."""

    ON = "on"
    EXACT_ONLY = "exact-only"
    OFF = "off"


_MOST_NAMES = 10
_MEANS = {
    Wanted.ON: "exact and semantic hits are served",
    Wanted.EXACT_ONLY: "no semantic hits are served",
    Wanted.OFF: "every request goes upstream",
}


def switch(
    namespace: Name,
    wanted: Annotated[Wanted | None, typer.Argument(metavar="[on|exact-only|off]", help="Without it: show what is set.")] = None,
    new: Annotated[bool, typer.Option("--new", help="The namespace has no entry and no policy yet, and its name is right.")] = False,
    demo: Demo = None,
    as_json: AsJson = False,
) -> None:
    """Show what a namespace may serve, or set it: on, exact-only or off. Nothing is deleted; `on` brings all back."""
    from app.admin import policy

    with contextlib.closing(wired(demo)) as wiring:
        ctx = context(wiring)
        if wanted is None:
            now = policy.policy_in_force(ctx, namespace)
            if as_json:
                show_json({"namespace": namespace, "switch": now.switch.value, "version": now.version})
            else:
                say(f"{plain(namespace)}: {now.switch.value} ({_MEANS[Wanted(now.switch.value)]}), policy version {now.version}")
                if namespace not in [info.name for info in ctx.engine.namespaces()]:
                    complain(f"{plain(namespace)} is not on record: this is what would hold for it")
            return
        known = [info.name for info in ctx.engine.namespaces()]
        near = difflib.get_close_matches(namespace, known, n=1, cutoff=0.5)
        if namespace not in known and near and not new:
            complain(
                f"{plain(namespace)} is not on record; did you mean {plain(near[0])}? Nothing was changed. "
                f"If the name is right: cachescope switch {plain(namespace)} {wanted.value} --new"
            )
            raise typer.Exit(REFUSED)
        result = policy.set_switch(ctx, namespace, wanted.value, new_operation_id())
    before, after = result.figures.get("before", {}), result.figures.get("after", {})
    finish(
        result,
        as_json=as_json,
        words=f"{plain(namespace)}: {after.get('switch')} ({_MEANS[wanted]}), was {before.get('switch')}; "
        f"policy version {after.get('version')}",
    )
    if namespace not in known:
        some = ", ".join(plain(name) for name in sorted(known)[:_MOST_NAMES]) or "none"
        complain(f"{plain(namespace)} was not on record: is the name right? On record: {some}")

"""`cachescope verification`, `label` and `score`: how candidates are verified, and what people's words make of it."""

from __future__ import annotations

import contextlib
import dataclasses
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.common import AsJson, Demo, Name, complain, context, finish, new_operation_id, plain, say, show_json, table, told, wired

if TYPE_CHECKING:
    from app.admin.actions import ScoreTry
    from app.admin.context import AdminContext


class Mode(StrEnum):
    """As `engine.types.VerifyMode`, which is not imported for the sake of --help; a test holds them equal."""

    SAFE = "safe"
    HARD = "hard"
    STRICT = "strict"


class Judge(StrEnum):
    """As `engine.types.Judging`."""

    OFF = "off"
    ELSE_MISS = "else-miss"
    ELSE_SERVE = "else-serve"


class Word(StrEnum):
    RIGHT = "right"
    WRONG = "wrong"


def verification(
    namespace: Name,
    mode: Annotated[Mode | None, typer.Option("--mode", help="Which rules veto.")] = None,
    judge: Annotated[
        Judge | None, typer.Option("--judge", help="Ask the judge before a semantic hit; where it gives no word: a miss, or serve.")
    ] = None,
    holdout: Annotated[
        str | None, typer.Option("--holdout", metavar="SHARE", help="Would-be hits sent upstream, 0 to 1, or `default`.")
    ] = None,
    demo: Demo = None,
    as_json: AsJson = False,
) -> None:
    """Show how a namespace's candidates are verified, or set its mode, its judge or its holdout."""
    changes: dict[str, Any] = {}
    if mode is not None:
        changes["verify_mode"] = mode.value
    if judge is not None:
        changes["judge"] = judge.value
    if holdout is not None:
        changes["holdout_ratio"] = None if holdout == "default" else _share(holdout)
    from app.admin import actions
    from app.admin.policy import as_json as policy_json

    with contextlib.closing(wired(demo)) as wiring:
        ctx = context(wiring)
        now = actions.policy_in_force(ctx, namespace)
        if not changes:
            fields = {"namespace": namespace, "version": now.version, **{name: policy_json(now)[name] for name in _SHOWN}}
            if as_json:
                show_json(fields)
            else:
                table(["setting", "in force"], [(name, told(name, value)) for name, value in fields.items()])
                _warn_of_no_judge(ctx, namespace, now.judge.value)
            return
        result = actions.set_verification(ctx, namespace, changes, new_operation_id(), now.version)
        _warn_of_no_judge(ctx, namespace, result.figures.get("after", {}).get("judge"))
    after = result.figures.get("after", {})
    shown = ", ".join(f"{name} {told(name, after.get(name))}" for name in _SHOWN)
    finish(result, as_json=as_json, words=f"{plain(namespace)}: {shown}; policy version {after.get('version')}")


def _warn_of_no_judge(ctx: AdminContext, namespace: str, judge: str | None) -> None:
    from engine.types import Judging

    why = ctx.engine.state().without_judge(Judging(judge or "off"))
    if why:
        complain(f"{plain(namespace)} asks a judge, and {why}; set it up, or: cachescope verification {plain(namespace)} --judge off")


_SHOWN = ("verify_mode", "judge", "holdout_ratio", "score")


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise typer.BadParameter(f"a holdout is a share from 0 to 1, or `default`, not {text!r}")
    return value


def label(
    trace: Annotated[str, typer.Argument(metavar="TRACE", help="The lookup's trace: 32 hex digits, as Traces shows it.")],
    word: Annotated[Word, typer.Argument(metavar="right|wrong", help="Does the stored answer serve this prompt?")],
    span: Annotated[str | None, typer.Option("--span", metavar="SPAN", help="Which lookup, where the trace has several.")] = None,
    demo: Demo = None,
    as_json: AsJson = False,
) -> None:
    """Say of a recorded lookup whether its candidate's answer serves: what thresholds and scores are judged by."""
    from app.admin import actions

    with contextlib.closing(wired(demo)) as wiring:
        result = actions.label(context(wiring), trace, new_operation_id(), serves=word is Word.RIGHT, span_id=span)
    blind = "" if result.figures.get("features") else "; its prompts are not recorded, so no score can be fitted by it"
    finish(result, as_json=as_json, words=f"labelled {word.value} in {plain(result.namespace)}{blind}")


def score(
    namespace: Name,
    fit: Annotated[bool, typer.Option("--fit", help="Fit a new version from the namespace's labels. Nothing serves by it yet.")] = False,
    apply: Annotated[int | None, typer.Option("--apply", min=1, metavar="VERSION", help="Show what this version would have done.")] = None,
    off: Annotated[bool, typer.Option("--off", help="Serve by the rules alone again.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With --apply: let it decide from now on.")] = False,
    demo: Demo = None,
    as_json: AsJson = False,
) -> None:
    """List a namespace's scores with what they are worth, fit one, try one on recorded hits, or let one decide."""
    if sum((fit, apply is not None, off)) > 1 or (yes and apply is None):
        raise typer.BadParameter("--fit, --apply and --off exclude each other; --yes goes with --apply")
    from app.admin import actions

    with contextlib.closing(wired(demo)) as wiring:
        ctx = context(wiring)
        if fit:
            result = actions.fit_score(ctx, namespace, new_operation_id())
            words = f"score {result.figures.get('version')} of {plain(namespace)} is kept; see it: cachescope score {plain(namespace)}"
        elif apply is not None:
            tried = actions.try_score(ctx, namespace, apply)
            if not yes:
                _show_try(tried, as_json=as_json)
                return
            result = actions.apply_score(ctx, namespace, apply, new_operation_id(), tried.policy_version)
            words = f"{plain(namespace)}: score {apply} decides from now on"
        elif off:
            now = actions.policy_in_force(ctx, namespace)
            if now.score is None:
                if as_json:
                    show_json({"namespace": namespace, "score": None, "version": now.version, "changed": False})
                else:
                    say(f"no score decides in {plain(namespace)}; nothing was changed")
                return
            result = actions.apply_score(ctx, namespace, None, new_operation_id(), now.version)
            words = f"{plain(namespace)}: no score decides"
        else:
            _list(ctx, namespace, as_json=as_json)
            return
    finish(result, as_json=as_json, words=words)


def _show_try(tried: ScoreTry, *, as_json: bool) -> None:
    from app.views import scores

    if as_json:
        show_json(dataclasses.asdict(tried))
        return
    for line in scores.tried(tried):
        say(line)
    say("nothing was changed; add --yes to let it decide")


def _list(ctx: AdminContext, namespace: str, *, as_json: bool) -> None:
    from app.admin import actions
    from app.views import scores

    found = actions.versions(ctx, namespace)
    deciding = actions.policy_in_force(ctx, namespace).score
    in_force = None if deciding is None else deciding.version
    if as_json:
        show_json({"in_force": in_force, "scores": [dataclasses.asdict(one) for one in found]})
        return
    if not found:
        say(f"{plain(namespace)} has no score: label pairs (cachescope label, or Traces), then cachescope score {plain(namespace)} --fit")
        return
    shown = scores.rows(found, in_force=in_force)
    table(list(shown[0]), [list(row.values()) for row in shown])

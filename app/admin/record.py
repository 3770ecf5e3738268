"""The frame of every act: one record that it began, one of what came of it, whatever happens in between.

An act that begins and leaves no outcome is evidence of a crash; the worker sweeps it to failed.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.admin.context import AdminContext
from app.errors import ActFailed, AppError, Refused
from storage import actions
from storage.errors import StorageError

_OPERATION_ID = re.compile(r"[0-9A-Za-z_-]{8,64}")
_WAIT_MS = 10_000  # an act takes about a second; who clicks twice is told the first click's outcome
_LOOK_S = 0.05


@dataclass(frozen=True, slots=True)
class ActResult:
    """What came of an act. state: done | failed | pending (still going) | cancelled | undone | reclaimed.

    figures: what was counted and verified. repeated: this operation had been asked for before, and nothing was done now.
    exit_code: of a program whose act did not succeed; it says whether it was refused, and so has changed nothing.
    """

    act_id: str
    kind: str
    namespace: str
    state: str
    reason: str = ""
    figures: Mapping[str, Any] = field(default_factory=dict)
    repeated: bool = False
    exit_code: int = AppError.exit_code

    @property
    def ok(self) -> bool:
        return self.state not in {"failed", "cancelled"}


def earlier(ctx: AdminContext, act_id: str, *, kind: str, namespace: str | None = None) -> ActResult | None:
    """Return the outcome of the act that this operation id already stands for, waiting for it a little; None when it is new.

    Raises Refused when the id stands for another act.
    """
    if not _OPERATION_ID.fullmatch(act_id):
        raise Refused("an operation id is 8 to 64 letters, digits, - or _. Nothing was changed")
    deadline = ctx.clock() + _WAIT_MS
    while True:
        with ctx.ops.read() as conn:
            act = actions.get(conn, act_id)
        if act is None:
            return None
        if act.kind != kind or (namespace is not None and act.namespace != namespace):
            raise Refused(f"the operation id {act_id} stands for another act ({act.kind}). Nothing was changed")
        if act.state != "pending" or ctx.clock() >= deadline:
            return _folded(act)
        ctx.pause(_LOOK_S)


def _folded(act: actions.Act) -> ActResult:
    figures: dict[str, Any] = {}
    for event in act.events:
        if event.event != "pending":
            figures.update(event.body)
    return ActResult(
        act_id=act.act_id,
        kind=act.kind,
        namespace=act.namespace,
        state=act.state,
        reason=str(figures.pop("error", "")),
        figures=figures,
        repeated=True,
    )


def perform(
    ctx: AdminContext,
    *,
    act_id: str,
    kind: str,
    namespace: str,
    parameters: Mapping[str, Any],
    work: Callable[[], Mapping[str, Any]],
    finished: bool = True,
) -> ActResult:
    """Record that the act began, do it, record what came of it; return that. The caller has authorised it.

    finished: False when `work` only starts it, and a job records its outcome.
    """
    begun = actions.begin(
        ctx.ops,
        act_id=act_id,
        kind=kind,
        namespace=namespace,
        actor=ctx.actor.name,
        origin=ctx.origin,
        body=dict(parameters),
        at_ms=ctx.clock(),
    )
    if not begun:  # another thread or tab began it between the look and now
        found = earlier(ctx, act_id, kind=kind, namespace=namespace)
        if found is None:
            raise Refused(f"the operation id {act_id} cannot be recorded. Nothing was changed")
        return found
    try:
        figures = dict(work())
    except (AppError, StorageError) as error:
        reason = str(error)
        actions.record(ctx.ops, act_id=act_id, event="failed", body={"error": reason}, at_ms=ctx.clock())
        code = error.exit_code if isinstance(error, AppError) else AppError.exit_code
        return ActResult(act_id, kind, namespace, "failed", reason=reason, exit_code=code)
    if not finished:
        return ActResult(act_id, kind, namespace, "pending", figures=figures)
    actions.record(ctx.ops, act_id=act_id, event="done", body=figures, at_ms=ctx.clock())
    return ActResult(act_id, kind, namespace, "done", figures=figures)


@contextlib.contextmanager
def after_a_change() -> Iterator[None]:
    """Make a refusal in here a failure: what came before it was done, and who reads `refused` would think that nothing was."""
    try:
        yield
    except Refused as error:
        raise ActFailed(str(error)) from error

"""Acts from a page: who acts, one operation id a click, and the outcome that stays on the page until the next one."""

from __future__ import annotations

import dataclasses
import getpass
import os
import uuid
from collections.abc import Callable, Sequence

import streamlit as st

from app.admin.actions import Actor, ActResult, AdminContext, role_of, why_not
from app.errors import AppError
from app.ui import handles, links, tables
from app.ui.text import literal
from app.views import outcomes
from storage import actions
from storage.errors import StorageError

RECORD = {"record": tables.link("record", shown="act=(.{1,8})")}  # the column that leads from a row to its act in the audit
_OUTCOMES, _OPERATIONS = "act_outcomes", "act_operations"


def context() -> AdminContext:
    """Return the context of this page's acts. The role is asked of the configuration at each act, not once a session."""
    return handles.wiring().admin(_actor(), "console")


def _actor() -> Actor:
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        name = f"uid {os.getuid()}"
    return Actor(name, role_of(handles.config().console_role))


def may_act(act: str) -> str | None:
    """Return why the reader of this page may not do this act, None when he may. The act itself checks again."""
    try:
        return why_not(_actor(), act, handles.engine().capabilities)
    except AppError as error:
        return str(error)


def perform(slot: str, act: Callable[[AdminContext], ActResult]) -> bool:
    """Do the act and keep its outcome for `outcome`; return whether it succeeded. A refusal is kept as well: the page draws it."""
    try:
        kept: ActResult | str = act(context())
    except (AppError, StorageError) as error:
        kept = str(error)
    st.session_state.setdefault(_OUTCOMES, {})[slot] = kept
    return isinstance(kept, ActResult) and kept.ok


def refuse(slot: str, reason: str) -> None:
    """Keep a refusal for `outcome`."""
    st.session_state.setdefault(_OUTCOMES, {})[slot] = reason


def at_once(slot: str, intent: str, act: Callable[[AdminContext, str], ActResult]) -> None:
    """Do an act that needs no dialog. intent: what is wanted of which version; the same one twice is one act, until it failed."""
    operations: dict[str, str] = st.session_state.setdefault(_OPERATIONS, {})
    operation_id = operations.setdefault(intent, uuid.uuid4().hex)
    if not perform(slot, lambda ctx: act(ctx, operation_id)):
        operations.pop(intent, None)


def _by_now(kept: ActResult) -> ActResult:
    """Return what the record says of an act by now: a warm-up ends and a purge is undone after the click that began it."""
    try:
        with handles.ops().read() as conn:
            act = actions.get(conn, kept.act_id)
    except StorageError:
        return kept  # the page says by itself that the record does not answer
    return dataclasses.replace(outcomes.of(act), repeated=kept.repeated) if act else kept


def outcome(slot: str) -> None:
    """Draw what came of the slot's last act in this session, with its place in the audit."""
    kept = st.session_state.get(_OUTCOMES, {}).get(slot)
    if kept is None:
        return
    if isinstance(kept, ActResult):
        kept = _by_now(kept)
    if isinstance(kept, str):
        st.error(f"**Refused.** {literal(kept)}", icon=":material/block:")
        return
    told = literal(outcomes.sentence(kept, now_ms=handles.now_ms()))
    if kept.state == "pending":
        st.info(told, icon=":material/pending:")
    elif kept.ok:
        st.success(told, icon=":material/verified:")
    else:
        st.error(told, icon=":material/error:")
    st.page_link(
        links.page_path("audit"),
        label="Its record in the audit",
        icon=":material/receipt_long:",
        query_params={"act": kept.act_id},
    )


def pick_namespace(names: Sequence[str], *, label: str = "Namespace") -> str | None:
    """Draw the choice of a namespace, kept in the URL; None while none is chosen."""
    held = st.session_state.get("namespace") or st.query_params.get("namespace")
    options = [*names, *([held] if held and held not in names else [])]
    # No format_func: the URL would hold what it returns, and a link with the name itself would find nothing.
    picked: str | None = st.selectbox(
        label,
        options,
        index=None,
        placeholder="Choose a namespace",
        key="namespace",
        bind="query-params",
        width=420,
    )
    return picked

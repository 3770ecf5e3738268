"""The purge page's parts: the switch, the preview, the confirmation, the recent purges."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from app.adapters.base import NamespaceInfo
from app.admin import actions
from app.admin.actions import PurgePreview
from app.errors import AppError
from app.ui import acts, chrome, confirm, handles, states, tables
from app.ui.text import literal
from app.views import purge, words
from app.views.purge import PurgeView, RecentPurge
from engine.types import Switch
from storage.errors import StorageError

PURGE, UNDO, SWITCH = "purge", "undo", "switch"
_PREVIEW = "purge_preview"
_SWITCHES = {
    Switch.ON.value: ("On", "on: exact and semantic hits are served"),
    Switch.EXACT_ONLY.value: ("Exact-only", "exact-only: no semantic hits are served"),
    Switch.OFF.value: ("Off", "off: every request goes upstream"),
}


def switch(row: NamespaceInfo) -> None:
    """Draw the namespace's switch, the first lever: each setting is one tap away, and the one in force cannot be tapped."""
    why = acts.may_act("switch")
    now = row.policy.switch.value
    st.markdown(f"**Switch first.** Now {_SWITCHES[now][1]}. No entry is lost by switching.")
    with st.container(horizontal=True, gap="small"):
        for wanted, (label, means) in _SWITCHES.items():
            st.button(
                label,
                icon=":material/radio_button_checked:" if wanted == now else ":material/radio_button_unchecked:",
                key=f"switch_{wanted}",
                on_click=_set_switch,
                args=(row.name, wanted, now, row.policy.version),
                disabled=bool(why) or wanted == now,
                help=why or (f"This is in force: {means}" if wanted == now else f"Set at once: {means}"),
            )
    acts.outcome(SWITCH)


def _set_switch(namespace: str, wanted: str, seen: str, version: int) -> None:
    if wanted != seen:  # a second tap that was queued arrives when the first has taken effect
        intent = f"{SWITCH}|{namespace}|{version}|{wanted}"
        acts.at_once(SWITCH, intent, lambda ctx, operation_id: actions.set_switch(ctx, namespace, wanted, operation_id))


def preview(namespace: str) -> None:
    """Draw the preview that was asked for, and the button that opens the confirmation."""
    why = acts.may_act("purge")
    asked = st.button("Preview a purge", icon=":material/visibility:", disabled=bool(why), help=why, key="preview_purge")
    kept: PurgePreview | None = st.session_state.get(_PREVIEW)
    if asked:
        try:
            kept = actions.preview_purge(acts.context(), namespace)
        except (AppError, StorageError) as error:
            states.not_done("No preview could be made", str(error))
            kept = None
        st.session_state[_PREVIEW] = kept
    if kept is None or kept.namespace != namespace:
        return
    now = handles.now_ms()
    st.markdown(f"**A purge of {literal(words.name(namespace))} would hide {words.many(kept.preview.entries, 'entry', 'entries')}**")
    chrome.dials(purge.dials(kept))
    with st.expander("By tenant"):
        tables.show(purge.tenant_rows(kept.preview), alt="Entries by tenant")
    with st.expander(f"A sample of {len(kept.preview.sample)} entries"):
        tables.show(purge.sample_rows(kept.preview), alt="A sample of the entries that would be hidden")
    if now >= kept.expires_ms:
        st.warning("This preview has expired: preview again.", icon=":material/schedule:")
        return
    st.caption(f"Counted by the engine. The preview holds for {words.age(kept.expires_ms - now)}; a purge can be undone for {_undo(kept)}.")
    st.button(
        "Purge this namespace…",
        icon=":material/delete_sweep:",
        on_click=confirm.ask,
        args=(PURGE, namespace, kept.token),
        key="open_purge",
    )


def _undo(kept: PurgePreview) -> str:
    return words.age(kept.undo_window_s * 1000)


def _at(value_usd: float | None) -> str:
    known = literal(words.money(value_usd))
    return "; what they cost to make is not known" if value_usd is None else f", at about {known} to make them all again"


def confirmation() -> None:
    """Draw the dialog in which the name is typed."""

    def body(request: confirm.Request) -> None:
        kept: PurgePreview | None = st.session_state.get(_PREVIEW)
        if kept and kept.token == request.token:
            found = kept.preview
            st.markdown(
                f"{words.many(found.entries, 'entry', 'entries')} of {words.many(len(found.tenants), 'tenant', 'tenants')} "
                f"will not be served any more. Their next requests go upstream{_at(found.value_usd)}. "
                f"Undo works for {_undo(kept)}; then they are deleted."
            )

    def act(request: confirm.Request) -> None:
        acts.perform(PURGE, lambda ctx: actions.purge(ctx, request.token, request.subject, request.operation_id))
        st.session_state.pop(_PREVIEW, None)

    confirm.dialog(PURGE, "Purge a namespace", body=body, act_label="Purge", act=act)


def recent(view: PurgeView) -> None:
    """Draw the recent purges, and an undo for those that have one."""
    if not view.recent:
        return
    st.markdown("**Recent purges**")
    tables.show(purge.recent_rows(view), alt="Recent purges, newest first", columns=acts.RECORD)
    why = acts.may_act("undo")
    for row in _undoable(view.recent):
        label = f"Undo the purge of {words.name(row.act.namespace, 40)} at {words.clock(row.act.started_ms)}"
        st.button(
            literal(label),
            icon=":material/undo:",
            key=f"undo_{row.act.act_id}",
            on_click=confirm.ask,
            args=(UNDO, row.act.namespace, row.act.act_id),
            disabled=bool(why),
            help=why,
        )


def undo_confirmation() -> None:
    """Draw the dialog that confirms an undo; there is no name to type: it harms nothing that a purge would not mend."""

    def body(request: confirm.Request) -> None:
        st.markdown(f"The entries that the purge of {literal(words.name(request.subject))} hid will be served again.")

    def act(request: confirm.Request) -> None:
        acts.perform(UNDO, lambda ctx: actions.undo_purge(ctx, request.token, request.operation_id))

    confirm.dialog(UNDO, "Undo a purge", body=body, act_label="Undo the purge", act=act, typed=False)


def _undoable(recent: Sequence[RecentPurge]) -> list[RecentPurge]:
    return [row for row in recent if row.undo_left_ms is not None][:5]

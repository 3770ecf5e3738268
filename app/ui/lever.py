"""The switch of the namespace in the filter bar: the first lever, on every page that shows one. Each change is confirmed."""

from __future__ import annotations

import streamlit as st

from app.admin import actions
from app.ui import acts, confirm, handles
from app.ui.text import literal
from app.views import words
from app.views.parts import attempt
from engine.types import Switch

_SLOT = "lever"
_MEANS = {
    Switch.ON.value: ("On", "exact and semantic hits are served"),
    Switch.EXACT_ONLY.value: ("Exact-only", "no semantic hits are served"),
    Switch.OFF.value: ("Off", "every request goes upstream"),
}


def draw(namespace: str | None) -> None:
    """Draw the switch with its state, and the confirmation that was asked for. Nothing while no namespace is chosen."""
    if not namespace:
        return
    read = attempt("Gateway", lambda: handles.engine().namespaces())
    row = next((one for one in read.value or [] if one.name == namespace), None)
    why = acts.may_act("switch")
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        shown = literal(words.name(namespace))
        if row is None:
            told = "not known, the engine does not answer" if read.failure else "not known to the engine"
            st.caption(f"Switch of {shown}: {told}.")
        else:
            now = row.policy.switch.value
            st.caption(f"Switch of {shown}", width="content")
            for wanted, (label, means) in _MEANS.items():
                st.button(
                    label,
                    icon=":material/radio_button_checked:" if wanted == now else ":material/radio_button_unchecked:",
                    key=f"lever_{wanted}",
                    on_click=confirm.ask,
                    args=(_SLOT, namespace, wanted),
                    disabled=bool(why) or wanted == now,
                    help=why or (f"In force: {means}" if wanted == now else f"Then {means}"),
                )
    acts.outcome(_SLOT)
    confirm.dialog(_SLOT, "Switch a namespace", body=_body, act_label="Switch", act=_act, typed=False)


def _body(request: confirm.Request) -> None:
    label, means = _MEANS[request.token]
    st.markdown(
        f"**{literal(words.name(request.subject))}** is set to **{label}**: {means}. No entry is lost, and it can be set back at once."
    )


def _act(request: confirm.Request) -> None:
    acts.perform(_SLOT, lambda ctx: actions.set_switch(ctx, request.subject, request.token, request.operation_id))

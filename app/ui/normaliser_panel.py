"""The normaliser of the namespace in the filter bar: which spellings of a request share a key. Each change is confirmed."""

from __future__ import annotations

import streamlit as st

from app.admin import actions
from app.ui import acts, confirm
from app.ui.text import literal
from app.views import normalisers, words
from engine.types import Policy

_SLOT = "normaliser"


def draw(policy: Policy, namespace: str) -> None:
    """Draw the normaliser in force, the choice of another, and the confirmation that was asked for."""
    now, why = policy.normaliser.value, acts.may_act("normaliser")
    st.markdown("**Normaliser**")
    acts.outcome(_SLOT)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        wanted = st.selectbox(
            "Spellings that share a key",
            list(normalisers.MEANS),
            index=list(normalisers.MEANS).index(now),
            format_func=lambda name: f"{name}: {normalisers.MEANS[name]}",
            key=f"normaliser_{namespace}_{policy.version}",
        )
        st.button(
            f"Set {wanted}…",
            key="open_normaliser",
            on_click=confirm.ask,
            args=(_SLOT, namespace, f"{wanted}|{now}|{policy.version}"),
            disabled=bool(why) or wanted == now,
            help=why or ("This is the normaliser in force" if wanted == now else None),
        )
    st.caption("For the exact lookup alone. A turn that stands after other turns, or beside other texts, is looked up as it was sent.")
    confirm.dialog(_SLOT, "Set the normaliser", body=_body, act_label="Set the normaliser", act=_act)


def _body(request: confirm.Request) -> None:
    wanted, now, _ = request.token.split("|")
    st.markdown(f"**{literal(words.name(request.subject))}** is set to **{wanted}**: {normalisers.MEANS[wanted]}.")
    st.markdown(normalisers.consequence(now))


def _act(request: confirm.Request) -> None:
    wanted, _, version = request.token.split("|")
    acts.perform(_SLOT, lambda ctx: actions.set_normaliser(ctx, request.subject, wanted, request.operation_id, int(version)))

"""Confirming an act. The button stores an operation id; the dialog is drawn from that, so that it outlives reruns.

A queued second click carries the same operation id, and the act's unique constraint makes it do nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st

from app.ui.text import literal
from app.views import words

_SLOTS = "confirm_slots"


@dataclass(frozen=True, slots=True)
class Request:
    """An act that waits for its confirmation. subject: what must be typed. token: the preview's, '' when there is none."""

    operation_id: str
    subject: str
    token: str = ""


def _slots() -> dict[str, Request]:
    slots: dict[str, Request] = st.session_state.setdefault(_SLOTS, {})
    return slots


def ask(slot: str, subject: str, token: str = "") -> None:
    """Open the slot's dialog with a new operation id. For a button's on_click; a second click keeps the first id."""
    _slots().setdefault(slot, Request(uuid.uuid4().hex, subject, token))


def current(slot: str) -> Request | None:
    return _slots().get(slot)


def close(slot: str) -> None:
    _slots().pop(slot, None)


def any_open() -> bool:
    return bool(_slots())


def dialog(
    slot: str,
    title: str,
    *,
    body: Callable[[Request], None],
    act_label: str,
    act: Callable[[Request], None],
    typed: bool = True,
) -> None:
    """Draw the slot's dialog when it was asked for. act is called once a confirmation; when it returns, the dialog closes.

    body: the consequence, in numbers. typed: the subject must be typed first. An act that raises leaves the dialog open.
    """
    request = current(slot)
    if request is None:
        return

    def draw() -> None:
        with st.container():
            body(request)
        matches = True
        if typed:
            shown = words.one_line(request.subject, 200)
            key = f"{slot}_{request.operation_id}_typed"
            given = st.text_input(f"Type {literal(shown)} to confirm", key=key, autocomplete="off", live=True)
            # What cannot be typed (a control character, a long name's end) is typed as it is shown.
            matches = given in {request.subject, shown}
            # A place of its own: what is said in it comes and goes, and must not move the buttons, which would be drawn twice meanwhile.
            said = st.empty()
            if given and not matches:
                said.caption("That is not the name.")
        with st.container(horizontal=True, horizontal_alignment="distribute"):
            if st.button("Cancel", key=f"{slot}_{request.operation_id}_cancel"):
                close(slot)
                st.rerun()
            why = None if matches else "Type the name exactly"
            if st.button(act_label, key=f"{slot}_{request.operation_id}_act", disabled=not matches, help=why):
                act(request)
                close(slot)
                st.rerun()

    st.dialog(title, on_dismiss=lambda: close(slot))(draw)()

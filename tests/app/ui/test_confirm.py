"""The dialog that confirms an act, drawn by Streamlit's own test runner."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Block, Node


def _asked() -> None:
    import streamlit as st

    from app.ui import confirm

    confirm.ask("purge", "faq")

    def body(_: confirm.Request) -> None:
        if not st.session_state.get("gone"):
            st.caption("1,234 entries would be hidden.")

    confirm.dialog("purge", "Purge a namespace", body=body, act_label="Purge", act=lambda _: None)


def _place(node: Node | Block, label: str, path: tuple[int, ...] = ()) -> tuple[int, ...] | None:
    if getattr(node, "label", None) == label:
        return path
    for index, child in getattr(node, "children", {}).items():
        found = _place(child, label, (*path, index))
        if found is not None:
            return found
    return None


def test_what_the_dialog_says_does_not_move_its_buttons() -> None:
    """A button that moves is drawn twice until the run ends: a click in between may find the one that is not in force."""
    page = AppTest.from_function(_asked).run()
    first = _place(page._tree, "Purge")
    assert first is not None
    assert page.button[1].disabled
    page.text_input[0].set_value("faqs").run()
    assert [caption.value for caption in page.caption][-1] == "That is not the name."
    assert _place(page._tree, "Purge") == first
    page.session_state["gone"] = True
    page.text_input[0].set_value("faq").run()
    assert not page.button[1].disabled
    assert _place(page._tree, "Purge") == first

"""The audit page's parts: what is asked for, the one act that was chosen, and the way to older acts."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from app.ui import links, tables
from app.ui.text import literal
from app.views import audit, outcomes, words
from app.views.audit import Audit


@dataclass(frozen=True, slots=True)
class Asked:
    """What the page was asked for. None = all; before_seq: acts begun before this row of the record."""

    kind: str | None
    namespace: str | None
    act_id: str | None
    before_seq: int | None

    def link(self, before_seq: int | None) -> dict[str, str]:
        """Return the query of the same page of acts from another row on."""
        kind = None if self.kind is None else outcomes.KINDS[self.kind]  # the URL holds the choice as it is shown
        wanted = {"kind": kind, "namespace": self.namespace, "before": None if before_seq is None else str(before_seq)}
        return {name: value for name, value in wanted.items() if value}


def filters() -> Asked:
    """Draw the filters, kept in the URL, and return what they say."""
    with st.container(horizontal=True, gap="small"):
        kind = st.selectbox(
            "Act",
            list(outcomes.KINDS),
            index=None,
            placeholder="All acts",
            key="kind",
            bind="query-params",
            format_func=lambda one: outcomes.KINDS[one],
            width=180,
        )
        namespace = st.text_input("Namespace", key="namespace", bind="query-params", placeholder="All namespaces", width=240)
        act_id = st.text_input("Act id", key="act", bind="query-params", placeholder="Show one act", width=300)
    return Asked(kind, namespace or None, act_id or None, _row(st.query_params.get("before", "")))


def _row(told: str) -> int | None:
    """Return the number of a row that an address names; None for what is none, or more than SQLite counts to."""
    return int(told) if told.isascii() and told.isdigit() and len(told) < len(str(2**63)) else None


def chosen(view: Audit, asked: Asked) -> None:
    """Draw the act asked for with every event of it, or say that there is none."""
    if asked.act_id and view.chain and view.chosen is None:
        st.warning(f"There is no act with the id {literal(words.one_line(asked.act_id))}", icon=":material/search_off:")
    if view.chosen:
        act = view.chosen
        with st.container(border=True):
            st.markdown(f"**{literal(outcomes.title(act.kind, act.namespace))}**")
            st.markdown(literal(audit.told(act)))
            tables.show(audit.events(act), alt="Every recorded event of this act")


def turn(view: Audit, asked: Asked) -> None:
    """Draw the way to older acts, and back to the newest."""
    with st.container(horizontal=True, gap="small"):
        if asked.before_seq is not None:
            st.page_link(links.page_path("audit"), label="Newest acts", icon=":material/first_page:", query_params=asked.link(None))
        if view.older_seq is not None:
            st.page_link(
                links.page_path("audit"), label="Older acts", icon=":material/chevron_right:", query_params=asked.link(view.older_seq)
            )

"""A trace and its decision, drawn: the waterfall, the words, and the prompts as plain text."""

from __future__ import annotations

import streamlit as st

from app.admin import actions
from app.charts import waterfall
from app.ui import acts, panels, states
from app.ui.text import literal
from app.views import traces, words
from app.views.decision import Decision
from app.views.traces import Trace

LABEL, _SAID = "label", "label_said"
_SHORT = 400
_ICONS = {
    "exact_hit": ":green[:material/check_circle:]",
    "semantic_hit": ":green[:material/check_circle:]",
    "miss": ":orange[:material/arrow_outward:]",
    "error": ":red[:material/error:]",
}


def prompt(label: str, text: str | None) -> None:
    """Draw tenants' text as it is: escaped, wrapped, cut with a way to see all."""
    st.caption(label)
    if text is None:
        st.text("(not recorded)")
        return
    st.code(words.readable(text, _SHORT), language=None, wrap_lines=True)
    if len(text) > _SHORT:
        with st.expander(f"All {len(text):,} characters"):
            st.code(words.readable(text), language=None, wrap_lines=True)


def _label(shown: Decision, trace_id: str) -> None:
    """Draw the two words that a person can say of the lookup and its candidate."""
    why = acts.may_act("label")
    hit = shown.outcome == "semantic_hit"
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.caption("Does the candidate's answer serve this prompt?", width="content")
        for serves, name in ((True, "Right answer" if hit else "It serves"), (False, "Wrong answer" if hit else "It does not")):
            st.button(
                name,
                icon=":material/thumb_up:" if serves else ":material/thumb_down:",
                key=f"label_{shown.pair}_{serves}",
                disabled=bool(why),
                help=why or "Kept as your word on this pair: thresholds and scores are judged by it. A later word replaces it.",
                on_click=_say,
                args=(trace_id, shown.pair, serves),
            )


def _say(trace_id: str, pair: str, serves: bool) -> None:
    """Keep the word. The same word twice is one act; a change of mind is another."""
    said: dict[str, tuple[bool, int]] = st.session_state.setdefault(_SAID, {})
    before, changes = said.get(pair, (not serves, 0))
    said[pair] = (serves, changes + (before is not serves))
    acts.at_once(LABEL, f"{pair} {said[pair]}", lambda ctx, one: actions.label(ctx, trace_id, one, serves=serves, span_id=pair))


def decision(shown: Decision, trace_id: str) -> None:
    """Draw why the cache answered, or did not, and ask whether it was right."""
    st.markdown(f"##### {_ICONS.get(shown.outcome, ':material/info:')} {literal(shown.headline)}")
    left, right = st.columns([3, 2])
    with left:
        for sentence in shown.sentences:
            st.markdown(f"- {literal(sentence)}")
        for rule in shown.rules:
            word = ":orange[vetoed]" if rule.veto else "let it pass"
            detail = f" ({literal(words.one_line(rule.detail))})" if rule.detail else ""
            st.markdown(f"- Rule {literal(words.one_line(rule.rule))}: {word}{detail}")
        prompt("Prompt (the last user turn)", shown.prompt)
        if shown.candidate_prompt is not None:
            prompt("The nearest entry's prompt", shown.candidate_prompt)
        if shown.pair:
            _label(shown, trace_id)
    with right:
        st.dataframe(
            [{"fact": label, "value": value} for label, value in shown.facts],
            hide_index=True,
            alt="Recorded facts of the lookup",
            height=min(35 * (len(shown.facts) + 1) + 3, 640),
        )


def corrects() -> bool:
    """Return whether clocks are to be corrected, as the URL or the switch says."""
    return bool(st.session_state.get("clocks", st.query_params.get("clocks") == "true"))


def draw(shown: Trace) -> None:
    """Draw the whole trace."""
    states.report(shown.failures, traces.SOURCES)
    st.caption(f"Trace {shown.trace_id} · began {words.instant(shown.start_ms)} UTC")
    acts.outcome(LABEL)
    for note in shown.notes:
        st.warning(literal(note), icon=":material/link_off:")
    for one in shown.decisions:
        decision(one, shown.trace_id)
    if not shown.decisions:
        st.markdown("No lookup was recorded in this trace.")
    if shown.skewed or shown.corrected:
        st.toggle("Correct the clocks", key="clocks", bind="query-params", help="Moves spans that another clock timed into their parents.")
    if shown.bars:
        panels.chart(waterfall.figure(shown), rows=traces.bar_rows(shown), key="waterfall")

"""The states that are no charts: empty, stale, failed, and what is hidden. Each says what to do next."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from app.ui import handles
from app.ui.text import literal
from app.views import words
from app.views.parts import Failure

STALE_AFTER_MS = 120_000
_HALF_A_DAY_MS = 43_200_000  # a failure of yesterday has its day


def failed(failure: Failure) -> None:
    """Draw which source failed, since when, and what that hides. The rest of the page goes on."""
    if failure.missing:
        told = failure.message.replace("`", "")
        empty("Nothing has been stored yet", told[:1].upper() + told[1:], "cachescope up")
        return
    since = handles.failures().failing(failure.source)
    at = words.clock(since) if handles.now_ms() - since < _HALF_A_DAY_MS else words.instant(since)
    hides = f" Hidden: {literal(failure.hides)}." if failure.hides else ""
    why = literal(failure.message.rstrip("."))
    st.error(
        f"**{literal(failure.source)} does not answer** since {at} UTC: {why}.{hides}",
        icon=":material/cloud_off:",
    )


def not_done(what: str, message: str) -> None:
    """Draw that something asked for on this page was not done, and why. It is of this click: no source fails by it."""
    st.error(f"**{literal(what)}.** {literal(message)}", icon=":material/error:")


def report(failures: Sequence[Failure], sources: Sequence[str]) -> None:
    """Draw the failures of a page's sources, and note which of them answered: their next failure starts anew."""
    for failure in failures:
        failed(failure)
    for source in sources:
        if source not in {failure.source for failure in failures}:
            handles.failures().works(source)


def empty(what: str, next_step: str, command: str = "") -> None:
    """Draw that there is nothing, what to do next, and the exact command for it."""
    with st.container(border=True):
        st.markdown(f"**{literal(what)}**")
        st.markdown(literal(next_step))
        if command:
            st.code(command, language=None, wrap_lines=True)  # its colours for options cannot be read in the dark


def no_lookups(*, last_ms: int | None, now_ms: int, window_name: str) -> None:
    """Draw why a window is empty: nothing was ever stored, or the last lookup lies before it."""
    if last_ms is None:
        bind = handles.config().gateway_bind
        empty(
            "No lookup has been stored yet",
            "Send a request through the gateway; it shows here within seconds:",
            f"curl http://{bind}/v1/chat/completions -H 'Content-Type: application/json' "
            '-d \'{"model": "…", "messages": [{"role": "user", "content": "Hello"}]}\'',
        )
        return
    empty(
        f"No lookups in {window_name} with these filters",
        f"The last lookup stored is {words.age(now_ms - last_ms)} old ({words.instant(last_ms)} UTC). "
        "Widen the time range or clear a filter above; if traffic should be flowing, see Sources, or ask:",
        "cachescope status",
    )


def stale(last_ms: int | None, now_ms: int) -> None:
    """Warn, with the age, when the newest telemetry is older than two minutes. Its place is kept: what stands below must not jump."""
    with st.container():
        if last_ms is not None and now_ms - last_ms > STALE_AFTER_MS:
            st.warning(
                f"**Nothing new for {words.age(now_ms - last_ms)}.** The newest lookup is of {words.instant(last_ms)} UTC: "
                "there is no traffic, or its telemetry does not arrive. See Sources.",
                icon=":material/schedule:",
            )


def sampled(note: str) -> None:
    """Warn what sampling means for the page's numbers; nothing where nobody samples."""
    with st.container():
        if note:
            st.warning(f"{literal(note)}.", icon=":material/filter_alt:")


def prompts_hidden(what: str) -> None:
    """Note that prompts are not recorded, and what that hides here."""
    st.info(
        f"Prompts are not recorded (setting `record_prompts`): {literal(what)}",
        icon=":material/visibility_off:",
    )

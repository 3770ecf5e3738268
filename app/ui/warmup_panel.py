"""The warm-up page's parts: the plan, its confirmation, and progress."""

from __future__ import annotations

import streamlit as st

from app.admin import actions
from app.admin.actions import WarmupPlan
from app.errors import AppError
from app.ui import acts, chrome, confirm, handles, states, tables
from app.ui.text import literal
from app.views import warmup, words
from app.views.warmup import WarmupView
from storage.errors import StorageError

SLOT = "warmup"
_PLAN = "warmup_plan"
_HOURS = {1: "the last hour", 6: "the last 6 hours", 24: "the last 24 hours", 168: "the last 7 days"}


def plan(namespace: str) -> None:
    """Draw the plan's two choices, the plan, and the button that opens its confirmation."""
    why = acts.may_act("warmup")
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        hours = st.selectbox("Misses of", list(_HOURS), index=2, format_func=lambda one: _HOURS[one], key="hours", width=200)
        limit = st.number_input("At most", min_value=1, max_value=1000, value=50, step=10, key="limit", width=140)
        asked = st.button("Plan", icon=":material/checklist:", disabled=bool(why), help=why, key="plan_warmup")
    kept: WarmupPlan | None = st.session_state.get(_PLAN)
    if asked:
        since = handles.now_ms() - hours * 3_600_000
        try:
            kept = actions.plan_warmup(acts.context(), namespace, limit=int(limit), since_ms=since)
        except (AppError, StorageError) as error:
            states.not_done("No plan could be made", str(error))
            kept = None
        st.session_state[_PLAN] = kept
    if kept is None or kept.namespace != namespace:
        return
    if not kept.items:
        states.empty("No miss was recorded in this time", "Choose a longer time, or another namespace:", "cachescope warm --help")
        return
    chrome.dials(warmup.dials(kept))
    tables.show(warmup.plan_rows(kept), alt="The most frequent recorded misses")
    for told in warmup.asides(kept):
        st.caption(literal(told))
    none = None if kept.warmable else "None of these can be warmed"
    st.button(
        f"Warm {words.many(len(kept.warmable), 'request', 'requests')}…",
        icon=":material/local_fire_department:",
        on_click=confirm.ask,
        args=(SLOT, namespace, kept.token),
        disabled=bool(why or none),
        help=why or none,
        key="open_warmup",
    )


def _cost(kept: WarmupPlan) -> str:
    if kept.cost_usd is None:
        return "; what they cost is not known"
    known = "" if kept.costed == len(kept.warmable) else f" (known for {kept.costed} of them)"
    return f", at about {literal(words.money(kept.cost_usd))} in all{known}"


def confirmation() -> None:
    """Draw the dialog that starts the warm-up: it costs money, so it says how much."""

    def body(request: confirm.Request) -> None:
        kept: WarmupPlan | None = st.session_state.get(_PLAN)
        if kept and kept.token == request.token:
            st.markdown(
                f"{words.many(len(kept.warmable), 'request goes', 'requests go')} upstream{_cost(kept)}. "
                "Those whose answer is there by then are not asked again."
            )

    def act(request: confirm.Request) -> None:
        acts.perform(SLOT, lambda ctx: actions.start_warmup(ctx, request.token, request.operation_id))
        st.session_state.pop(_PLAN, None)

    confirm.dialog(SLOT, "Start the warm-up", body=body, act_label="Start the warm-up", act=act, typed=False)


def progress(view: WarmupView) -> None:
    """Draw running warm-ups with their progress."""
    for job in view.running:
        st.progress(warmup.share_done(job), text=literal(warmup.under_way(job)))


def recent(view: WarmupView) -> None:
    """Draw the warm-ups that run or ran."""
    if view.recent:
        st.markdown("**Warm-ups, newest first**")
        tables.show(warmup.job_rows(view), alt="Warm-ups, newest first", columns=acts.RECORD)


def cancel(view: WarmupView) -> None:
    """Draw a cancel for each running warm-up; outside of what refreshes by itself."""
    why = acts.may_act("cancel")
    for job in view.running:
        st.button(
            f"Cancel the warm-up of {literal(words.name(job.namespace, 40))}",
            icon=":material/cancel:",
            key=f"cancel_{job.id}",
            on_click=_cancel,
            args=(job.id,),
            disabled=bool(why),
            help=why,
        )


def _cancel(job_id: str) -> None:
    try:
        actions.cancel_job(acts.context(), job_id)
    except (AppError, StorageError) as error:
        acts.refuse(SLOT, str(error))

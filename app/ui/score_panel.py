"""The thresholds page's part about scores: what they are worth, fitting one, trying one, letting one decide."""

from __future__ import annotations

import streamlit as st

from app.admin import actions
from app.charts import calibration
from app.errors import AppError
from app.ui import acts, confirm, panels, tables
from app.ui.text import literal
from app.views import scores
from app.views.thresholds import Thresholds
from storage.errors import StorageError

SLOT = "score"
_OFF = "0"


def draw(view: Thresholds, namespace: str) -> None:
    """Draw the namespace's scores with their worth and calibration, and what can be done with them."""
    if view.effective is None:
        return
    in_force = view.effective.policy.score
    st.markdown("**Score over what the rules let through**")
    acts.outcome(SLOT)
    if view.scores:
        shown = scores.rows(view.scores, in_force=in_force.version if in_force else None)
        tables.show(shown, alt="Scores of the namespace, newest first")
        st.caption(scores.NOTE)
        _calibration(view, in_force.version if in_force else None)
    else:
        st.caption(literal(scores.needs(len(view.labels))))
    _levers(view, namespace, deciding=in_force is not None)
    _confirmation()


def _calibration(view: Thresholds, deciding: int | None) -> None:
    chosen = next((one for one in view.scores if one.horizon == str(deciding)), view.scores[0])
    fitted = scores.fitted(chosen)
    if fitted is not None:
        chart = calibration.figure(fitted, version=chosen.horizon)
        panels.chart(chart, rows=scores.calibration_rows(fitted), key="calibration")


def _levers(view: Thresholds, namespace: str, *, deciding: bool) -> None:
    able = [one.horizon for one in view.scores if (found := scores.fitted(one)) and found.cut is not None]
    why, why_fit = acts.may_act("verification"), acts.may_act("score_fit")
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        st.button(
            "Fit a score",
            icon=":material/tune:",
            key="fit_score",
            disabled=bool(why_fit),
            help=why_fit or "From the labels of this namespace. Nothing serves by it until it is applied.",
            on_click=acts.at_once,
            args=(SLOT, _intent(view, namespace), lambda ctx, one: actions.fit_score(ctx, namespace, one)),
        )
        if able:
            version = st.selectbox("Version", able, key=f"score_version_{namespace}", width=120)
            st.button(
                "Try and apply…",
                icon=":material/fact_check:",
                key="apply_score",
                disabled=bool(why),
                help=why,
                on_click=confirm.ask,
                args=(SLOT, namespace, version),
            )
        if deciding:
            st.button("Rules alone…", key="score_off", disabled=bool(why), help=why, on_click=confirm.ask, args=(SLOT, namespace, _OFF))


def _intent(view: Thresholds, namespace: str) -> str:
    """Return what tells one fit from another: the labels and the policy. The same ones twice are one fit."""
    newest = max((label.at_ms for label in view.labels), default=0)
    version = view.effective.policy.version if view.effective else 0
    return f"fit {namespace} {len(view.labels)} {newest} {version}"


def _confirmation() -> None:
    """Draw the dialog: what the score would have done, then the act. The policy that was looked at travels with it."""
    request = confirm.current(SLOT)
    if request is None:
        return
    wanted = None if request.token == _OFF else int(request.token)
    try:
        lines, seen = _consequence(request.subject, wanted)
    except (AppError, StorageError) as error:
        acts.refuse(SLOT, str(error))
        confirm.close(SLOT)
        st.rerun()

    def body(_: confirm.Request) -> None:
        for line in lines:
            st.markdown(literal(line))

    def act(one: confirm.Request) -> None:
        acts.perform(SLOT, lambda ctx: actions.apply_score(ctx, one.subject, wanted, one.operation_id, seen))

    confirm.dialog(SLOT, "Let a score decide" if wanted else "Serve by the rules alone", body=body, act_label="Apply", act=act)


def _consequence(namespace: str, wanted: int | None) -> tuple[list[str], int]:
    """Return what it would do, and the policy's version that it was tried on. Tried once a dialog: it takes up to a second."""
    request = confirm.current(SLOT)
    kept = st.session_state.get("score_tried")
    if request is not None and kept is not None and kept[0] == request.operation_id:
        return list(kept[1]), int(kept[2])
    ctx = acts.context()
    if wanted is None:
        lines, seen = ["No score decides any more: the rules and the threshold do."], actions.policy_in_force(ctx, namespace).version
    else:
        tried = actions.try_score(ctx, namespace, wanted)
        lines, seen = scores.tried(tried), tried.policy_version
    if request is not None:
        st.session_state["score_tried"] = (request.operation_id, lines, seen)
    return lines, seen

"""Every act of an operator: authorise → preview → record → do → verify → record. Pages, CLI and worker come in here."""

from app.admin.context import AdminContext
from app.admin.keys import create_key, revoke_key
from app.admin.labels import label, may_label
from app.admin.policy import policy_in_force, restore_policy, set_normaliser, set_switch, set_threshold
from app.admin.purge import PurgePreview, preview_purge, purge, undo_purge
from app.admin.record import ActResult
from app.admin.roles import Actor, Role, authorise, role_of, why_not
from app.admin.verification import ScoreTry, apply_score, fit_score, set_verification, try_score, versions
from app.admin.warmup import WarmupPlan, cancel_job, plan_warmup, start_warmup

__all__ = [
    "ActResult",
    "Actor",
    "AdminContext",
    "PurgePreview",
    "Role",
    "ScoreTry",
    "WarmupPlan",
    "apply_score",
    "authorise",
    "cancel_job",
    "create_key",
    "fit_score",
    "label",
    "may_label",
    "plan_warmup",
    "policy_in_force",
    "preview_purge",
    "purge",
    "restore_policy",
    "revoke_key",
    "role_of",
    "set_normaliser",
    "set_switch",
    "set_threshold",
    "set_verification",
    "start_warmup",
    "try_score",
    "undo_purge",
    "versions",
    "why_not",
]

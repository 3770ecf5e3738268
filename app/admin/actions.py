"""Every act of an operator: authorise → preview → record → do → verify → record. Pages, CLI and worker come in here."""

from app.admin.context import AdminContext
from app.admin.keys import create_key, revoke_key
from app.admin.policy import policy_in_force, restore_policy, set_normaliser, set_switch, set_threshold
from app.admin.purge import PurgePreview, preview_purge, purge, undo_purge
from app.admin.record import ActResult
from app.admin.roles import Actor, Role, authorise, role_of, why_not
from app.admin.warmup import WarmupPlan, cancel_job, plan_warmup, start_warmup

__all__ = [
    "ActResult",
    "Actor",
    "AdminContext",
    "PurgePreview",
    "Role",
    "WarmupPlan",
    "authorise",
    "cancel_job",
    "create_key",
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
    "start_warmup",
    "undo_purge",
    "why_not",
]

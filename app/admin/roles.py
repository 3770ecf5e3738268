"""Who may do what. Checked inside every act, at the moment it is done; hiding a button is a courtesy, not a lock."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from app.adapters.base import Capabilities
from app.errors import Refused


class Role(IntEnum):
    """Each role may do what the lower ones may."""

    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3


# Per act: the role it needs of who acts, and what it needs of the engine (a field of Capabilities; '' = nothing).
NEEDS = {
    "purge": (Role.OPERATOR, "purge"),
    "undo": (Role.OPERATOR, "undo"),
    "switch": (Role.OPERATOR, "policy"),
    "threshold": (Role.OPERATOR, "policy"),
    "normaliser": (Role.OPERATOR, "policy"),
    "verification": (Role.OPERATOR, "policy"),
    "score_fit": (Role.OPERATOR, ""),
    "label": (Role.OPERATOR, ""),
    "warmup": (Role.OPERATOR, "warm"),
    "cancel": (Role.OPERATOR, ""),
    "key_create": (Role.ADMIN, "keys"),
    "key_revoke": (Role.ADMIN, "keys"),
}


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts. name: as it stands in the audit."""

    name: str
    role: Role


def role_of(name: str) -> Role:
    return Role[name.upper()]


def why_not(actor: Actor, act: str, able: Capabilities) -> str | None:
    """Return why the actor may not do this act on an engine that can do `able`, None when he may."""
    role, ability = NEEDS[act]
    if actor.role < role:
        return f"{actor.name} is {actor.role.name.lower()}; {act} needs {role.name.lower()}"
    if ability and not getattr(able, ability):
        return f"this engine is watched only: {act} is not among the acts it knows"
    return None


def authorise(actor: Actor, act: str, able: Capabilities) -> None:
    """Return when the actor may do this act on this engine. Raises Refused."""
    reason = why_not(actor, act, able)
    if reason:
        raise Refused(f"{reason}. Nothing was changed")

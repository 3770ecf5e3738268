"""Who may do what. Checked inside every act, at the moment it is done; hiding a button is a courtesy, not a lock."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from app.errors import Refused


class Role(IntEnum):
    """Each role may do what the lower ones may."""

    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3


NEEDS = {
    "purge": Role.OPERATOR,
    "undo": Role.OPERATOR,
    "switch": Role.OPERATOR,
    "threshold": Role.OPERATOR,
    "warmup": Role.OPERATOR,
    "cancel": Role.OPERATOR,
    "key_create": Role.ADMIN,
    "key_revoke": Role.ADMIN,
}


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts. name: as it stands in the audit."""

    name: str
    role: Role

    @property
    def may_operate(self) -> bool:
        return self.role >= Role.OPERATOR


def role_of(name: str) -> Role:
    return Role[name.upper()]


def authorise(actor: Actor, act: str) -> None:
    """Return when the actor may do this act. Raises Refused."""
    needed = NEEDS[act]
    if actor.role < needed:
        raise Refused(f"{actor.name} is {actor.role.name.lower()}; {act} needs {needed.name.lower()}. Nothing was changed")

"""The history of each namespace's policy. What is in force is the engine's store's to say."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from storage.store import Store


@dataclass(frozen=True, slots=True)
class PolicyVersion:
    """A policy as it was set: by whom, when, in which act."""

    namespace: str
    version: int
    policy: Mapping[str, Any]
    actor: str
    act_id: str
    at_ms: int


def append(store: Store, *, namespace: str, version: int, policy: Mapping[str, Any], actor: str, act_id: str, at_ms: int) -> bool:
    """Record a version of a namespace's policy. False when this version is recorded already."""
    insert = """
    INSERT INTO policy_history (namespace, version, policy, actor, act_id, at_ms) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (namespace, version) DO NOTHING
    """
    text = json.dumps(dict(policy), sort_keys=True, separators=(",", ":"))
    with store.write() as connection:
        return connection.exec_driver_sql(insert, (namespace, version, text, actor, act_id, at_ms)).rowcount == 1


def history(connection: Connection, namespace: str, *, limit: int = 100) -> list[PolicyVersion]:
    """Return a namespace's versions, the newest first."""
    query = """
    SELECT namespace, version, policy, actor, act_id, at_ms FROM policy_history WHERE namespace = ? ORDER BY version DESC LIMIT ?
    """
    rows = connection.exec_driver_sql(query, (namespace, limit))
    return [PolicyVersion(row[0], row[1], json.loads(row[2]), *row[3:]) for row in rows]


def at(connection: Connection, namespace: str, version: int) -> PolicyVersion | None:
    """Return one version; None when it was never recorded here."""
    query = "SELECT namespace, version, policy, actor, act_id, at_ms FROM policy_history WHERE namespace = ? AND version = ?"
    row = connection.exec_driver_sql(query, (namespace, version)).first()
    return PolicyVersion(row[0], row[1], json.loads(row[2]), *row[3:]) if row else None

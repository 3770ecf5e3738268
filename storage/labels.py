"""People's words on pairs: the same answer serves, or does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from storage.store import Store


@dataclass(frozen=True, slots=True)
class Label:
    """One person's word on one pair. features: what verification saw of it, numbers as JSON; '' where it could not look."""

    namespace: str
    prompt_hash: str
    candidate_id: str
    similarity: float
    serves: bool
    actor: str
    at_ms: int
    features: str = ""


def put(store: Store, label: Label) -> None:
    """Store a label. The same person's earlier word on the pair is replaced."""
    upsert = """
    INSERT INTO labels (namespace, prompt_hash, candidate_id, similarity, serves, actor, at_ms, features) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (namespace, prompt_hash, candidate_id, actor) DO UPDATE
    SET similarity = excluded.similarity, serves = excluded.serves, at_ms = excluded.at_ms, features = excluded.features
    """
    pair = (label.namespace, label.prompt_hash, label.candidate_id, label.similarity)
    values = (*pair, label.serves, label.actor, label.at_ms, label.features)
    with store.write() as connection:
        connection.exec_driver_sql(upsert, values)


def list(connection: Connection, *, namespace: str | None = None, limit: int = 10_000) -> Sequence[Label]:  # noqa: A001
    """Return the labels, the newest first."""
    query = """
    SELECT namespace, prompt_hash, candidate_id, similarity, serves, actor, at_ms, features FROM labels
    WHERE ? IS NULL OR namespace = ? ORDER BY at_ms DESC, id DESC LIMIT ?
    """
    rows = connection.exec_driver_sql(query, (namespace, namespace, limit))
    return tuple(Label(row[0], row[1], row[2], row[3], bool(row[4]), row[5], row[6], row[7]) for row in rows)

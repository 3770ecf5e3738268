"""People's words on pairs: the same answer serves, or does not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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


def by_pair(given: Iterable[Label]) -> tuple[tuple[Label, ...], ...]:
    """Return what each pair was labelled: one pair is one observation, however many people said a word on it."""
    words: dict[tuple[str, str, str], tuple[Label, ...]] = {}
    for one in given:
        pair = one.namespace, one.prompt_hash, one.candidate_id
        words[pair] = (*words.get(pair, ()), one)
    return tuple(words.values())


def majority(said: Iterable[Label]) -> bool | None:
    """Return what most people said of one pair: True = it serves; None = they are evenly divided."""
    balance = sum(1 if one.serves else -1 for one in said)
    return None if balance == 0 else balance > 0


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

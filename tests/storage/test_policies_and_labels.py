from __future__ import annotations

from dataclasses import replace

from storage import labels, policies
from storage.store import Store


def test_a_version_is_recorded_once_and_read_newest_first(ops: Store) -> None:
    def append(version: int, threshold: float, namespace: str = "faq") -> bool:
        policy = {"threshold": threshold}
        return policies.append(ops, namespace=namespace, version=version, policy=policy, actor="ada", act_id=f"a{version}", at_ms=version)

    assert append(1, 0.9)
    assert append(2, 0.92)
    assert not append(2, 0.5)
    assert append(1, 0.8, "docs")
    with ops.read() as connection:
        assert [(one.version, one.policy["threshold"]) for one in policies.history(connection, "faq")] == [(2, 0.92), (1, 0.9)]
        first = policies.at(connection, "faq", 1)
        assert first is not None
        assert (first.actor, first.act_id, first.at_ms) == ("ada", "a1", 1)
        assert policies.at(connection, "faq", 9) is None
        assert policies.history(connection, "none") == []


def test_the_same_persons_later_word_replaces_the_earlier(ops: Store) -> None:
    word = labels.Label("faq", "hash", "entry", 0.93, serves=True, actor="ada", at_ms=1)
    labels.put(ops, word)
    labels.put(ops, replace(word, actor="bob", at_ms=2))
    labels.put(ops, replace(word, serves=False, at_ms=3))
    labels.put(ops, replace(word, namespace="docs", at_ms=4))
    with ops.read() as connection:
        assert [(one.actor, one.serves) for one in labels.list(connection, namespace="faq")] == [("ada", False), ("bob", True)]
        assert len(labels.list(connection)) == 3
        assert labels.list(connection, limit=1)[0].namespace == "docs"

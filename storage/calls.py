"""One model call counts once, however many spans describe it, in whatever order and in however many requests they came.

Two spans describe one call when one lies beneath the other in a trace (a framework around an SDK), or when both carry the same
answer's id and one's time lies within the other's (two instrumentations that each open a trace of their own); failed calls have no id,
and are told by service, model and time. Of two such spans one is a repeat: the outer one, unless it knows more of the tokens. That is a
rule for pairs, so the order of arrival cannot matter, and what is a repeat stays one.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection

from storage.rows import CACHED, REPEAT, LookupRow, SpanRow

MAX_CLIMB: Final = 64  # ancestors looked at: frameworks nest a dozen deep, and a chain of 10,000 must not cost its square
MAX_TWINS: Final = 64  # spans of one answer's id looked at: a sender that writes the same id everywhere must not cost its square
FAILED_BUCKET_NS: Final = 60_000_000_000  # failed calls are compared with those that began in the same minute of the clock
# Lookups that stand or fall with the call. One of a response cache of its own stays, whoever describes the call beneath it.
CALL_KINDS: Final = ("provider_prompt", "kv_prefix", "response_hits")

_FAMILIES: Final = {"embeddings": "embeddings"}
_IN: Final = 256  # parameters of a statement: always as many, so that it is prepared once
_MARKS: Final = ", ".join("?" * _IN)
_COLUMNS: Final = (
    "s.id, s.trace_id, s.span_id, s.parent_id, s.start_ns, s.end_ns, o.scope, s.operation, s.call_role,"
    " s.input_tokens, s.cached_input_tokens, s.call_key, s.source_id"
)
_JOIN: Final = "FROM spans s JOIN sources o ON o.id = s.source_id"
_BY_ID: Final = f"SELECT {_COLUMNS} {_JOIN} WHERE s.trace_id = ? AND s.span_id = ?"
_WAITING: Final = f"SELECT {_COLUMNS}, s.waits_for {_JOIN} WHERE s.waits_for IN ({_MARKS})"
# Of a key that is everywhere the newest are enough: a call's descriptions come within seconds of each other.
_TWINS: Final = f"SELECT {_COLUMNS} {_JOIN} WHERE s.call_key = ? AND s.call_role <> '' ORDER BY s.id DESC LIMIT {MAX_TWINS}"
_GONE_COLUMNS: Final = ", ".join(f'"{name}"' for name in ("source_id", *LookupRow._fields))
_GONE: Final = f"DELETE FROM lookups WHERE trace_id = ? AND span_id = ? AND cache_kind IN {CALL_KINDS} RETURNING {_GONE_COLUMNS}"  # noqa: S608


class Description(NamedTuple):
    """A span that describes a model call. place: its position in the request, or its row. key: of `call_key`, None = it has none."""

    place: int
    trace_id: bytes
    span_id: bytes
    start_ns: int
    end_ns: int
    scope: str
    family: str
    rank: int
    key: int | None


def family(operation: str) -> str:
    """Return what kind of call it is: one that embeds is never a repeat of one that answers."""
    return _FAMILIES.get(operation, "text")


def rank(role: str, input_tokens: int | None, cached_input_tokens: int | None) -> int:
    """Return how much a description knows. What a cache answered outranks all: whoever says "call" around it is mistaken."""
    return 3 if role == CACHED else (input_tokens is not None) + (cached_input_tokens is not None)


def loser(inner: Description, outer: Description) -> Description:
    """Return the one that is a repeat: the outer span, unless it knows more."""
    return inner if outer.rank > inner.rank else outer


def contains(outer: Description, inner: Description) -> bool:
    """Return whether two spans of one key describe one call, the first around the second. Equal times: the ids decide."""
    if outer.scope == inner.scope or outer.family != inner.family:
        return False
    if (outer.start_ns, outer.end_ns) == (inner.start_ns, inner.end_ns):
        return (outer.trace_id, outer.span_id) < (inner.trace_id, inner.span_id)
    return outer.start_ns <= inner.start_ns and inner.end_ns <= outer.end_ns


def key_of_answer(response_id: str) -> int:
    """Return the key of the spans that carry this answer's id."""
    return hashed("answer", response_id)


def key_of_failure(service: str, operation: str, model: str, start_ns: int) -> int:
    """Return the key of the failed calls of a minute that no answer's id tells apart."""
    return hashed("failed", service, family(operation), model, str(start_ns // FAILED_BUCKET_NS))


def key_of_span(trace_id: bytes, span_id: bytes) -> int:
    """Return the key under which a span is waited for. The trace is compared as well, so that no two spans share one by chance."""
    return int.from_bytes(trace_id[8:], "little", signed=True) ^ int.from_bytes(span_id, "little", signed=True)


def hashed(*parts: str) -> int:
    """Return a 64-bit key of what is named."""
    return int.from_bytes(hashlib.blake2b("\0".join(parts).encode(errors="replace"), digest_size=8).digest(), "little", signed=True)


@dataclass(slots=True)
class Settled:
    """repeats: new spans that repeat another's call, by trace and span id. waits: new spans whose chain breaks -> `waits_for`.

    taken_back: (source, lookup) that were counted before, and no longer are. uncounted: source -> calls likewise.
    """

    repeats: set[tuple[bytes, bytes]] = field(default_factory=set)
    waits: dict[tuple[bytes, bytes], int] = field(default_factory=dict)
    taken_back: list[tuple[int, LookupRow]] = field(default_factory=list)
    uncounted: Counter[int] = field(default_factory=Counter)


class _Node(NamedTuple):
    """A span as the comparison needs it. place: its row; negative = new, not inserted yet."""

    place: int
    trace_id: bytes
    span_id: bytes
    parent_id: bytes | None
    start_ns: int
    end_ns: int
    scope: str
    operation: str
    role: str
    input_tokens: int | None
    cached_input_tokens: int | None
    key: int | None
    source_id: int

    def described(self) -> Description:
        known = rank(self.role, self.input_tokens, self.cached_input_tokens)
        ids = (self.place, self.trace_id, self.span_id, self.start_ns, self.end_ns)
        return Description(*ids, self.scope, family(self.operation), known, self.key)


def settle(connection: Connection, new: Sequence[tuple[int, str, Sequence[SpanRow]]]) -> Settled:
    """Find the repeats among spans about to be inserted and those stored; mark the stored ones. new: (source, its scope, spans)."""
    told = any(row.call_role for *_, rows in new for row in rows)
    waited = connection.exec_driver_sql("SELECT 1 FROM spans WHERE waits_for IS NOT NULL LIMIT 1").first() is not None
    if not told and not waited:
        return Settled()
    return _Settling(connection, new).run(told=told, waited=waited)


class _Settling:
    def __init__(self, connection: Connection, new: Sequence[tuple[int, str, Sequence[SpanRow]]]) -> None:
        # Of the driver's own: a probe costs 2 µs so, and 20 through the engine.
        self._cursor: Any = connection.connection.cursor()
        self._new = [(source_id, scope, row) for source_id, scope, rows in new for row in rows]
        self._places = {row[:2]: -place for place, (*_, row) in enumerate(self._new, 1)}
        self._stored: dict[tuple[bytes, bytes], _Node | None] = {}
        self._losers: dict[int, _Node] = {}
        self._resolved: list[tuple[int | None, int]] = []  # new waits_for of stored spans, and their rows
        self._settled = Settled()

    def run(self, *, told: bool, waited: bool) -> Settled:
        if told:
            mine = [-place for place, (*_, row) in enumerate(self._new, 1) if row.call_role]
            self._nested(mine)
            self._twins(mine)
        if waited:
            for node, arrived in list(self._awaited()):
                self._resolved.append((self._climb(node, arrived), node.place))
        self._mark()
        self._cursor.close()
        return self._settled

    def _nested(self, mine: Sequence[int]) -> None:
        for place in mine:
            row = self._new[-place - 1][2]
            if row.parent_id is None or row.parent_id == row.span_id:
                continue
            key = self._climb(self._node(place), row.parent_id)
            if key is not None:
                self._settled.waits[row[:2]] = key

    def _climb(self, node: _Node, parent: bytes) -> int | None:
        """Compare a description with those around it. Return the key of the span that is not here, where the chain breaks."""
        inner = node.described()
        for _ in range(MAX_CLIMB):
            if parent == node.span_id:
                return None
            place = self._places.get((node.trace_id, parent))
            outer = self._find(node.trace_id, parent) if place is None else self._node(place)
            if outer is None:
                return key_of_span(node.trace_id, parent)
            if outer.role:
                around = outer.described()
                if around.family == inner.family:
                    self._lose(loser(inner, around), node, outer)
            if outer.parent_id is None:
                return None
            parent = outer.parent_id
        return None

    def _node(self, place: int) -> _Node:
        source_id, scope, row = self._new[-place - 1]
        ids = (place, row.trace_id, row.span_id, row.parent_id, row.start_ns, row.end_ns)
        return _Node(*ids, scope, row.operation, row.call_role, row.input_tokens, row.cached_input_tokens, row.call_key, source_id)

    def _find(self, trace_id: bytes, span_id: bytes) -> _Node | None:
        at = (trace_id, span_id)
        if at not in self._stored:
            found = self._cursor.execute(_BY_ID, at).fetchone()
            self._stored[at] = None if found is None else _Node(*found)
        return self._stored[at]

    def _awaited(self) -> Iterator[tuple[_Node, bytes]]:
        """Yield the stored descriptions whose chain goes on with a span that has just come."""
        arrived: dict[int, list[SpanRow]] = {}
        for *_, row in self._new:
            arrived.setdefault(key_of_span(row.trace_id, row.span_id), []).append(row)
        for found in self._by_keys(_WAITING, arrived):
            node = _Node(*found[:-1])
            for row in arrived[found[-1]]:
                if row.trace_id == node.trace_id:
                    yield node, row.span_id

    def _twins(self, mine: Sequence[int]) -> None:
        groups: dict[int, list[int]] = {}
        for place in mine:
            key = self._new[-place - 1][2].call_key
            if key is not None:
                groups.setdefault(key, []).append(place)
        for key, places in groups.items():
            # A probe a key: in one query for all, a key that is everywhere would hide the others' twins.
            found = [_Node(*row) for row in self._cursor.execute(_TWINS, (key,)).fetchall()]
            if len(places) == 1 and not found:
                continue
            nodes = [self._node(place) for place in places]
            for at, one in enumerate(nodes):
                for other in (*nodes[at + 1 : at + 1 + MAX_TWINS], *found):
                    self._compare(one, other)

    def _compare(self, one: _Node, other: _Node) -> None:
        a, b = one.described(), other.described()
        if contains(a, b):
            self._lose(loser(b, a), one, other)
        elif contains(b, a):
            self._lose(loser(a, b), one, other)

    def _by_keys(self, query: str, keys: Iterable[int]) -> Iterator[tuple[Any, ...]]:
        wanted: list[int | None] = list(keys)
        for at in range(0, len(wanted), _IN):
            part = wanted[at : at + _IN]
            yield from self._cursor.execute(query, part + [None] * (_IN - len(part))).fetchall()

    def _lose(self, lost: Description, *nodes: _Node) -> None:
        self._losers.update((node.place, node) for node in nodes if node.place == lost.place and node.role != REPEAT)

    def _mark(self) -> None:
        settled = self._settled
        if self._resolved:
            self._cursor.executemany("UPDATE spans SET waits_for = ? WHERE id = ?", self._resolved)
        for node in self._losers.values():
            if node.place < 0:
                settled.repeats.add((node.trace_id, node.span_id))
                continue
            self._cursor.execute("UPDATE spans SET is_call = 0, call_role = ? WHERE id = ?", (REPEAT, node.place))
            if node.role != CACHED:
                settled.uncounted[node.source_id] += 1
            for gone in self._cursor.execute(_GONE, (node.trace_id, node.span_id)).fetchall():
                settled.taken_back.append((gone[0], LookupRow(*gone[1:])))


def facts(rows: Iterable[SpanRow], lookups: Iterable[LookupRow]) -> Counter[str]:
    """Return what a source's new spans and lookups told, as `sources.call_facts` counts it.

    answered: descriptions of calls that did not fail. rule:…: the token rules applied. lacks:…: answered ones without this field.
    kind:…: lookups by kind of cache.
    """
    found = Counter(f"kind:{row.cache_kind}" for row in lookups)
    for row in rows:
        if not row.call_role:
            continue
        if row.token_rule:
            found[f"rule:{row.token_rule}"] += 1
        if row.call_role == CACHED or row.status == _ERROR_STATUS:
            continue
        found["answered"] += 1
        for name in EXPECTED:
            if getattr(row, name) in {None, ""}:
                found[f"lacks:{name}"] += 1
    return found


EXPECTED: Final = ("provider", "model", "input_tokens", "output_tokens", "cached_input_tokens", "cost_usd")
_ERROR_STATUS: Final = 2  # OTLP StatusCode

"""One model call counts once, though several instrumentations of one process may each describe it.

Known forms: a framework's span around the SDK's in one trace, and two instrumentations of one SDK that each open a
trace of their own. Only spans of one request can be compared; nested calls whose spans arrive in different requests,
or from different processes, are each marked as a call.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

_MAX_CLIMB = 64  # ancestors looked at: frameworks nest a dozen deep, and a chain of 10,000 must not cost its square
_MAX_NEIGHBOURS = 64


class Call(NamedTuple):
    """A span that describes a model call. place: its position in the request."""

    place: int
    trace_id: bytes
    span_id: bytes
    start_ns: int
    end_ns: int
    service: str
    scope: str
    operation: str
    model: str
    response_id: str
    has_tokens: bool
    failed: bool


def repeated(calls: Sequence[Call], parents: Mapping[tuple[bytes, bytes], bytes]) -> set[int]:
    """Return the places of spans that describe a call which another span stands for. parents: of all the spans sent."""
    out: set[int] = set()
    by_id = {(call.trace_id, call.span_id): call for call in calls}
    for call in calls:
        outer = _calling_ancestor(call, by_id, parents)
        if outer is not None:
            out.add(_loser(call, outer).place)
    left = [call for call in calls if call.place not in out]
    for group in _groups((call for call in left if call.response_id), key=lambda call: (call.service, call.response_id)):
        out |= _contained(group)
    # A failed call has no answer and so no id: only its place inside the other's interval ties the two together.
    failed = (call for call in left if call.failed and not call.response_id)
    for group in _groups(failed, key=lambda call: (call.service, call.operation, call.model)):
        out |= _contained(group)
    return out


def _calling_ancestor(call: Call, by_id: Mapping[tuple[bytes, bytes], Call], parents: Mapping[tuple[bytes, bytes], bytes]) -> Call | None:
    span_id = call.span_id
    for _ in range(_MAX_CLIMB):
        parent = parents.get((call.trace_id, span_id))
        if not parent or parent == call.span_id:
            return None
        outer = by_id.get((call.trace_id, parent))
        if outer is not None and outer.operation == call.operation:
            return outer
        span_id = parent
    return None


def _loser(inner: Call, outer: Call) -> Call:
    """The inner span stands for the call, unless it alone lacks the tokens."""
    return inner if outer.has_tokens and not inner.has_tokens else outer


def _groups(calls: Iterable[Call], *, key: Callable[[Call], object]) -> list[list[Call]]:
    groups: dict[object, list[Call]] = defaultdict(list)
    for call in calls:
        groups[key(call)].append(call)
    return [group for group in groups.values() if len(group) > 1]


def _contained(group: list[Call]) -> set[int]:
    """Pair each span with at most one span of another scope that lies inside its interval."""
    out: set[int] = set()
    paired: set[int] = set()
    ordered = sorted(group, key=lambda call: (call.start_ns, -call.end_ns))
    for at, outer in enumerate(ordered):
        if outer.place in paired:
            continue
        for inner in ordered[at + 1 : at + 1 + _MAX_NEIGHBOURS]:
            if inner.start_ns > outer.end_ns:
                break
            if inner.end_ns <= outer.end_ns and inner.scope != outer.scope and inner.place not in paired:
                paired |= {inner.place, outer.place}
                out.add(_loser(inner, outer).place)
                break
    return out

"""One model call counts once, though several instrumentations each describe it: the spans of one request.

What came in other requests is settled by the store, with the same rule (`storage.calls`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from storage.calls import MAX_CLIMB, MAX_TWINS, Description, contains, loser


def repeated(calls: Sequence[Description], parents: Mapping[tuple[bytes, bytes], bytes]) -> set[int]:
    """Return the places of those that describe a call which another one stands for. parents: of all the spans sent."""
    if len(calls) < 2:
        return set()
    out: set[int] = set()
    by_id = {(call.trace_id, call.span_id): call for call in calls}
    twins: dict[int, list[Description]] = defaultdict(list)
    for call in calls:
        if call.key is not None:
            twins[call.key].append(call)
        span_id = call.span_id
        for _ in range(MAX_CLIMB):
            parent = parents.get((call.trace_id, span_id))
            if not parent or parent == call.span_id:
                break
            outer = by_id.get((call.trace_id, parent))
            if outer is not None and outer.family == call.family:
                out.add(loser(call, outer).place)
            span_id = parent
    for group in twins.values():
        for at, one in enumerate(group):
            for other in group[at + 1 : at + 1 + MAX_TWINS]:
                if contains(one, other):
                    out.add(loser(other, one).place)
                elif contains(other, one):
                    out.add(loser(one, other).place)
    return out

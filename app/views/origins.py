"""What counts as one source on a page."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from app.views import words
from storage.reads.sources import SourceStatus


class Origin(NamedTuple):
    """id: of the row seen last of those that belong together."""

    id: int
    name: str


def origins_of(found: Iterable[SourceStatus]) -> dict[int, Origin]:
    """Return what each source belongs to. The instances of a sender by OTLP are one: each of its restarts makes another. Its scopes are
    not: two instrumentations may count the same calls.
    """
    known: dict[tuple[str, ...], Origin] = {}
    origins = {}
    for one in found:
        scope = one.scope.partition("@")[0]
        pushed = one.kind == "otlp_metrics"
        name = f"{words.name(one.service)} ({scope})" if pushed and scope else one.service
        key = (one.kind, one.service, scope) if pushed else (str(one.id),)
        origins[one.id] = known.setdefault(key, Origin(one.id, name))
    return origins

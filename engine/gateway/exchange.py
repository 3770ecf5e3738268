"""One chat request on its way through the gateway, and what became of its lookup."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.gateway.answers import Answer
from engine.gateway.auth import Identity
from engine.gateway.errors import RawHeaders
from engine.gateway.inbound import Inbound
from engine.lookup import Lookup
from engine.types import Outcome

JSON_TYPE = (b"content-type", b"application/json")


@dataclass(slots=True)
class Exchange:
    """raw: the body's bytes as they came. forwarded: why it goes upstream, as Cache-Status says it; '' for a hit.

    in_a_herd: others ask the upstream the same at the same moment.
    """

    inbound: Inbound
    identity: Identity
    body: dict[str, Any]
    raw: bytes
    lookup: Lookup
    forwarded: str = ""
    in_a_herd: bool = False

    @property
    def wants_usage(self) -> bool:
        """The client asked for the usage at the end of its stream."""
        options = self.body.get("stream_options")
        return isinstance(options, dict) and options.get("include_usage") is True


def note(lookup: Lookup, answer: Answer, *, shared: bool) -> None:
    """Write on the lookup what the upstream's answer made of it. shared: it was another lookup's call."""
    lookup.status = answer.status
    lookup.finish_reasons = answer.finish_reasons
    lookup.response_model = answer.model
    if shared:
        # A follower used no tokens of its own: they stand on the leader's lookup.
        lookup.store_reason = "collapsed"
    else:
        lookup.usage = answer.usage
        lookup.upstream_ms = answer.upstream_ms
    if answer.error_type:
        fail(lookup, answer.error_type, answer.status)
    elif shared:
        lookup.outcome = Outcome.COALESCED


def fail(lookup: Lookup, error_type: str, status: int) -> None:
    """Make the lookup an error."""
    lookup.outcome = Outcome.ERROR
    lookup.reason = lookup.error_type = error_type
    lookup.status = status


def shareable_headers(answer: Answer) -> RawHeaders:
    """Return the headers that a follower gets: what describes the answer, not what belongs to the leader's call."""
    return [(name, value) for name, value in answer.headers if name in (b"content-type", b"retry-after")]

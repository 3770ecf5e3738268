"""One upstream call for concurrent identical misses, of this gateway and of all on its store, with the answers that just landed.

The race it closes: B looks up and misses; A's answer lands, is stored and its flight ends; B joins a flight, finds none and
would call the upstream again. B began before A's answer landed, so B is one of A's followers: it takes that answer.

What is no whole text (a tool call, an error, a cut answer) is nobody's but the leader's: its followers ask for themselves, each once.

Among gateways the leader holds a lease in the store. The others' leaders wait for it: when its answer is stored they serve it to
their own followers; when nothing came of it, or its gateway died, they ask for themselves.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from engine.admission import unfit
from engine.gateway.answers import Answer
from engine.gateway.boundary import Boundary
from engine.lookup import Lookup
from engine.singleflight import Flight, SingleFlight
from engine.types import Outcome

# A lookup takes milliseconds; one that began this long before the landing asks for itself.
LANDED_S = 5.0
MAX_LANDED = 256
MAX_LANDED_BYTES = 16 * 1024 * 1024


class _Alone:
    """What a leader publishes when its answer is its own. Not an abandoned flight: that has one follower after the other lead."""


_ALONE = _Alone()


class Lead:
    """The right to call the upstream, and the duty to tell those who wait. flight: None when nobody can wait.

    in_a_herd: others go to the upstream at the same moment with the same question.
    """

    def __init__(self, flights: Flights, key: str, flight: Flight | None, lookup: Lookup, *, in_a_herd: bool = False) -> None:
        self.in_a_herd = in_a_herd
        self._lookup = lookup
        self._flights = flights
        self._key = key
        self._flight = flight

    def waited_for(self) -> bool:
        """Return whether anyone waits for the answer."""
        return self._flight is not None and self._flight.waiting > 0

    def land(self, answer: Answer) -> None:
        """Give the answer to all who wait, or send them on their own ways."""
        if self._flight is not None:
            shared = _may_be_shared(answer)
            self._flights.landed(self._key, answer if shared else None, done=self._lookup.stored)
            self._flight.publish(answer if shared else _ALONE)
            self._flight = None

    def release(self) -> None:
        """Let one of those who wait take the lead, when no answer landed."""
        if self._flight is not None:
            self._flights.gave_up(self._key)
            self._flight.abandon()
            self._flight = None


class Flights:
    """Joins lookups that miss on the same key. A whole text reaches the followers, whether it could be stored or not."""

    def __init__(self, flights: SingleFlight, boundary: Boundary) -> None:
        self._boundary = boundary
        self.waiting = 0  # followers that wait now, of all flights
        self._flights = flights
        self._landed: OrderedDict[str, tuple[float, Answer]] = OrderedDict()
        self.landed_bytes = 0  # of the answers that are remembered

    def key_of(self, lookup: Lookup) -> str:
        """Return the key to share under, '' when this lookup's upstream call is its own.

        The generation is part of it: who asks after a purge must not get what was asked before.
        """
        request = lookup.request
        own = lookup.outcome is not Outcome.MISS or not lookup.key
        if own or request.refresh or request.no_store or lookup.held_out:
            return ""
        return f"{lookup.key}:{lookup.space.generations.write}"

    async def join(self, lookup: Lookup, key: str) -> Lead | Answer:
        """Return the lead that this lookup now has, or the answer of the one it followed."""
        while key:
            landed = self._landed.get(key)
            if landed is not None and lookup.started_mono <= landed[0] <= lookup.started_mono + LANDED_S:
                return landed[1]
            flight = self._flights.join(key)
            if flight.leader:
                return await self._lead(Lead(self, key, flight, lookup), lookup, key)
            self.waiting += 1
            started = time.perf_counter()
            try:
                answer = await flight.result()
            finally:
                self.waiting -= 1
                lookup.step("wait", started)
            if isinstance(answer, Answer):
                return answer
            if answer is _ALONE:
                return Lead(self, "", None, lookup, in_a_herd=True)
        return Lead(self, "", None, lookup)

    async def _lead(self, lead: Lead, lookup: Lookup, key: str) -> Lead | Answer:
        """Return the lead, once no other gateway works on the same, or what another made of it."""
        if not lookup.storable:
            return lead  # nothing of it will be in the store; and where the store just failed, it is not waited for again
        try:
            started = time.perf_counter()
            answer = await self._boundary.made_elsewhere(key, lookup)
            if answer is None:
                return lead
            lookup.step("wait", started)
            lead.land(answer)
        except BaseException:
            lead.release()
            raise
        return answer

    async def share(self, lookup: Lookup, fetch: Callable[[Lead], Awaitable[Answer]]) -> tuple[Answer, bool]:
        """Return the answer, and whether it is another's: fetched here, or by the flight's leader."""
        lead = await self.join(lookup, self.key_of(lookup))
        if isinstance(lead, Answer):
            return lead, True
        try:
            answer = await fetch(lead)
            lead.land(answer)
        finally:
            lead.release()
        return answer, False

    def gave_up(self, key: str) -> None:
        """Let another gateway take over."""
        self._boundary.ended(key, done=None)

    def landed(self, key: str, answer: Answer | None, *, done: bool) -> None:
        """Remember the answer for those who missed before it was stored, None = it is nobody else's. done: it is stored."""
        self._boundary.ended(key, done=done)
        now = time.perf_counter()
        self._forget(key)
        if answer is None:
            return
        self._landed[key] = (now, answer)
        self.landed_bytes += _size(answer)
        while self._landed:
            oldest, (at, _) = next(iter(self._landed.items()))
            if len(self._landed) <= MAX_LANDED and self.landed_bytes <= MAX_LANDED_BYTES and now - at <= LANDED_S:
                break
            self._forget(oldest)

    def _forget(self, key: str) -> None:
        gone = self._landed.pop(key, None)
        if gone is not None:
            self.landed_bytes -= _size(gone[1])


def _may_be_shared(answer: Answer) -> bool:
    return not (answer.error_type or answer.store_reason or unfit(answer.body, answer.finish_reasons))


def _size(answer: Answer) -> int:
    """Return about what an answer occupies: a parsed body is some five times its text."""
    return len(answer.body) * (1 if answer.parsed is None else 6)

"""A breaker for what the engine depends on: it stops asking what fails, and finds out by few, jittered probes when it is back.

One a dependency and operation: a store that is read-only still serves reads. Only the calls themselves count; what the cache
answers without its dependency says nothing about it.
"""

from __future__ import annotations

import math
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeVar

T = TypeVar("T")
Failures = type[Exception] | tuple[type[Exception], ...]

# One-sided 95 %: the share of failures must be above the ratio beyond the chance of a small sample.
_Z = 1.645


class State(StrEnum):
    CLOSED = "closed"  # calls go through
    OPEN = "open"  # calls are refused
    HALF_OPEN = "half_open"  # one call at a time goes through, to learn whether it is back


@dataclass(frozen=True, slots=True)
class BreakerSettings:
    """window_s: seconds of calls that are judged. min_volume: calls below which none is. failure_ratio: share of failures, 0..1,
    that the Wilson lower bound must exceed. A run of `min_volume` failures opens it as well, however many calls went well before.
    first_pause_s: seconds until the first probe, doubled with each failure of one up to longest_pause_s, each time jittered by half.
    close_after: probes in a row that must go well.
    """

    window_s: float = 10.0
    min_volume: int = 3
    failure_ratio: float = 0.5
    first_pause_s: float = 0.25
    longest_pause_s: float = 5.0
    close_after: int = 2


def wilson_lower(failures: int, calls: int) -> float:
    """Return the lower bound of a share at one-sided 95 %; 0 for no calls. Source: Wilson, JASA 22, 1927."""
    if not calls:
        return 0.0
    share, z2 = failures / calls, _Z * _Z
    middle = share + z2 / (2 * calls)
    spread = _Z * math.sqrt(share * (1 - share) / calls + z2 / (4 * calls * calls))
    return (middle - spread) / (1 + z2 / calls)


class Breaker:
    """changed: called with the new state. denied: called for each call that is refused. clock: monotonic seconds.

    refused, opened: how often, since the start.
    """

    def __init__(
        self,
        settings: BreakerSettings = BreakerSettings(),
        *,
        changed: Callable[[State], None] | None = None,
        denied: Callable[[], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
    ) -> None:
        self.state = State.CLOSED
        self.refused = self.opened = 0
        self._settings = settings
        self._changed = changed
        self._denied = denied
        self._clock = clock
        self._rng = rng or random.Random()  # noqa: S311 - jitter, no secrets
        self._window: deque[list[int]] = deque()  # [second, calls, failures]
        self._run = 0  # failures since the last success
        self._pause_s = settings.first_pause_s
        self._next_probe = self._closed_at = 0.0
        self._probing = False
        self._good_probes = 0

    def allow(self) -> bool:
        """Return whether a call may be made. After True exactly one of `succeeded`, `failed` and `dropped` must follow."""
        if self.state is State.CLOSED or self.judges():
            return True
        self._refuse()
        return False

    def _refuse(self) -> None:
        self.refused += 1
        if self._denied is not None:
            self._denied()

    def judges(self) -> bool:
        """Return whether how the next call ends should be told, as after `allow`; for a dependency that is always asked."""
        if self.state is State.CLOSED:
            return True
        if self.state is State.OPEN and self._clock() >= self._next_probe:
            self._good_probes = 0
            self._become(State.HALF_OPEN)
        if self.state is State.HALF_OPEN and not self._probing:
            self._probing = True
            return True
        return False

    def succeeded(self) -> None:
        if self.state is State.CLOSED:
            self._run = 0
            self._bucket()[1] += 1
        elif self._probing:
            # A call from before the opening that ends well may pass for the probe: it is as good a sign.
            self._probing = False
            self._good_probes += 1
            if self._good_probes >= self._settings.close_after:
                self._window.clear()
                self._run = 0
                self._closed_at = self._clock()
                self._become(State.CLOSED)

    def failed(self) -> None:
        if self.state is State.CLOSED:
            self._run += 1
            bucket = self._bucket()
            bucket[1] += 1
            bucket[2] += 1
            if self._is_due():
                # One that fails again soon after it closed flaps: its pauses go on growing.
                if self._clock() - self._closed_at > self._settings.window_s:
                    self._pause_s = self._settings.first_pause_s
                self._open()
        elif self._probing:
            self._probing = False
            self._open()

    def dropped(self) -> None:
        """Note that a call ended without telling anything: its caller went away."""
        self._probing = False

    async def call(self, run: Callable[[], Awaitable[T]], *, refusal: Exception, failures: Failures, slow_s: float) -> T:
        """Return what `run` returns. Raises `refusal` when it may not be made. An answer after slow_s counts as a failure.

        refusal: made for this call alone, for an exception keeps the frames that it was raised through, and what they hold.
        """
        if not self.allow():
            raise refusal
        started = self._clock()
        try:
            answer = await run()
        except failures:
            self.failed()
            raise
        except BaseException:
            self.dropped()
            raise
        if self._clock() - started > slow_s:
            self.failed()
        else:
            self.succeeded()
        return answer

    async def call_aside(self, run: Callable[[], Awaitable[T]], *, refusal: Exception, failures: Failures, slow_s: float) -> T:
        """As `call`, for one whose failure tells and whose success proves nothing: it is no probe, and is made while closed only."""
        if self.state is not State.CLOSED:
            self._refuse()
            raise refusal
        started = self._clock()
        try:
            answer = await run()
        except failures:
            self.failed()
            raise
        if self._clock() - started > slow_s:
            self.failed()
        return answer

    def _is_due(self) -> bool:
        if self._run >= self._settings.min_volume:
            return True
        calls, failures = (sum(bucket[at] for bucket in self._window) for at in (1, 2))
        return calls >= self._settings.min_volume and wilson_lower(failures, calls) > self._settings.failure_ratio

    def _bucket(self) -> list[int]:
        second = int(self._clock())
        window = self._window
        if not window or window[-1][0] != second:
            window.append([second, 0, 0])
            while window[0][0] <= second - self._settings.window_s:
                window.popleft()
        return window[-1]

    def _open(self) -> None:
        self.opened += 1
        self._next_probe = self._clock() + self._pause_s * self._rng.uniform(0.5, 1.5)
        self._pause_s = min(self._pause_s * 2, self._settings.longest_pause_s)
        self._become(State.OPEN)

    def _become(self, state: State) -> None:
        if state is not self.state:
            self.state = state
            if self._changed is not None:
                self._changed(state)


class Shown(Protocol):
    """What is shown of a breaker, or of several as one."""

    @property
    def state(self) -> State: ...
    @property
    def opened(self) -> int: ...
    @property
    def refused(self) -> int: ...


class Breakers:
    """The breakers of one gateway, beside those of the upstream's models.

    changed: called with (dependency, operation, new state); denied: with (dependency, operation).
    """

    def __init__(
        self, *, changed: Callable[[str, str, State], None] | None = None, denied: Callable[[str, str], None] | None = None
    ) -> None:
        self._changed = changed
        self._denied = denied
        self.store_read = self.made("store", "read")
        self.store_write = self.made("store", "write")
        self.embedder = self.made("embedder", "embed")
        self.judge = self.made("judge", "ask")

    def made(self, dependency: str, operation: str) -> Breaker:
        """Return a new breaker that is counted under these two names."""
        changed, denied = self._changed, self._denied
        return Breaker(
            changed=(lambda state: changed(dependency, operation, state)) if changed else None,
            denied=(lambda: denied(dependency, operation)) if denied else None,
        )

    def named(self) -> dict[tuple[str, str], Shown]:
        """Return those that are here by (dependency, operation)."""
        return {
            ("store", "read"): self.store_read,
            ("store", "write"): self.store_write,
            ("embedder", "embed"): self.embedder,
            ("judge", "ask"): self.judge,
        }

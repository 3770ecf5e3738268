"""What is known of each model at the upstream: how its calls end, and how many go at a time.

An upstream fails by model: one that does must not hold back the calls of the others.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from engine.breaker import Breaker, State
from engine.gateway.throttle import LEAST, WAIT_S, Throttle

MOST = 64  # models: clients choose their names
_NAME_CHARS = 200
_WORST_LAST = (State.CLOSED, State.HALF_OPEN, State.OPEN)


@dataclass(frozen=True, slots=True)
class Lane:
    """One model: its breaker, and the bound on its calls."""

    breaker: Breaker
    throttle: Throttle

    @property
    def failing(self) -> bool:
        return self.breaker.state is not State.CLOSED


class Lanes:
    """The models that were asked of late, '' = what is passed through.

    made: makes a breaker. hits_stopped: whether what hits kept away falls on the upstream. waited: as the throttle's.
    most: of lanes. A new model takes the place of the one asked longest ago that is idle and does not fail; what was known of
    that one is lost, which costs three failures to learn again.
    """

    def __init__(
        self,
        made: Callable[[], Breaker],
        *,
        hits_stopped: Callable[[], bool],
        waited: Callable[[bool], None],
        most: int = MOST,
        least: int = LEAST,
        wait_s: float = WAIT_S,
    ) -> None:
        self._made = made
        self._hits_stopped = hits_stopped
        self._waited = waited
        self._most = most
        self._least = least
        self._wait_s = wait_s
        self._lanes: OrderedDict[str, Lane] = OrderedDict()
        self._all = self._bound(hits_stopped)
        self._opened_before = 0  # breakers of models that are forgotten

    def __len__(self) -> int:
        return len(self._lanes)

    def of(self, model: str) -> Lane:
        """Return the lane of a model, made when there is none."""
        name = model[:_NAME_CHARS]
        lane = self._lanes.get(name)
        if lane is not None:
            self._lanes.move_to_end(name)
            return lane
        if len(self._lanes) >= self._most:
            self._forget_one()
        breaker = self._made()
        # While hits have stopped its calls are no measure of what is usual.
        throttle = self._bound(lambda: breaker.state is not State.CLOSED or self._hits_stopped())
        lane = self._lanes[name] = Lane(breaker, throttle)
        return lane

    def _bound(self, engaged: Callable[[], bool]) -> Throttle:
        return Throttle(engaged, waited=self._waited, least=self._least, wait_s=self._wait_s)

    def _forget_one(self) -> None:
        idle = (name for name, lane in self._lanes.items() if not (lane.failing or lane.throttle.in_flight))
        gone = self._lanes.pop(next(idle, next(iter(self._lanes))))
        self._opened_before += gone.breaker.opened

    @asynccontextmanager
    async def place(self, model: str, *, in_a_herd: bool = False) -> AsyncIterator[None]:
        """Hold a place for one call. It waits once at most: for its own model while that fails, or for all while hits have stopped.

        in_a_herd: it is one of many that were let go at this moment.
        """
        lane, stopped = self.of(model), self._hits_stopped()
        own = lane.failing or (in_a_herd and not stopped)
        async with lane.throttle.place(in_a_herd=in_a_herd, at_once=not own) as waited:
            if lane.failing:  # its own bound is the tighter one; among the others' calls it would take their places
                yield
                return
            async with self._all.place(in_a_herd=in_a_herd and stopped, at_once=waited):
                yield

    def may_answer(self, model: str) -> bool:
        """Return whether nothing is known against a call to this model."""
        lane = self._lanes.get(model[:_NAME_CHARS])
        return lane is None or not lane.failing

    @property
    def failing(self) -> dict[str, Lane]:
        """The models whose breaker is not closed."""
        return {name: lane for name, lane in self._lanes.items() if lane.failing}

    # As one breaker: what is shown beside those of the other dependencies, where no client's word may be a label

    @property
    def state(self) -> State:
        """The worst of all models."""
        return max((lane.breaker.state for lane in self._lanes.values()), key=_WORST_LAST.index, default=State.CLOSED)

    @property
    def opened(self) -> int:
        return self._opened_before + sum(lane.breaker.opened for lane in self._lanes.values())

    @property
    def refused(self) -> int:
        """None: the upstream is always asked."""
        return 0

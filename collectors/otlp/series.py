"""Which series senders of metrics had of late: a bound on how many there may be."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from storage.rows import SampleRow, SourceKey

_FORGET_S: Final = 86_400  # a sender may have other series after each restart: those not seen for so long make room for them


class SeenSeries:
    """At most `most` series of the last day; safe to ask from several threads. clock: seconds that only grow."""

    def __init__(self, most: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._seen: OrderedDict[int, float] = OrderedDict()  # when each was seen last, the longest ago first
        self._lock = threading.Lock()

    def has_room(self, source: SourceKey, first: SampleRow) -> bool:
        """Return whether a point's series is known, or can be remembered; first: the first of the point's samples."""
        series, now_s = hash((source, first.name, first.labels)), self._clock()
        with self._lock:
            while self._seen and next(iter(self._seen.values())) < now_s - _FORGET_S:
                self._seen.popitem(last=False)
            if series not in self._seen and len(self._seen) >= self._most:
                return False
            self._seen[series] = now_s
            self._seen.move_to_end(series)
            return True

    def __len__(self) -> int:
        return len(self._seen)

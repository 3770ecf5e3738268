"""Bodies of requests that came of late: the same bytes are read, checked and brought into canonical form once."""

from __future__ import annotations

from collections import OrderedDict

from engine.gateway.inbound import json_object
from engine.gateway.rawjson import oddity
from engine.lookup import Known

# Beside its bytes a body occupies some ten times as much at most, with four tenants that ask it: 30 MB when all is full.
MAX_BODIES = 1_024
MAX_BYTES = 2 * 1024 * 1024
# A longer one takes longer to read than anything that is saved, and would drive out many.
MAX_BODY_BYTES = 64 * 1024


class Recent:
    """At most MAX_BODIES of MAX_BYTES together; what was not asked for longest leaves first."""

    def __init__(self, *, max_bodies: int = MAX_BODIES, max_bytes: int = MAX_BYTES) -> None:
        self.bytes = 0
        self._max_bodies = max_bodies
        self._max_bytes = max_bytes
        self._known: OrderedDict[bytes, Known] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def read(self, raw: bytes) -> Known:
        """Return the body and what is known of it. Raises InvalidRequest as `json_object` does; such a body is not kept."""
        known = self._known.get(raw)
        if known is not None:
            self._known.move_to_end(raw)
            return known
        body = json_object(raw)
        known = Known(body, oddity(raw, body))
        if len(raw) <= MAX_BODY_BYTES:
            self._known[raw] = known
            self.bytes += len(raw)
            while len(self._known) > self._max_bodies or self.bytes > self._max_bytes:
                oldest, _ = self._known.popitem(last=False)
                self.bytes -= len(oldest)
        return known

"""Where a store's two counters start and how they go on, so that a lost store is never mistaken for the one it replaced."""

from __future__ import annotations

import secrets
import time


def seq_start() -> int:
    """Return where a new store's sequence begins: seconds * 2^21.

    A store made anew after a loss so counts from above anything the lost one can have used (at up to two million puts a second),
    and readers' cursors stay valid. Below 2^53 until the year 2106: Redis keeps it in a double.
    """
    return int(time.time()) << 21


def token_start() -> int:
    """Return a new control token's random start: a store made anew never shows a token that was seen before."""
    return secrets.randbelow(2**48) + 1


def token_step() -> int:
    """Return a random step > 0. Random, so that a store set back to a backup cannot reach a token that was seen before."""
    return secrets.randbelow(2**24) + 1

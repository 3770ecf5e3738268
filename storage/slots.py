"""Where a key or a lookup lies among all of its kind, by a hash: a sample takes those at some places, always the same ones."""

from __future__ import annotations

import zlib
from typing import Final

SLOTS: Final = 1 << 16
PICKS: Final = 1 << 20  # one lookup in 130,000 is read of the widest window: 8 places of these are then in the sample
_MASK: Final = 0xFFFFFFFF


def slot(key: str) -> int:
    """Return a key's place, 0…65,535. Even whatever keys look like: numbers, names, or a hash in hexadecimal."""
    return _mixed(key.encode(errors="surrogatepass")) >> 16


def pick(trace_id: bytes, span_id: bytes) -> int:
    """Return a lookup's place, 0…1,048,575: of its ids alone, whoever brought it and when. Even where ids are numbers in a row."""
    return _mixed(trace_id + span_id) >> 12


def _mixed(data: bytes) -> int:
    mixed = zlib.crc32(data)  # alone it is linear: data that differ in a few digits fall unevenly
    mixed = (mixed ^ mixed >> 16) * 0x85EBCA6B & _MASK
    return (mixed ^ mixed >> 13) * 0xC2B2AE35 & _MASK

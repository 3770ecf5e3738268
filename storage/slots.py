"""Where a key lies among all keys, by its hash: a sample takes those below a limit, always the same ones."""

from __future__ import annotations

import zlib
from typing import Final

SLOTS: Final = 1 << 16
_MASK: Final = 0xFFFFFFFF


def slot(key: str) -> int:
    """Return a key's place, 0…65,535. Even whatever keys look like: numbers, names, or a hash in hexadecimal."""
    mixed = zlib.crc32(key.encode(errors="surrogatepass"))  # alone it is linear: keys that differ in a few digits fall unevenly
    mixed = (mixed ^ mixed >> 16) * 0x85EBCA6B & _MASK
    mixed = (mixed ^ mixed >> 13) * 0xC2B2AE35 & _MASK
    return mixed >> 16

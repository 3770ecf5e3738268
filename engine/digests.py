"""HMAC-SHA-256 for short texts under keys that come back."""

from __future__ import annotations

import hashlib
from functools import lru_cache

_BLOCK = 64


def hmac_sha256(key: bytes, message: bytes) -> bytes:
    """Return the HMAC (RFC 2104), 32 bytes. The key's part is kept: half of what `hmac.digest` takes for a short message."""
    inner, outer = _begun(key)
    first = inner.copy()
    first.update(message)
    second = outer.copy()
    second.update(first.digest())
    return second.digest()


@lru_cache(maxsize=2_048)
def _begun(key: bytes) -> tuple[hashlib._Hash, hashlib._Hash]:
    block = (key if len(key) <= _BLOCK else hashlib.sha256(key).digest()).ljust(_BLOCK, b"\0")
    return hashlib.sha256(bytes(byte ^ 0x36 for byte in block)), hashlib.sha256(bytes(byte ^ 0x5C for byte in block))

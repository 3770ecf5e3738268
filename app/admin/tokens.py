"""Preview tokens: the server's own word on what was shown, signed, so that an act does what its preview said or nothing.

A token binds the kind of act, the namespace, what was counted and the actor, and expires. It holds no prompts.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any

from app.errors import Refused

LIFETIME_MS = 10 * 60 * 1000  # long enough to read a preview and ask a colleague, short enough that its numbers still hold
_LABEL = b"cachescope preview token v1"  # the same secret signs other things; the label keeps them apart
_MAC_BYTES = 32


def sign(secret: bytes, claims: Mapping[str, Any], *, now_ms: int) -> str:
    """Return a token of these claims that expires LIFETIME_MS from now."""
    body = json.dumps({**claims, "expires_ms": now_ms + LIFETIME_MS}, sort_keys=True, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(_mac(secret, body) + body).decode().rstrip("=")


def verify(secret: bytes, token: str, *, kind: str, actor: str, now_ms: int) -> dict[str, Any]:
    """Return the claims of a token that is ours, of this kind and actor, and not expired. Raises Refused."""
    try:
        raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise Refused("the preview token cannot be read; preview again. Nothing was changed") from error
    mac, body = raw[:_MAC_BYTES], raw[_MAC_BYTES:]
    if not hmac.compare_digest(mac, _mac(secret, body)):
        raise Refused("the preview token is not one that this installation gave; preview again. Nothing was changed")
    claims: dict[str, Any] = json.loads(body)
    if claims["kind"] != kind:
        raise Refused(f"the preview is of another kind of act ({claims['kind']}); preview again. Nothing was changed")
    if claims["actor"] != actor:
        raise Refused(f"the preview was made by {claims['actor']}, not by {actor}; preview again. Nothing was changed")
    if claims["expires_ms"] <= now_ms:
        raise Refused("the preview is older than 10 minutes; preview again. Nothing was changed")
    return claims


def _mac(secret: bytes, body: bytes) -> bytes:
    return hmac.new(secret, _LABEL + b"\0" + body, hashlib.sha256).digest()

"""Preview tokens: ours, of this act and actor, unaltered and fresh, or refused."""

from __future__ import annotations

import base64

import pytest

from app.admin import tokens
from app.errors import Refused

SECRET, NOW = b"s" * 32, 1_700_000_000_000
CLAIMS = {"kind": "purge", "actor": "ann", "namespace": "faq 常见", "live": ["g1"]}


def _verify(token: str, *, secret: bytes = SECRET, kind: str = "purge", actor: str = "ann", now_ms: int = NOW) -> dict[str, object]:
    return tokens.verify(secret, token, kind=kind, actor=actor, now_ms=now_ms)


def test_claims_come_back() -> None:
    token = tokens.sign(SECRET, CLAIMS, now_ms=NOW)
    assert _verify(token).items() >= CLAIMS.items()


def test_any_altered_byte_is_refused() -> None:
    token = tokens.sign(SECRET, CLAIMS, now_ms=NOW)
    raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    for position in range(len(raw)):
        altered = bytes([*raw[:position], raw[position] ^ 1, *raw[position + 1 :]])
        with pytest.raises(Refused):
            _verify(base64.urlsafe_b64encode(altered).decode().rstrip("="))


@pytest.mark.parametrize("token", ["", "x", "é", "====", "A" * 60, "not a token at all"])
def test_what_is_no_token_is_refused(token: str) -> None:
    with pytest.raises(Refused):
        _verify(token)


def test_expired_foreign_and_misused_tokens_are_refused() -> None:
    token = tokens.sign(SECRET, CLAIMS, now_ms=NOW)
    _verify(token, now_ms=NOW + tokens.LIFETIME_MS - 1)
    for changes in (
        {"now_ms": NOW + tokens.LIFETIME_MS},
        {"secret": b"t" * 32},
        {"kind": "warmup"},
        {"actor": "bob"},
    ):
        with pytest.raises(Refused, match="Nothing was changed"):
            _verify(token, **changes)  # type: ignore[arg-type]

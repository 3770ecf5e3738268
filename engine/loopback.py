"""Servers on this machine are spoken to directly, whatever proxy the environment names."""

from __future__ import annotations


def direct() -> dict[str, None]:
    """Return the mounts of an httpx client that asks no proxy for a server on the loopback."""
    return dict.fromkeys(("all://127.0.0.1", "all://localhost", "all://[::1]"))

"""Addresses: `host:port` binds and http URLs, checked and turned into each other."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit


def web_url(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("expected an http:// or https:// URL")
    return value


def split_bind(bind: str) -> tuple[str, int]:
    """Return (host, port) of `host:port` or `[ipv6]:port`. Raises ValueError."""
    host, colon, port = bind.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or not host or not port.isascii() or not port.isdigit() or not 1 <= int(port) <= 65535:
        raise ValueError("expected host:port with a port from 1 to 65535, such as 127.0.0.1:8080")
    if ":" in host and not bracketed:
        raise ValueError("an IPv6 address stands in brackets, such as [::1]:8080")
    return (host[1:-1] if bracketed else host), int(port)


def is_loopback(bind: str) -> bool:
    host, _ = split_bind(bind)
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def reachable_url(bind: str) -> str:
    """Return the http URL at which a service bound here is reached from this machine."""
    host, port = split_bind(bind)
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

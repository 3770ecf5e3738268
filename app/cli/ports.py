"""The ports that are listened on, looked at before anything starts."""

from __future__ import annotations

import errno
import socket
from typing import NamedTuple

from app.config import PREFIX, split_bind
from app.errors import CannotStart


class Port(NamedTuple):
    setting: str
    bind: str


def require_free(port: Port) -> None:
    """Raise CannotStart when the port cannot be listened on."""
    host, number = split_bind(port.bind)
    try:
        found = socket.getaddrinfo(host, number, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        with socket.socket(found[0], found[1]) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(found[4])
    except OSError as error:
        variable = f"{PREFIX}{port.setting.upper()}"
        if error.errno == errno.EADDRINUSE:
            raise CannotStart(f"port {number} is taken: stop what listens there, or set {variable} (now {port.bind})") from error
        raise CannotStart(f"cannot listen on {port.bind}: {error.strerror or error}; set {variable}") from error

"""Which way the adapter takes: silence leads to the store, any answer is an answer."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from app.adapters.base import Via
from app.adapters.native import NativeAdapter
from app.adapters.store import SharedStore
from app.errors import AppError, EngineConflict, EngineRefused, EngineUnavailable
from app.wiring import now_ms
from engine.types import Policy

_TLS = Path(__file__).parents[2] / "collectors" / "tls"


def _adapter(url: str, folder: Path) -> NativeAdapter:
    store = SharedStore(f"sqlite:///{folder / 'cache.db'}", clock=now_ms, defaults=Policy(ttl_s=5.0))
    return NativeAdapter(url, "token", store=store)


@contextlib.contextmanager
def _answering(status: int, body: bytes, *, tls: bool = False) -> Iterator[str]:
    """A server that answers everything the same. tls: with a certificate that nobody trusts, and its scheme in capitals."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815 - the base class's naming

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(_TLS / "cert.pem", _TLS / "key.pem")
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"{'HTTPS' if tls else 'http'}://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def _fault(code: str, message: str = "no") -> bytes:
    return json.dumps({"error": {"code": code, "message": message}}).encode()


@pytest.mark.parametrize(
    ("status", "body", "error", "said"),
    [
        (200, b"<html>another program</html>", EngineRefused, "not a gateway"),
        (200, b"[]", EngineRefused, "not a gateway"),
        (404, b'{"detail": "Not Found"}', EngineRefused, "not a gateway"),
        (401, _fault("invalid_admin_token"), EngineRefused, "--demo"),
        (400, _fault("invalid_request", "namespace is missing"), EngineRefused, "namespace is missing"),
        (409, _fault("conflict", "at version 2"), EngineConflict, "at version 2"),
        (503, _fault("tier_unavailable", "the store is gone"), EngineUnavailable, "the store is gone"),
    ],
)
def test_an_answer_is_an_answer_and_the_store_is_left_alone(
    tmp_path: Path, status: int, body: bytes, error: type[AppError], said: str
) -> None:
    with _answering(status, body) as url, contextlib.closing(_adapter(url, tmp_path)) as adapter:
        for call in (adapter.namespaces, lambda: adapter.purge("faq", "operation-1")):
            with pytest.raises(error, match=said):
                call()
    assert not (tmp_path / "cache.db").exists()


def test_a_gateway_whose_certificate_nobody_trusts_gets_no_token(tmp_path: Path) -> None:
    with _answering(401, _fault("invalid_admin_token"), tls=True) as url, contextlib.closing(_adapter(url, tmp_path)) as adapter:
        assert adapter.state().via is Via.STORE


@contextlib.contextmanager
def _refusing() -> Iterator[str]:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        yield f"http://127.0.0.1:{unused.getsockname()[1]}"


@contextlib.contextmanager
def _hanging_up() -> Iterator[str]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    connection.close()

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize("silence", [_refusing, _hanging_up])
def test_silence_leads_to_the_store(tmp_path: Path, silence: Callable[[], contextlib.AbstractContextManager[str]]) -> None:
    with silence() as url, contextlib.closing(_adapter(url, tmp_path)) as adapter:
        assert adapter.state().via is Via.STORE
        assert adapter.gateways() == []
        assert adapter.set_policy("faq", {"threshold": 0.9}, 0, "operation-1").version == 1
        (found,) = adapter.namespaces()
        assert (found.name, found.policy.threshold, found.policy.ttl_s, found.via) == ("faq", 0.9, 5.0, Via.STORE)
        purged = adapter.purge("faq", "operation-2")
        assert (adapter.purge("faq", "operation-2").new, purged.via) == (purged.new, Via.STORE)
        with pytest.raises(EngineConflict):
            adapter.set_policy("faq", {"threshold": 0.1}, 0, "operation-3")
        with pytest.raises(EngineRefused):
            adapter.undo("unknown", "operation-4")


def test_own_change_whose_answer_was_lost_is_no_conflict(tmp_path: Path) -> None:
    with _refusing() as url, contextlib.closing(_adapter(url, tmp_path)) as adapter:
        first = adapter.set_policy("faq", {"threshold": 0.9}, 0, "operation-1")
        assert adapter.set_policy("faq", {"threshold": 0.9}, 0, "operation-1") == first

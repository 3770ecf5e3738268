"""OTLP over gRPC. Messages are taken as bytes and decoded by the same code as HTTP's.

Calls are served as streams of one message: only so can a call be judged before its message is in memory. On the wire the two are one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
from grpc import aio

from collectors.errors import BindFailed, CollectorError, Overloaded, SlowSender, Undecodable
from collectors.otlp.decode import PROTOBUF
from collectors.otlp.intake import Intake
from collectors.otlp.status import answer_of, encoded, retry_info, status_message
from collectors.pipeline import Lease
from collectors.settings import Tls

_SERVICES = {
    "traces": "opentelemetry.proto.collector.trace.v1.TraceService",
    "metrics": "opentelemetry.proto.collector.metrics.v1.MetricsService",
    "logs": "opentelemetry.proto.collector.logs.v1.LogsService",
}
_MESSAGE_TIMEOUT_S = 30.0  # as HTTP's bodies
_MAX_READING = 64  # calls that are read or wait for it; the rest is told to come again


class GrpcReceiver:
    """The gRPC server. start() binds; stop() lets running calls end."""

    def __init__(self, intake: Intake, bind: str, *, tls: Tls | None = None) -> None:
        self._intake = intake
        self._bind = bind
        self._tls = tls
        self._reading = 0
        # How large a message is shows only when it is there. So few are read at once that the largest would fill the queue; a call
        # that waits for its turn holds what gRPC's flow control lets in, some tens of KiB.
        self._slots = asyncio.Semaphore(max(1, intake.settings.queue_bytes // intake.settings.max_body_bytes))
        self._server = aio.server(
            options=[
                ("grpc.max_receive_message_length", intake.settings.max_body_bytes),
                # Two collectors on one port would each get half of the calls: refuse instead.
                ("grpc.so_reuseport", 0),
                # What a sender says beside its message; more than this is refused by gRPC itself.
                ("grpc.max_metadata_size", 16 * 1024),
                ("grpc.absolute_max_metadata_size", 64 * 1024),
            ]
        )
        self._server.add_generic_rpc_handlers(tuple(self._handler(signal, name) for signal, name in _SERVICES.items()))
        self.up = False
        self.port = 0

    async def start(self) -> None:
        """Bind and serve. Raises BindFailed."""
        try:
            if self._tls:
                pair = (self._tls.key.read_bytes(), self._tls.certificate.read_bytes())
                self.port = self._server.add_secure_port(self._bind, grpc.ssl_server_credentials([pair]))
            else:
                self.port = self._server.add_insecure_port(self._bind)
        except RuntimeError as error:
            raise BindFailed(f"cannot listen on {self._bind} for OTLP/gRPC: taken by another process, or not ours") from error
        await self._server.start()
        self.up = True

    async def stop(self, grace_s: float) -> None:
        self.up = False
        await self._server.stop(grace_s)

    def _handler(self, signal: str, service: str) -> grpc.GenericRpcHandler:
        async def export(_messages: object, context: aio.ServicerContext[bytes, bytes]) -> bytes:
            intake = self._intake
            try:
                intake.authorise(_authorization(context))
                lease = intake.lease()
                body = await self._message(context, lease)
                message = await intake.export(signal, body, PROTOBUF, lease=lease, protocol="grpc")
            except CollectorError as error:
                intake.failed("grpc", signal, error)
                await _abort(context, error)
            intake.answered("grpc", signal)
            return encoded(message, PROTOBUF)

        # No deserializer: the bytes themselves are asked for.
        method = grpc.stream_unary_rpc_method_handler(export)
        return grpc.method_handlers_generic_handler(service, {"Export": method})

    async def _message(self, context: Any, lease: Lease) -> bytes:
        """Return the call's message; its bytes are on the lease. Raises Overloaded before it is read, SlowSender, Undecodable."""
        self._intake.check_room()
        if self._reading >= _MAX_READING:
            raise Overloaded(f"more than {_MAX_READING} messages are on their way; send again later")
        self._reading += 1
        try:
            async with self._slot():
                try:
                    async with asyncio.timeout(_MESSAGE_TIMEOUT_S):
                        body = await context.read()
                except TimeoutError as error:
                    raise SlowSender(f"the message did not come within {_MESSAGE_TIMEOUT_S:.0f} s") from error
                if not isinstance(body, bytes):  # grpc.aio.EOF
                    raise Undecodable("the call ended without a message; send one Export…ServiceRequest")
                lease.grow(len(body))
                return body
        finally:
            self._reading -= 1

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        """Wait for a turn to read. Raises Overloaded."""
        try:
            async with asyncio.timeout(_MESSAGE_TIMEOUT_S):
                await self._slots.acquire()
        except TimeoutError as error:
            raise Overloaded("other messages are still on their way; send again later") from error
        try:
            yield
        finally:
            self._slots.release()


def _authorization(context: Any) -> str:
    for key, value in context.invocation_metadata() or ():
        if key == "authorization":
            return value if isinstance(value, str) else value.decode("utf-8", "replace")
    return ""


async def _abort(context: Any, error: CollectorError) -> None:
    answer = answer_of(error)
    status = status_message(answer, str(error))
    trailers = [("grpc-status-details-bin", status.SerializeToString())]
    if answer.retry:  # where Python's exporter looks for it
        trailers.append(("google.rpc.retryinfo-bin", retry_info().SerializeToString()))
    await context.abort(answer.code, str(error), trailing_metadata=tuple(trailers))

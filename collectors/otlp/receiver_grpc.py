"""OTLP over gRPC. Messages are taken as bytes and decoded by the same code as HTTP's."""

from __future__ import annotations

from typing import Any

import grpc
from grpc import aio

from collectors.errors import BindFailed, CollectorError
from collectors.otlp.decode import PROTOBUF
from collectors.otlp.intake import Intake
from collectors.otlp.status import answer_of, encoded, status_message

_SERVICES = {
    "traces": "opentelemetry.proto.collector.trace.v1.TraceService",
    "metrics": "opentelemetry.proto.collector.metrics.v1.MetricsService",
    "logs": "opentelemetry.proto.collector.logs.v1.LogsService",
}


class GrpcReceiver:
    """The gRPC server. start() binds; stop() lets running calls end."""

    def __init__(self, intake: Intake, bind: str) -> None:
        self._intake = intake
        self._bind = bind
        self._server = aio.server(
            options=[
                ("grpc.max_receive_message_length", intake.settings.max_body_bytes),
                # Two collectors on one port would each get half of the calls: refuse instead.
                ("grpc.so_reuseport", 0),
            ]
        )
        self._server.add_generic_rpc_handlers(tuple(self._handler(signal, name) for signal, name in _SERVICES.items()))
        self.up = False
        self.port = 0

    async def start(self) -> None:
        """Bind and serve. Raises BindFailed."""
        try:
            self.port = self._server.add_insecure_port(self._bind)
        except RuntimeError as error:
            raise BindFailed(f"cannot listen on {self._bind} for OTLP/gRPC: taken by another process, or not ours") from error
        await self._server.start()
        self.up = True

    async def stop(self, grace_s: float) -> None:
        self.up = False
        await self._server.stop(grace_s)

    def _handler(self, signal: str, service: str) -> grpc.GenericRpcHandler:
        async def export(body: bytes, context: aio.ServicerContext[bytes, bytes]) -> bytes:
            intake = self._intake
            try:
                intake.authorise(_authorization(context))
                lease = intake.lease()
                lease.grow(len(body))
                message = await intake.export(signal, body, PROTOBUF, lease=lease, protocol="grpc")
            except CollectorError as error:
                intake.failed("grpc", signal, error)
                await _abort(context, error)
            intake.answered("grpc", signal)
            return encoded(message, PROTOBUF)

        # No deserializer: the bytes themselves are asked for.
        method = grpc.unary_unary_rpc_method_handler(export)
        return grpc.method_handlers_generic_handler(service, {"Export": method})


def _authorization(context: Any) -> str:
    for key, value in context.invocation_metadata() or ():
        if key == "authorization":
            return value if isinstance(value, str) else value.decode("utf-8", "replace")
    return ""


async def _abort(context: Any, error: CollectorError) -> None:
    answer = answer_of(error)
    status = status_message(answer, str(error))
    trailers = (("grpc-status-details-bin", status.SerializeToString()),)
    await context.abort(answer.code, str(error), trailing_metadata=trailers)

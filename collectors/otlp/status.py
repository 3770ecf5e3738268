"""What a sender is told: an error's class decides the HTTP status, the gRPC status, and whether to send again."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import grpc
import orjson
from google.protobuf import any_pb2, duration_pb2
from google.protobuf.json_format import MessageToDict
from google.rpc import error_details_pb2, status_pb2
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from collectors.errors import (
    CollectorError,
    DecodeFailed,
    Overloaded,
    SlowSender,
    StoreUnavailable,
    TooLarge,
    Unauthenticated,
    Undecodable,
    UnsupportedMedia,
    WriteFailed,
)
from collectors.otlp.decode import JSON

RETRY_AFTER_S = 2  # several group commits: long enough to drain, short enough for an exporter's own patience


@dataclass(frozen=True, slots=True)
class Answer:
    """http: the status. code: the gRPC status. retry: whether to tell the sender when to come again."""

    http: int
    code: grpc.StatusCode
    retry: bool = False

    @property
    def phrase(self) -> str:
        return HTTPStatus(self.http).phrase


_ANSWERS: dict[type[CollectorError], Answer] = {
    Undecodable: Answer(400, grpc.StatusCode.INVALID_ARGUMENT),
    Unauthenticated: Answer(401, grpc.StatusCode.UNAUTHENTICATED),
    SlowSender: Answer(408, grpc.StatusCode.ABORTED),
    # No RetryInfo: the same body would be too large again.
    TooLarge: Answer(413, grpc.StatusCode.RESOURCE_EXHAUSTED),
    UnsupportedMedia: Answer(415, grpc.StatusCode.INVALID_ARGUMENT),
    DecodeFailed: Answer(500, grpc.StatusCode.INTERNAL),
    WriteFailed: Answer(500, grpc.StatusCode.INTERNAL),
    Overloaded: Answer(503, grpc.StatusCode.UNAVAILABLE, retry=True),
    StoreUnavailable: Answer(503, grpc.StatusCode.UNAVAILABLE, retry=True),
}
INTERNAL = Answer(500, grpc.StatusCode.INTERNAL)
NO_HTTP = Answer(400, grpc.StatusCode.INVALID_ARGUMENT)
NOT_FOUND = Answer(404, grpc.StatusCode.NOT_FOUND)
WRONG_METHOD = Answer(405, grpc.StatusCode.UNIMPLEMENTED)
GONE_QUIET = Answer(408, grpc.StatusCode.ABORTED)
HEADERS_TOO_LARGE = Answer(431, grpc.StatusCode.INVALID_ARGUMENT)
TOO_MANY_CONNECTIONS = Answer(503, grpc.StatusCode.UNAVAILABLE, retry=True)

RESPONSES: dict[str, tuple[Any, str]] = {
    "traces": (ExportTraceServiceResponse, "rejected_spans"),
    "metrics": (ExportMetricsServiceResponse, "rejected_data_points"),
    "logs": (ExportLogsServiceResponse, "rejected_log_records"),
}


def answer_of(error: CollectorError) -> Answer:
    """Return what to answer to an error."""
    return _ANSWERS.get(type(error), INTERNAL)


def status_message(answer: Answer, message: str) -> Any:
    """Return the google.rpc.Status with its details."""
    status = status_pb2.Status(code=answer.code.value[0], message=message)
    if answer.retry:
        _detail(status, retry_info())
    elif answer.http == 400:
        violation = error_details_pb2.BadRequest.FieldViolation(field="body", description=message)
        _detail(status, error_details_pb2.BadRequest(field_violations=[violation]))
    return status


def retry_info() -> Any:
    """Return the google.rpc.RetryInfo of a refusal that may be sent again."""
    return error_details_pb2.RetryInfo(retry_delay=duration_pb2.Duration(seconds=RETRY_AFTER_S))


def _detail(status: Any, detail: Any) -> None:
    packed = any_pb2.Any()
    packed.Pack(detail)
    status.details.append(packed)


def export_response(signal: str, rejected: int, message: str) -> Any:
    """Return Export…ServiceResponse; partial_success is unset on full success."""
    response_type, field = RESPONSES[signal]
    response = response_type()
    if rejected or message:
        setattr(response.partial_success, field, rejected)
        response.partial_success.error_message = message
    return response


def encoded(message: Any, content_type: str) -> bytes:
    """Return a message in the encoding that the sender uses."""
    if content_type == JSON:
        return orjson.dumps(MessageToDict(message))
    data: bytes = message.SerializeToString()
    return data

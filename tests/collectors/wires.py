"""One request over each wire of OTLP, and what came back, in the same words: HTTP with protobuf, HTTP with JSON, gRPC."""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import grpc
from backports import zstd
from google.protobuf.json_format import MessageToDict, Parse
from google.rpc import error_details_pb2, status_pb2
from grpc import aio

from collectors.otlp.receiver_grpc import _SERVICES
from collectors.otlp.status import RESPONSES
from tests.collectors.support import JSON, PROTOBUF, Running

HTTP_PROTOBUF, HTTP_JSON, GRPC = WIRES = ("http-protobuf", "http-json", "grpc")
PACK: dict[str, Callable[[bytes], bytes]] = {
    "none": bytes,
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "zstd": zstd.compress,
}
_GRPC_PACK = {"none": grpc.Compression.NoCompression, "gzip": grpc.Compression.Gzip, "deflate": grpc.Compression.Deflate}
_IDS = {"traceId", "spanId", "parentSpanId"}


@dataclass(frozen=True)
class Answer:
    """http: the status, 0 over gRPC. code: the gRPC code, 0 = OK. response: of a success. status: of a refusal."""

    http: int
    code: int
    response: Any = None
    status: Any = None
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def rejected(self) -> int:
        """What partial_success says was refused; -1 when it is unset."""
        if not self.response.HasField("partial_success"):
            return -1
        return int(getattr(self.response.partial_success, _counted(self.response)))

    @property
    def message(self) -> str:
        return str(self.status.message if self.status is not None else self.response.partial_success.error_message)

    def detail(self, kind: Any) -> Any | None:
        """Return the refusal's detail of this kind, None when it has none."""
        found = kind()
        return next((found for one in self.status.details if one.Unpack(found)), None)

    @property
    def retry_s(self) -> int:
        """Seconds after which the sender is asked to come again; 0 = it is not."""
        info = self.detail(error_details_pb2.RetryInfo)
        return 0 if info is None else int(info.retry_delay.seconds)


def _counted(response: Any) -> str:
    return next(name for kind, name in RESPONSES.values() if isinstance(response, kind))


def as_json(message: Any, *, upper: bool = False) -> dict[str, Any]:
    """The message as OTLP/JSON: ids in hex, enums as integers."""

    def hexed(value: Any) -> Any:
        if isinstance(value, list):
            return [hexed(item) for item in value]
        if isinstance(value, dict):
            return {key: _hex(item, upper=upper) if key in _IDS else hexed(item) for key, item in value.items()}
        return value

    document: dict[str, Any] = hexed(MessageToDict(message, use_integers_for_enums=True))
    return document


def _hex(text: str, *, upper: bool) -> str:
    digits = base64.b64decode(text).hex()
    return digits.upper() if upper else digits


def body_of(wire: str, request: Any) -> bytes:
    """Return a request's bytes: bytes are sent as they are, a dict as JSON, a message in the wire's encoding."""
    if isinstance(request, bytes):
        return request
    if isinstance(request, dict):
        return json.dumps(request).encode()
    return json.dumps(as_json(request)).encode() if wire == HTTP_JSON else bytes(request.SerializeToString())


async def send(
    it: Running, wire: str, request: Any, *, signal: str = "traces", encoding: str = "none", headers: dict[str, str] | None = None
) -> Answer:
    body = body_of(wire, request)
    if wire == GRPC:
        return await _send_grpc(it, body, signal, encoding, headers or {})
    given = (JSON if wire == HTTP_JSON else PROTOBUF) | ({"Content-Encoding": encoding} if encoding != "none" else {}) | (headers or {})
    answer = await it.post(PACK[encoding](body), given, path=f"/v1/{signal}")
    kind: Any = RESPONSES[signal][0] if answer.status_code == 200 else status_pb2.Status
    found = Parse(answer.content, kind()) if wire == HTTP_JSON else kind.FromString(answer.content)
    if answer.status_code == 200:
        return Answer(200, 0, response=found, headers=dict(answer.headers))
    return Answer(answer.status_code, found.code, status=found, headers=dict(answer.headers))


async def _send_grpc(it: Running, body: bytes, signal: str, encoding: str, headers: dict[str, str]) -> Answer:
    options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
    async with aio.insecure_channel(it.settings.grpc_bind, options=options) as channel:
        method = channel.unary_unary(f"/{_SERVICES[signal]}/Export")
        metadata = tuple((key.lower(), value) for key, value in headers.items())
        try:
            answer = await method(body, timeout=60, metadata=metadata, compression=_GRPC_PACK[encoding])
        except aio.AioRpcError as error:
            trailers = dict(error.trailing_metadata() or ())
            details = trailers.get("grpc-status-details-bin")
            code = error.code().value[0]
            status = status_pb2.Status.FromString(details) if details else status_pb2.Status(code=code, message=error.details() or "")
            return Answer(0, code, status=status, headers=dict.fromkeys(trailers, ""))
    return Answer(0, 0, response=RESPONSES[signal][0].FromString(answer))

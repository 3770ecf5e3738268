"""OTLP over HTTP: protobuf and JSON on one port, plus /healthz and the collector's own /metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from collectors.errors import CollectorError, SlowSender, TooLarge, UnsupportedMedia
from collectors.inflate import Inflater
from collectors.otlp.decode import JSON, PROTOBUF
from collectors.otlp.intake import Intake
from collectors.otlp.status import (
    INTERNAL,
    NOT_FOUND,
    RETRY_AFTER_S,
    WRONG_METHOD,
    Answer,
    answer_of,
    encoded,
    status_message,
)
from collectors.pipeline import Lease

_BODY_TIMEOUT_S = 30.0  # exporters give up after 10; a body that trickles longer holds memory for nobody
# Langfuse's SDK posts below its own path.
_PATHS = {
    "/v1/traces": "traces",
    "/v1/metrics": "metrics",
    "/v1/logs": "logs",
    "/api/public/otel/v1/traces": "traces",
}


def create_app(intake: Intake, *, health: Callable[[], str]) -> Starlette:
    """Return the ASGI application. health: returns what is wrong, '' when all is well."""
    routes = [Route(path, _exporter(intake, signal), methods=["POST"]) for path, signal in _PATHS.items()]

    async def healthz(request: Request) -> Response:
        fault = health()
        return PlainTextResponse(fault or "ok", status_code=503 if fault else 200)

    async def metrics(request: Request) -> Response:
        try:
            intake.authorise(request.headers.get("authorization", ""))
        except CollectorError as error:
            return _refusal(answer_of(error), str(error), JSON)
        return Response(generate_latest(intake.metrics.registry), media_type=CONTENT_TYPE_LATEST)

    async def refused(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        answer = {404: NOT_FOUND, 405: WRONG_METHOD}.get(status, INTERNAL)
        message = f"{request.method} {request.url.path[:200]}: send POST /v1/traces, /v1/metrics or /v1/logs"
        response = _refusal(answer, message, _content_type(request) or JSON)
        if status == 405 and isinstance(error, HTTPException):
            response.headers.update(error.headers or {})
        return response

    routes += [Route("/healthz", healthz), Route("/metrics", metrics)]
    app = Starlette(routes=routes, exception_handlers={404: refused, 405: refused})
    app.router.redirect_slashes = False  # exporters do not follow; a clear 404 names the right path
    return app


def _exporter(intake: Intake, signal: str) -> Callable[[Request], object]:
    async def export(request: Request) -> Response:
        content_type = _content_type(request)
        try:
            intake.authorise(request.headers.get("authorization", ""))
            if not content_type:
                given = request.headers.get("content-type", "")[:60]
                raise UnsupportedMedia(f"Content-Type {given!r} is not known; send {PROTOBUF} or {JSON}")
            intake.check_room()
            lease = intake.lease()
            body = await _body(request, intake, lease)
            message = await intake.export(signal, body, content_type, lease=lease, protocol="http")
        except CollectorError as error:
            intake.failed("http", signal, error)
            return _refusal(answer_of(error), str(error), content_type or JSON)
        intake.answered("http", signal)
        return Response(encoded(message, content_type), media_type=content_type)

    return export


def _content_type(request: Request) -> str:
    """Return the known type without its parameters, '' when it is another."""
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given == "application/protobuf":
        return PROTOBUF
    return given if given in {PROTOBUF, JSON} else ""


async def _body(request: Request, intake: Intake, lease: Lease) -> bytes:
    """Return the inflated body; its bytes are on the lease. Raises CollectorError, the lease given back."""
    try:
        limit = intake.settings.max_body_bytes
        inflater = Inflater(request.headers.get("content-encoding", ""), limit)
        declared = request.headers.get("content-length", "")
        if declared.isascii() and declared.isdigit() and len(declared) < 20 and int(declared) > limit:
            raise TooLarge(f"the body is {declared} bytes; at most {limit} are taken")
        async with asyncio.timeout(_BODY_TIMEOUT_S):
            async for chunk in request.stream():
                lease.grow(inflater.feed(chunk))
        return inflater.body()
    except TimeoutError as error:
        lease.release()
        raise SlowSender(f"the body did not come within {_BODY_TIMEOUT_S:.0f} s") from error
    except ClientDisconnect as error:
        lease.release()
        raise SlowSender("the sender left before its body was complete") from error
    except BaseException:
        lease.release()
        raise


def _refusal(answer: Answer, message: str, content_type: str) -> Response:
    headers = {"Retry-After": str(RETRY_AFTER_S)} if answer.retry else {}
    if answer.http == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return Response(
        encoded(status_message(answer, message), content_type),
        status_code=answer.http,
        media_type=content_type,
        headers=headers,
    )

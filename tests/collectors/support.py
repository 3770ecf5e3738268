"""A collector on free ports with a real database, and requests to send to it."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collectors.runner import Collector
from collectors.settings import CollectorSettings
from storage.settings import StorageSettings
from tests.support.servers import free_port

PROTOBUF = {"Content-Type": "application/x-protobuf"}
JSON = {"Content-Type": "application/json"}


def settings(folder: Path, **changes: Any) -> CollectorSettings:
    storage = StorageSettings(f"sqlite:///{folder / 'telemetry.db'}", f"sqlite:///{folder / 'ops.db'}", busy_timeout_s=60)
    ports = {"grpc_bind": f"127.0.0.1:{free_port()}", "http_bind": f"127.0.0.1:{free_port()}"}
    return replace(CollectorSettings(storage), **(ports | changes))


@dataclass
class Running:
    collector: Collector
    settings: CollectorSettings
    client: httpx.AsyncClient
    folder: Path

    async def post(self, body: bytes, headers: dict[str, str] | None = None, path: str = "/v1/traces") -> httpx.Response:
        return await self.client.post(path, content=body, headers=headers or PROTOBUF)

    async def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        return await asyncio.to_thread(rows, self.folder, query, *values)


def rows(folder: Path, query: str, *values: object) -> list[tuple[Any, ...]]:
    with contextlib.closing(sqlite3.connect(f"file:{folder / 'telemetry.db'}?mode=ro", uri=True)) as connection:
        return connection.execute(query, values).fetchall()


@contextlib.asynccontextmanager
async def running(folder: Path, **changes: Any) -> AsyncIterator[Running]:
    given = settings(folder, **changes)
    collector = Collector(given)
    await collector.start()
    try:
        async with httpx.AsyncClient(base_url=f"http://{given.http_bind}", timeout=60) as client:
            yield Running(collector, given, client, folder)
    finally:
        await collector.stop()


async def until(it: Running, query: str, expected: object) -> None:
    """Poll the database until a query gives what is expected."""
    async with asyncio.timeout(60):
        while await it.rows(query) != expected:
            await asyncio.sleep(0.02)


def trace_id(number: int) -> bytes:
    return (number + 1).to_bytes(16, "big")


def request(
    count: int = 1, *, first: int = 0, scope: str = "app", attributes: dict[str, Any] | None = None, service: str = "shop"
) -> ExportTraceServiceRequest:
    """A request of `count` spans, each in a trace of its own, numbered from `first`."""
    message = ExportTraceServiceRequest()
    resource_spans = message.resource_spans.add()
    resource_spans.resource.attributes.add(key="service.name").value.string_value = service
    scope_spans = resource_spans.scope_spans.add()
    scope_spans.scope.name = scope
    for number in range(first, first + count):
        span = scope_spans.spans.add(
            trace_id=trace_id(number),
            span_id=(number + 1).to_bytes(8, "big"),
            name="work",
            kind=1,
            start_time_unix_nano=1_795_954_000_000_000_000 + number,
            end_time_unix_nano=1_795_954_000_005_000_000 + number,
        )
        for key, value in (attributes or {}).items():
            put(span.attributes.add(key=key).value, value)
    return message


def put(any_value: Any, value: Any) -> None:
    if isinstance(value, bool):
        any_value.bool_value = value
    elif isinstance(value, int):
        any_value.int_value = value
    elif isinstance(value, float):
        any_value.double_value = value
    elif isinstance(value, bytes):
        any_value.bytes_value = value
    elif isinstance(value, str):
        any_value.string_value = value
    elif isinstance(value, list):
        any_value.array_value.SetInParent()
        for item in value:
            put(any_value.array_value.values.add(), item)
    elif isinstance(value, dict):
        any_value.kvlist_value.SetInParent()
        for key, item in value.items():
            put(any_value.kvlist_value.values.add(key=key).value, item)

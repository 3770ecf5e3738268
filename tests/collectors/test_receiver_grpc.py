"""OTLP over gRPC."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc import status_pb2
from grpc import aio
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from collectors.metrics import CollectorMetrics
from collectors.otlp.intake import Intake
from collectors.otlp.receiver_grpc import _SERVICES, GrpcReceiver
from collectors.pipeline import Pipeline
from collectors.prometheus.families import load
from tests.collectors.process import collecting
from tests.collectors.support import Running, running, settings
from tests.support.polling import eventually


@asynccontextmanager
async def channel(it: Running) -> AsyncIterator[aio.Channel]:
    options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
    async with aio.insecure_channel(it.settings.grpc_bind, options=options) as open_channel:
        yield open_channel


async def export(it: Running, body: bytes, *, signal: str = "traces", **call: Any) -> ExportTraceServiceResponse:
    async with channel(it) as open_channel:
        method = open_channel.unary_unary(f"/{_SERVICES[signal]}/Export")
        return ExportTraceServiceResponse.FromString(await method(body, timeout=60, **call))


async def refused(it: Running, body: bytes, **call: Any) -> tuple[grpc.StatusCode, status_pb2.Status]:
    with pytest.raises(aio.AioRpcError) as caught:
        await export(it, body, **call)
    details = dict(caught.value.trailing_metadata() or ()).get("grpc-status-details-bin", b"")
    return caught.value.code(), status_pb2.Status.FromString(details)


async def test_metrics_and_logs_are_served_too_and_an_unknown_service_is_unimplemented(tmp_path: Path) -> None:
    async with running(tmp_path) as it:
        for signal in ("metrics", "logs"):
            await export(it, b"", signal=signal)
        async with channel(it) as open_channel:
            with pytest.raises(aio.AioRpcError) as caught:
                await open_channel.unary_unary("/no.Such/Export")(b"")
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_a_token_is_asked_of_grpc_senders(tmp_path: Path) -> None:
    async with running(tmp_path, token="s3cret") as it:
        for metadata in ((), (("authorization", "Bearer nope"),)):
            code, _ = await refused(it, b"", metadata=metadata)
            assert code is grpc.StatusCode.UNAUTHENTICATED
        await export(it, b"", metadata=(("authorization", "Bearer s3cret"),))


def test_a_gzip_bomb_is_refused_without_being_inflated(tmp_path: Path) -> None:
    given = settings(tmp_path, max_body_bytes=1_000_000)
    with (
        collecting(given) as process,
        grpc.insecure_channel(given.grpc_bind, options=[("grpc.max_send_message_length", -1)]) as it,
    ):
        before = peak_kb(process.pid)
        with pytest.raises(grpc.RpcError) as caught:
            it.unary_unary(f"/{_SERVICES['traces']}/Export")(b"\n" * 200_000_000, compression=grpc.Compression.Gzip, timeout=120)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert peak_kb(process.pid) - before < 50_000


def peak_kb(pid: int) -> int:
    found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1])


class Arriving:
    """gRPC's side of calls whose messages are on their way until `open` is set."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.now = self.most = 0

    async def read(self) -> bytes:
        self.now += 1
        self.most = max(self.most, self.now)
        await self.open.wait()
        self.now -= 1
        return b"x" * 10


async def test_no_more_messages_are_read_at_once_than_the_queue_could_hold(tmp_path: Path) -> None:
    given = settings(tmp_path, max_body_bytes=100, queue_bytes=250)
    metrics = CollectorMetrics()
    intake = Intake(given, Pipeline(lambda _: [], queue_bytes=given.queue_bytes, metrics=metrics), metrics, load())
    receiver, arriving = GrpcReceiver(intake, given.grpc_bind), Arriving()
    leases = [intake.lease() for _ in range(8)]
    calls = [asyncio.create_task(receiver._message(arriving, lease)) for lease in leases]
    await eventually(lambda: arriving.now == 2, what="two messages are read")
    arriving.open.set()
    assert await asyncio.gather(*calls) == [b"x" * 10] * 8
    assert arriving.most == 2
    assert [lease.bytes for lease in leases] == [10] * 8  # taken before the next may be read

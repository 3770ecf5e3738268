"""What both receivers share: token check, decode, commit, answer. Transport apart, gRPC and HTTP are one."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from collectors.errors import CollectorError, DecodeFailed, TooLarge, Unauthenticated
from collectors.metrics import CollectorMetrics
from collectors.otlp.decode import Decoded, decode_traces
from collectors.otlp.logs import decode_logs
from collectors.otlp.metrics import MetricsDecoder
from collectors.otlp.status import export_response
from collectors.pipeline import Lease, Pipeline
from collectors.prometheus.families import Families
from collectors.settings import CollectorSettings

# Decoding takes about 10 ms a MiB: above this it would hold up every other connection of the loop.
_INLINE_BYTES = 32 * 1024

_log = logging.getLogger("cachescope.collector")


# What a value of an unforeseen kind can raise in code of ours that reads it.
_ODD_DATA = (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, RecursionError)


class Intake:
    """Takes bodies in, returns the response message after the commit."""

    def __init__(self, settings: CollectorSettings, pipeline: Pipeline, metrics: CollectorMetrics, families: Families) -> None:
        self.settings = settings
        self.metrics = metrics
        self._pipeline = pipeline
        self._metrics_decoder = MetricsDecoder(settings, families)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="decoder")

    def lease(self) -> Lease:
        return self._pipeline.lease()

    def check_room(self) -> None:
        """Raises Overloaded when nothing more is taken: asked before a body is read."""
        self._pipeline.check_room()

    def authorise(self, authorization: str) -> None:
        """Check a sender's token in constant time: Bearer, or the password of Basic (Langfuse's SDK). Raises Unauthenticated."""
        if not self.settings.token:
            return
        scheme, _, given = authorization.strip().partition(" ")
        given = given.strip()
        if scheme.lower() == "basic":
            try:
                given = base64.b64decode(given, validate=True).decode("utf-8", "replace").partition(":")[2]
            except (binascii.Error, ValueError):
                given = ""
        elif scheme.lower() != "bearer":
            given = ""
        if not hmac.compare_digest(given.encode(), self.settings.token.encode()):
            raise Unauthenticated("no token, or a wrong one; send 'Authorization: Bearer <token>'")

    async def export(self, signal: str, body: bytes, content_type: str, *, lease: Lease, protocol: str) -> Any:
        """Return Export…ServiceResponse once the rows are committed. The lease is given back in every case.

        Raises CollectorError.
        """
        try:
            if len(body) > self.settings.max_body_bytes:
                raise TooLarge(f"the body is {len(body)} bytes; at most {self.settings.max_body_bytes} are taken")
            self.metrics.received_bytes.labels(protocol).inc(len(body))
            decoded = await self._decode(signal, body, content_type)
        except BaseException:
            lease.release()
            raise
        if signal == "traces":
            self.metrics.received_spans.inc(decoded.spans + decoded.rejected)
        for reason, count in decoded.rejects.items():
            self.metrics.rejected.labels(signal, reason).inc(count)
        if decoded.batches:
            unstored = await self._pipeline.submit(decoded.batches, lease=lease)
            if unstored > 0:  # the store counts them under its sender by itself
                self.metrics.rejected.labels(signal, "unstorable").inc(unstored)
                decoded = decoded.with_reject("unstorable", unstored)
        else:
            lease.release()
        return export_response(signal, decoded.rejected, decoded.message)

    async def _decode(self, signal: str, body: bytes, content_type: str) -> Decoded:
        if len(body) <= _INLINE_BYTES:
            return self._decode_now(signal, body, content_type)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._decode_now, signal, body, content_type)

    def _decode_now(self, signal: str, body: bytes, content_type: str) -> Decoded:
        try:
            if signal == "traces":
                return decode_traces(body, content_type, self.settings)
            if signal == "metrics":
                return self._metrics_decoder.decode(body, content_type)
            return decode_logs(body, content_type, self.settings)
        except CollectorError:
            raise
        except _ODD_DATA as error:
            # A fault of ours: answered as OTLP and counted like any refusal, and its place is in the log.
            _log.exception("a %s request could not be decoded", signal)
            raise DecodeFailed(f"the request could not be decoded ({type(error).__name__}); the collector's log says more") from error

    def failed(self, protocol: str, signal: str, error: CollectorError) -> None:
        """Count a request that was refused."""
        self.metrics.failures.labels(protocol, type(error).__name__).inc()
        self.metrics.requests.labels(protocol, signal, "refused").inc()

    def answered(self, protocol: str, signal: str) -> None:
        """Count a request that was answered in full or in part."""
        self.metrics.requests.labels(protocol, signal, "ok").inc()

    async def close(self) -> None:
        await asyncio.to_thread(self._thread.shutdown)

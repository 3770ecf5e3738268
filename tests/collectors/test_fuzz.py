"""Requests that are nearly right end in an answer of OTLP's, never in a crash, a 500 or silence.

5,000 cases in two halves: over every wire, and straight into the decoders. `python -m tests.bench.otlp_fuzz` sends 200,000 over the wires.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import httpx

from collectors.errors import TooLarge, Undecodable, UnsupportedMedia
from collectors.inflate import Inflater
from collectors.otlp.decode import JSON, PROTOBUF
from tests.collectors import fuzz
from tests.collectors.process import collecting
from tests.collectors.support import rows, settings
from tests.collectors.test_files import decode

_HALF = 2_500


def test_nearly_right_requests_are_all_answered(tmp_path: Path) -> None:
    given = settings(tmp_path)
    given = replace(given, storage=replace(given.storage, synchronous="NORMAL", **fuzz.KEPT))
    with collecting(given) as process:
        report = asyncio.run(fuzz.run(given.http_bind, given.grpc_bind, cases=_HALF, seed=1))
        assert report.wrong == []
        assert process.poll() is None
        assert httpx.get(f"http://{given.http_bind}/healthz", timeout=60).text == "ok"
        assert 'reason="DecodeFailed"' not in httpx.get(f"http://{given.http_bind}/metrics", timeout=60).text
    assert report.cases == _HALF
    assert {"200", "200 partial", "400", "415", "OK", "OK partial", "INVALID_ARGUMENT"} <= report.outcomes.keys()
    stored = fuzz.consistent(lambda query: rows(tmp_path, query))
    assert min(stored.values()) > 0


def test_nearly_right_bodies_are_decoded_or_refused_with_a_reason() -> None:
    maker = fuzz.Maker(2)
    refused = decoded = 0
    for _ in range(_HALF):
        case = maker.case()
        try:
            inflater = Inflater(case.encoding, 100_000)
            inflater.feed(case.body)
            found = decode(case.signal, inflater.body(), JSON if case.json else PROTOBUF)
        except (Undecodable, UnsupportedMedia, TooLarge):
            refused += 1
        else:
            decoded += 1
            assert bool(found.message) == bool(found.rejected)
    assert min(refused, decoded) > _HALF / 10

"""The bytes of a span are those of the SDK's own encoder."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode

from engine.settings import EngineSettings, GatewaySettings
from engine.telemetry import LeanExporter, _otlp_exporter
from engine.wire import WrittenSpan, attributes_bytes, encode, write

RESOURCE = Resource({"service.name": "cachescope-gateway", "cachescope.demo": False, "numbers": [1, 2]})
SCOPE = InstrumentationScope("cachescope")

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
values = st.one_of(
    texts,
    st.sampled_from(["x" * length for length in (100, 127, 128, 129, 16_383, 20_000)]),
    st.booleans(),
    st.sampled_from([True, 1, 1.0, False, 0, 0.0, -0.0, "1"]),  # equal or alike in Python, and not on the wire
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.lists(texts, max_size=3).map(tuple),
)
spans = st.builds(
    lambda attributes, ids, parent, kind, status, times: ReadableSpan(
        "cachescope.lookup",
        context=SpanContext(*ids, is_remote=False),
        parent=parent and SpanContext(ids[0], parent[0], is_remote=parent[1]),
        resource=RESOURCE,
        attributes=attributes,
        kind=kind,
        status=status,
        start_time=times[0],
        end_time=times[1],
        instrumentation_scope=SCOPE,
    ),
    st.dictionaries(st.sampled_from(["a", "cachescope.reason", "n" * 130, "名"]), values),
    st.tuples(st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1)),
    st.none() | st.tuples(st.integers(1, 2**64 - 1), st.booleans()),
    st.sampled_from(SpanKind),
    st.sampled_from([Status(), Status(StatusCode.OK), Status(StatusCode.ERROR), Status(StatusCode.ERROR, "upstream_500")]),
    st.tuples(st.integers(1, 2**63), st.integers(1, 2**63)),
)


def written(span: ReadableSpan) -> WrittenSpan:
    assert span.context is not None
    attributes = dict(span.attributes or {})
    half = dict(list(attributes.items())[:1])
    rest = {name: value for name, value in attributes.items() if name not in half}
    made = write(
        span.name,
        kind=span.kind,
        context=span.context,
        parent=span.parent,
        start_ns=span.start_time or 0,
        end_ns=span.end_time or 0,
        attributes=attributes_bytes(half) + attributes_bytes(rest),
        status=span.status,
    )
    return WrittenSpan(made, context=span.context, resource=RESOURCE, scope=SCOPE)


@given(st.lists(spans, min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
def test_a_request_holds_what_the_sdk_writes(made: list[ReadableSpan]) -> None:
    assert ExportTraceServiceRequest.FromString(encode(list(map(written, made)))) == encode_spans(made)


@given(st.lists(spans, min_size=1, max_size=4))
@settings(max_examples=30, deadline=None)
def test_the_sdk_reads_a_written_span_as_the_span_that_it_is(made: list[ReadableSpan]) -> None:
    assert encode_spans(list(map(written, made))) == encode_spans(made)
    assert [span.to_json() for span in map(written, made)] == [span.to_json() for span in made]


def test_no_spans_are_no_bytes_and_a_written_span_has_no_other_fields() -> None:
    assert encode([]) == b""
    span = WrittenSpan(b"", context=SpanContext(1, 2, is_remote=False), resource=RESOURCE, scope=SCOPE)
    with pytest.raises(AttributeError):
        span._no_field  # noqa: B018


def test_the_gateway_s_exporter_is_the_lean_one_and_the_installed_sdk_takes_it() -> None:
    exporter = _otlp_exporter(GatewaySettings(engine=EngineSettings(cache_url="", secret=b"s" * 32), otlp_endpoint="http://127.0.0.1:1"))
    try:
        assert isinstance(exporter, LeanExporter)
        assert hasattr(exporter, "_client"), "the SDK has changed: its own encoder would be used, which is slow"
    finally:
        exporter.shutdown()

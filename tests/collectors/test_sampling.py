"""What a span tells of the sampling that it outlived."""

import json

import pytest
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collectors.otlp.decode import decode_traces
from collectors.sampling import NONE, Sampling, read
from collectors.settings import CollectorSettings
from storage.settings import StorageSettings


@pytest.mark.parametrize(
    ("trace_state", "attributes", "told"),
    [
        ("", {}, NONE),
        ("", {"gen_ai.request.model": "m"}, NONE),
        ("ot=th:8", {}, Sampling("threshold", 0.5)),
        ("congo=t61,ot=rv:6e6d1a75832a2f;th:c", {}, Sampling("threshold", 0.25)),
        ("ot=th:fd70a3d70a3d71", {}, Sampling("threshold", pytest.approx(0.01))),
        ("ot=th:0", {}, NONE),
        ("ot=th:", {}, NONE),
        ("ot=th:zz", {}, NONE),
        ("ot=th:123456789abcdef0", {}, NONE),
        ("other=th:8", {}, NONE),
        ("", {"sampling.ratio": 0.2}, Sampling("ratio", 0.2)),
        ("", {"sampling.ratio": "0.2"}, Sampling("ratio", 0.2)),
        ("", {"sampling.ratio": 1}, NONE),
        ("", {"sampling.ratio": 0}, Sampling("other")),
        ("", {"sampling.ratio": -1}, Sampling("other")),
        ("", {"sampling.ratio": float("nan")}, Sampling("other")),
        ("", {"sampling.ratio": True}, Sampling("other")),
        ("", {"SampleRate": 20}, Sampling("ratio", 0.05)),
        ("", {"SampleRate": 0}, Sampling("other")),
        ("", {"sampler.type": "const", "sampler.param": True}, NONE),
        ("", {"sampler.type": "probabilistic", "sampler.param": 0.1}, Sampling("ratio", 0.1)),
        ("", {"sampler.type": "ratelimiting", "sampler.param": 2.0}, Sampling("other")),
        ("ot=th:8", {"tailsampling.policy": "errors"}, Sampling("tail")),
    ],
)
def test_what_is_told(trace_state: str, attributes: dict[str, object], told: Sampling) -> None:
    assert read(trace_state, attributes, {}) == told
    assert read(trace_state, attributes, {"tailsampling.policy": "errors"}) == Sampling("tail")


@pytest.mark.parametrize(("scope", "told"), [([], ("threshold", 0.25)), (["tailsampling.policy"], ("tail", None))])
def test_a_lookup_carries_it(scope: list[str], told: tuple[str, float | None]) -> None:
    span = {
        "traceId": "0af7651916cd43dd8448eb211c80319c",
        "spanId": "b7ad6b7169203331",
        "name": "cachescope.lookup",
        "startTimeUnixNano": "1775000000000000000",
        "endTimeUnixNano": "1775000000001000000",
        "traceState": "ot=th:c",
        "attributes": [{"key": "cachescope.outcome", "value": {"stringValue": "miss"}}],
    }
    attributes = [{"key": name, "value": {"stringValue": "slow"}} for name in scope]
    scopes = [{"scope": {"name": "cachescope.engine", "attributes": attributes}, "spans": [span]}]
    body = json.dumps({"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": scopes}]}).encode()
    (lookup,) = decode_traces(body, "application/json", CollectorSettings(StorageSettings("", ""))).batches[0].lookups
    assert (lookup.sampler, lookup.kept_ratio) == told
    same = ParseDict({"resourceSpans": [{"scopeSpans": [{"scope": scopes[0]["scope"]}]}]}, ExportTraceServiceRequest())
    same.resource_spans[0].scope_spans[0].spans.add(
        trace_id=lookup.trace_id, span_id=lookup.span_id, trace_state="ot=th:c", start_time_unix_nano=1, end_time_unix_nano=2
    ).attributes.add(key="cachescope.outcome").value.string_value = "miss"
    (twin,) = (
        decode_traces(same.SerializeToString(), "application/x-protobuf", CollectorSettings(StorageSettings("", ""))).batches[0].lookups
    )
    assert (twin.sampler, twin.kept_ratio) == told

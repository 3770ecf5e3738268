"""Tokens: which rule turns a sender's counts into ours, and that absent is not 0."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from tests.collectors.support import request
from tests.collectors.test_decode import from_protobuf


class Told(NamedTuple):
    """The tokens of a span's row. given, written: as sent."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached: int | None = None
    rule: str = ""
    given: int | None = None
    written: int | None = None


def usage_of(scope: str, **attributes: Any) -> Told:
    (batch,) = from_protobuf(request(scope=scope, attributes=attributes)).batches
    (span,) = batch.spans
    raw = (span.raw_input_tokens, span.cache_write_tokens)
    return Told(span.input_tokens, span.output_tokens, span.cached_input_tokens, span.token_rule, *raw)


def test_case_b07_the_anthropic_and_the_bedrock_package_tell_of_the_same_call_alike() -> None:
    anthropic = usage_of(
        "opentelemetry.instrumentation.anthropic",
        **{"gen_ai.usage.input_tokens": 1012, "gen_ai.usage.cache_read_input_tokens": 1000, "gen_ai.usage.output_tokens": 40},
    )
    bedrock = usage_of(
        "opentelemetry.instrumentation.bedrock",
        **{"gen_ai.usage.input_tokens": 12, "gen_ai.usage.cache_read_input_tokens": 1000, "gen_ai.usage.output_tokens": 40},
    )
    assert anthropic == Told(1012, 40, 1000, "inclusive", 1012)
    assert bedrock == Told(1012, 40, 1000, "additive", 12)
    assert round(1000 / 1012, 3) == 0.988


def test_case_b08_inclusive_and_additive_counts_give_equal_rows() -> None:
    openai = usage_of(
        "opentelemetry.instrumentation.openai.v1",
        **{"gen_ai.usage.input_tokens": 10_000, "gen_ai.usage.cache_read.input_tokens": 8_000},
    )
    claude = usage_of(
        "someone",
        **{
            "gen_ai.usage.input_tokens": 2_000,
            "gen_ai.usage.cache_read.input_tokens": 8_000,
            "gen_ai.provider.name": "anthropic",
        },
    )
    assert openai[:3] == claude[:3] == (10_000, None, 8_000)


def test_the_rule_is_the_scope_s_and_never_the_attribute_s_name() -> None:
    attributes = {"gen_ai.usage.input_tokens": 500, "gen_ai.usage.cache_read_input_tokens": 100}
    assert usage_of("opentelemetry.instrumentation.openai.v1", **attributes) == Told(500, None, 100, "inclusive", 500)
    assert usage_of("opentelemetry.instrumentation.bedrock", **attributes) == Told(600, None, 100, "additive", 500)
    assert usage_of("nobody.told.us", **attributes) == Told(500, None, 100, "inclusive_assumed", 500)


@pytest.mark.parametrize(
    ("scope", "attributes", "expected"),
    [
        # OpenLIT passes on what the API of the provider counts.
        ("openlit.instrumentation.anthropic", {"input": 500, "read": 100, "provider": "anthropic"}, (600, "additive")),
        ("openlit.instrumentation.openai", {"input": 500, "read": 100, "provider": "openai"}, (500, "inclusive")),
        # The provider decides where one scope speaks for many: Vercel's SDK before version 6.
        (
            "ai",
            {"ai.operationId": "ai.generateText.doGenerate", "input": 500, "ai.usage.cachedInputTokens": 100, "provider": "openai.chat"},
            (500, "inclusive"),
        ),
        (
            "ai",
            {
                "ai.operationId": "ai.generateText.doGenerate",
                "input": 500,
                "ai.usage.cachedInputTokens": 100,
                "provider": "anthropic.messages",
            },
            (600, "additive"),
        ),
        (
            "ai",
            {
                "ai.operationId": "ai.generateText.doGenerate",
                "input": 600,
                "ai.usage.inputTokenDetails.cacheReadTokens": 100,
                "provider": "anthropic.messages",
            },
            (600, "inclusive"),
        ),
        # Strands handed on Bedrock's own counts once: their total holds all four.
        (
            "strands.telemetry.tracer",
            {"input": 500, "gen_ai.usage.output_tokens": 7, "gen_ai.usage.total_tokens": 607, "read": 100},
            (600, "additive_proven"),
        ),
        (
            "strands.telemetry.tracer",
            {"input": 600, "gen_ai.usage.output_tokens": 7, "gen_ai.usage.total_tokens": 607, "read": 100},
            (600, "inclusive"),
        ),
        # More read than there was input: it cannot hold them, whoever wrote it.
        ("opentelemetry.instrumentation.openai_v2", {"input": 12, "read": 100}, (112, "additive_proven")),
        (
            "sentry.python",
            {"input": 500, "gen_ai.usage.input_tokens.cached": 100, "gen_ai.usage.input_tokens.cache_write": 20},
            (500, "inclusive"),
        ),
        ("pydantic-ai", {"input": 500, "gen_ai.usage.cache_read_tokens": 100}, (500, "inclusive")),
        ("langsmith", {"input": 500, "gen_ai.usage.input_token_details": "{'cache_read': 100, 'cache_creation': 0}"}, (500, "inclusive")),
        ("langfuse-sdk", {"langfuse.observation.usage_details": '{"input": 500, "input_cached_tokens": 100}'}, (600, "additive")),
        (
            "langfuse-sdk",
            {"langfuse.observation.usage_details": '{"input_tokens": 500, "cache_read_input_tokens": 100}'},
            (600, "additive"),
        ),
        (
            "langfuse-sdk",
            {"langfuse.observation.usage_details": '{"prompt_tokens": 500, "prompt_tokens_details": {"cached_tokens": 100}}'},
            (500, "inclusive"),
        ),
        (
            "langfuse-sdk",
            {"langfuse.observation.usage_details": '{"input_tokens": 500, "input_tokens_details": {"cached_tokens": 100}}'},
            (500, "inclusive"),
        ),
    ],
)
def test_the_rule_follows_from_scope_and_provider(scope: str, attributes: dict[str, Any], expected: tuple[int, str]) -> None:
    names = {"input": "gen_ai.usage.input_tokens", "read": "gen_ai.usage.cache_read.input_tokens", "provider": "gen_ai.provider.name"}
    kind = {"langfuse.observation.type": "generation"} if scope == "langfuse-sdk" else {"gen_ai.operation.name": "chat"}
    told = usage_of(scope, **{names.get(name, name): value for name, value in (kind | attributes).items()})
    assert (told.input_tokens, told.rule, told.cached) == (*expected, 100)


@pytest.mark.parametrize(
    "details", ["{'cache_read': ", "{" * 500, "{'cache_read': 'x'}", "[1]", "", "{'cache_read': -1}", "x" * 5000, 7, None, "{1: 2}"]
)
def test_details_that_cannot_be_read_are_absent(details: object) -> None:
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 5, "langsmith.span.kind": "llm"}
    given = {} if details is None else {"gen_ai.usage.input_token_details": details}
    assert usage_of("langsmith", **attributes, **given) == Told(5, None, None, "", 5)
    for told in ("{", "[]", "7", '{"input": "x"}', str(details)):
        usage_of("langfuse-sdk", **{"langfuse.observation.type": "generation", "langfuse.observation.usage_details": told})


def test_absent_is_not_zero() -> None:
    assert usage_of("x", **{"gen_ai.operation.name": "chat"}) == Told()
    assert usage_of("x", **{"gen_ai.usage.input_tokens": 0}) == Told(0, None, None, "", 0)
    reported, silent = ({"gen_ai.operation.name": "chat"} | more for more in ({"gen_ai.usage.cache_read.input_tokens": 0}, {}))
    (batch,) = from_protobuf(request(scope="x", attributes=reported)).batches
    assert [(row.cache_kind, row.outcome) for row in batch.lookups] == [("provider_prompt", "miss")]
    assert not from_protobuf(request(scope="x", attributes=silent)).batches[0].lookups

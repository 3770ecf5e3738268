"""Which attributes hold what people wrote and models answered. Dropped before storage when prompts are not recorded."""

from __future__ import annotations

from typing import Any

import orjson

from engine import semconv

_NAMES = frozenset(
    {
        semconv.PROMPT,
        semconv.CANDIDATE_PROMPT,
        semconv.REQUEST_BODY,
        "input.value",
        "output.value",
        "final_result",
        "all_messages_events",
        "model_request_parameters",
        "logfire.msg",
        "gen_ai.tool.args",
        "gen_ai.tool.definitions",
        "tool.parameters",
        "db.statement",
        "db.query.text",
        "ai_log",  # Higress: a map or JSON with the question and the answer in it
        "question",
        "answer",
        "messages",
    }
)
_PREFIXES = (
    "gen_ai.prompt",
    "gen_ai.completion",
    "gen_ai.input",
    "gen_ai.output.messages",
    "gen_ai.system_instructions",
    "gen_ai.tool.call.arguments",
    "gen_ai.tool.call.result",
    "gen_ai.event.content",
    "gen_ai.retrieval",
    "llm.input_messages",
    "llm.output_messages",
    "llm.prompts",
    "llm.choices",
    "llm.completions",
    "llm.prompt_template",
    "llm.function_call",
    "llm.tools",
    "embedding.embeddings",
    "embedding.text",
    "retrieval.documents",
    "reranker.",
    "traceloop.entity.input",
    "traceloop.entity.output",
    "langfuse.observation.input",
    "langfuse.observation.output",
    "langfuse.trace.input",
    "langfuse.trace.output",
    "pydantic_ai.",
    "ai.prompt",
    "ai.response.text",
    "ai.response.object",
    "ai.response.reasoning",
    "ai.response.toolCalls",
    "ai.toolCall.args",
    "ai.toolCall.result",
    "ai.value",
    "ai.embedding",
    "ai.schema",
)
# Whatever a vocabulary not listed here calls them.
_SUFFIXES = (
    ".messages",
    ".message",
    ".content",
    ".prompt",
    ".completion",
    ".input",
    ".output",
    ".choices",
    "_response",
    ".text",
    ".body",
)
_EVENT_NAMES = frozenset({"content", "message", "body", "prompt", "completion", "arguments"})
_KEPT = frozenset({"exception.message"})


def is_prompt(name: str) -> bool:
    """Return whether an attribute of this name holds a prompt, an answer, or a tool's arguments or result."""
    if name in _KEPT:
        return False
    return name in _NAMES or name.startswith(_PREFIXES) or name.endswith(_SUFFIXES)


def without_prompts(attributes: dict[str, Any], *, event: bool = False) -> dict[str, Any]:
    """Return the attributes less what holds prompts, at any depth; a verifier's verdicts stay, without the words compared."""
    kept = {
        name: _inside(value, name) if isinstance(value, dict | list) else value
        for name, value in attributes.items()
        if not is_prompt(name) and not (event and name in _EVENT_NAMES)
    }
    verdicts = kept.get(semconv.CANDIDATE_VERDICTS)
    if verdicts is not None:
        kept[semconv.CANDIDATE_VERDICTS] = _without_details(verdicts)
    return kept


def _inside(value: Any, path: str) -> Any:
    """Return a map or list less what holds prompts. A name counts by itself, and with those around it."""
    if isinstance(value, list):
        return [_inside(item, path) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: _inside(held, f"{path}.{name}")
        for name, held in value.items()
        if not (is_prompt(name) or name in _EVENT_NAMES or is_prompt(f"{path}.{name}"))
    }


def _without_details(verdicts: Any) -> str:
    try:
        return orjson.dumps([[rule, veto, ""] for rule, veto, *_ in orjson.loads(verdicts)]).decode()
    except (orjson.JSONDecodeError, TypeError, ValueError):
        return ""

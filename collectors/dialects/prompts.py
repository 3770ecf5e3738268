"""What of attributes holds what people wrote and models answered, or may hold it: not stored when prompts are not recorded."""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import orjson

from collectors.dialects.known import NAMES, PREFIXES
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
_KEPT = NAMES | {"exception.message"}  # such as llm.token_count.prompt


# A value under a name that nobody knows is kept when it can be no prose: a name, a number, an id, a path, all in ASCII and without a space.
_PLAIN = re.compile(r"[A-Za-z0-9_.:/@+-]{0,128}")
_NAME = re.compile(rf"{_PLAIN.pattern}(?: {_PLAIN.pattern})?")
# W3C lets blanks be in a value; nobody's are. No comma inside a member: else a text that does not match takes exponential time.
_STATE = re.compile(r"[!-+\--~]{0,512}(?:, ?[!-+\--~]{0,512}){0,32}")
_BYTES = "bytesValue"  # how bytes are written as JSON
_MAX_NAME = 256
_MAX_NUMBERS = 16  # longer lists may be a prompt's tokens, or its vector
_NUMBERS = frozenset({int, float, bool})
_DROPPED, _KNOWN, _UNKNOWN = range(3)
NOT_RECORDED = "cachescope.not_recorded"  # the label that keeps series apart which differ in what is not recorded


def is_prompt(name: str) -> bool:
    """Return whether an attribute of this name holds a prompt, an answer, or a tool's arguments or result."""
    if name in _NAMES:
        return True
    return name not in _KEPT and (name.startswith(_PREFIXES) or name.endswith(_SUFFIXES))


def without_prompts(attributes: dict[str, Any], *, event: bool = False) -> dict[str, Any]:
    """Return the attributes less what holds prompts, or may hold one, at any depth.

    What names a prompt is left out. Of an attribute whose meaning is known the value stays; of any other, text that may be prose is
    replaced by a marker with its length. A verifier's verdicts stay, without the words compared.
    """
    kept = {}
    for name, value in attributes.items():
        what = _of_name(name) if len(name) <= _MAX_NAME else _DROPPED
        if what == _DROPPED or (event and name in _EVENT_NAMES):
            continue
        plain = type(value) in _NUMBERS or (what == _KNOWN and type(value) is str)
        kept[name] = value if plain else _inside(value, name, known=what == _KNOWN)
    verdicts = kept.get(semconv.CANDIDATE_VERDICTS)
    if verdicts is not None:
        kept[semconv.CANDIDATE_VERDICTS] = _without_details(verdicts)
    return kept


def digest_of_lost(attributes: Mapping[str, Any], kept: Mapping[str, Any], *, secret: bytes) -> str:
    """Return 12 hex digits that tell apart what was left out or replaced, '' when nothing was.

    By the installation's secret: whoever has the database alone cannot find a text by trying likely ones.
    """
    lost = {name: value for name, value in attributes.items() if kept.get(name) is not value and (name not in kept or kept[name] != value)}
    return hmac.digest(secret, json.dumps(lost, sort_keys=True, default=repr).encode(), "sha256").hex()[:12] if lost else ""


def without_prose(name: str) -> str:
    """Return the name of an event, or a marker for one that may be prose: some log their messages so."""
    return name if _PLAIN.fullmatch(name) else _marker(len(name), "characters")


def without_sentence(name: str) -> str:
    """Return the name of a span, an operation and its target; of one of more words the first, and a marker with the rest's length."""
    if _NAME.fullmatch(name):
        return name
    first, blank, rest = name.partition(" ")
    return f"{first} {_marker(len(rest), 'characters')}" if blank and _PLAIN.fullmatch(first) else _marker(len(name), "characters")


def without_odd_state(state: str) -> str:
    """Return a trace state, '' for one that may be prose. Its members are lists of names and codes."""
    return state if _STATE.fullmatch(state) else ""


@lru_cache(4096)
def _of_name(name: str) -> int:
    if is_prompt(name) or not _PLAIN.fullmatch(name):  # a text may stand in the place of a name, too
        return _DROPPED
    return _KNOWN if name in NAMES or name.startswith(PREFIXES) else _UNKNOWN


def _inside(value: Any, path: str, *, known: bool) -> Any:
    """Return a value less what holds prompts. A name in a map counts by itself, and with those around it."""
    if isinstance(value, dict):
        return {
            name: _inside(held, f"{path}.{name}", known=known)
            for name, held in value.items()
            if not (is_prompt(name) or name in _EVENT_NAMES or is_prompt(f"{path}.{name}")) and (known or _PLAIN.fullmatch(name))
        }
    if isinstance(value, list):
        return [_inside(item, path, known=known) for item in value] if known else _list(value, path)
    if isinstance(value, str) and not known:
        return value if _PLAIN.fullmatch(value) and not path.endswith(_BYTES) else _marker(len(value), "characters")
    return value


def _list(value: list[Any], path: str) -> Any:
    """Return a list under a name that nobody knows. Several texts are one, cut into words; many numbers are one, too."""
    if sum(isinstance(item, str) for item in value) > 1:
        return _marker(sum(len(item) for item in value if isinstance(item, str)), "characters")
    if len(value) > _MAX_NUMBERS:
        return _marker(len(value), "items")
    return [_inside(item, path, known=False) for item in value]


def _marker(length: int, of: str) -> str:
    return f"…[not recorded: {length} {of}]"


def _without_details(verdicts: Any) -> str:
    try:
        return orjson.dumps([[rule, veto, ""] for rule, veto, *_ in orjson.loads(verdicts)]).decode()
    except (orjson.JSONDecodeError, TypeError, ValueError):
        return ""

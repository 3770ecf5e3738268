"""What may be stored: one complete answer with a text, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import orjson

from engine.types import Outcome


class Asked(Protocol):
    """What of a request decides here."""

    @property
    def no_store(self) -> bool: ...


class Judged(Protocol):
    """What of a lookup decides here."""

    outcome: Outcome
    reason: str
    storable: bool
    store_reason: str
    status: int

    @property
    def request(self) -> Asked: ...


_FINISHES = {
    "content_filter": "content_filter",
    "function_call": "tool_call_answer",
    "length": "cut_answer",
    "tool_calls": "tool_call_answer",
}


def unfit(body: bytes, finish_reasons: Sequence[str]) -> str:
    """Return why an upstream's complete answer must not be stored, '' = it may.

    A tool call is not an answer yet, a cut one is not whole, and several choices are not one.
    """
    for finish in finish_reasons:
        if finish != "stop":
            return _FINISHES.get(finish, "unknown_finish")
    if not finish_reasons:
        return "unfinished"
    try:
        answer = orjson.loads(body)
        choices = answer["choices"]
        failed = answer.get("error") is not None or any(choice.get("error") is not None for choice in choices)
        several, message = len(choices) != 1, choices[0]["message"]
        content, calls = message.get("content"), message.get("tool_calls") or message.get("function_call")
    except (orjson.JSONDecodeError, KeyError, IndexError, TypeError, AttributeError):
        return "invalid_answer"
    # Some proxies put the provider's error beside what came of the answer until then, and say 200.
    if failed:
        return "error_in_answer"
    # Some servers finish a tool call with `stop`.
    if several or calls:
        return "multi_choice" if several else "tool_call_answer"
    return "" if isinstance(content, str) and content else "empty_answer"


def is_whole(body: bytes) -> bool:
    """Return whether a stored body can be served: what a store gives back need not be what was put into it."""
    try:
        choices = orjson.loads(body)["choices"]
        return bool(choices) and all(isinstance(choice["message"], dict) for choice in choices)
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return False


def unstorable(lookup: Judged) -> str:
    """Return why no answer to this lookup may be stored."""
    if lookup.outcome is Outcome.BYPASS:
        return "bypass"
    return "no_store" if lookup.request.no_store else lookup.reason or "no_store"


def refused(lookup: Judged, body: bytes, finish_reasons: Sequence[str]) -> str:
    """Return why this answer may not be stored, '' = it may."""
    if not lookup.storable:
        return lookup.store_reason or unstorable(lookup)
    return unfit(body, finish_reasons) if 200 <= lookup.status < 300 else "error_status"

"""Server-sent events of chat completions: parse, assemble into the complete answer, replay a complete answer as a stream.

`assemble(replay(answer)) == answer` holds for every answer that OpenAI's chunks can express (property-tested).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import orjson

from engine.gateway.nesting import too_deep

Json = dict[str, Any]

DONE = b"data: [DONE]\n\n"

_EVENT_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_LINE_END = re.compile(rb"\r\n|\n|\r")

# These come whole, and some upstreams repeat them in each chunk; every other text comes in pieces.
_WHOLE = frozenset({"role", "id", "type", "index", "name"})
# Texts of a message that are replayed in pieces; all its other fields go out whole with the role.
_PIECEWISE = ("reasoning_content", "reasoning", "content", "refusal")
# Characters in a replayed piece: about what a fast model sends in one chunk, so that clients draw it as they draw a stream.
PIECE_CHARS = 48
MAX_PIECES = 400  # a very long answer gets longer pieces: each chunk repeats about 150 bytes around its text


class EventParser:
    """Splits a byte stream into complete events, whatever the boundaries of its reads. waiting: bytes without an end so far."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._tail = b""  # of what waits: an end may be cut in two
        self.waiting = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield each complete event with its terminator, byte for byte."""
        window = self._tail + data
        self._keep(data, window)
        # Only what is new is searched, and joined only with an end in it: a long event must not cost its square.
        if not _EVENT_END.search(window):
            return
        buffer = self.rest()
        start = 0
        for match in _EVENT_END.finditer(buffer, len(buffer) - len(window)):
            yield buffer[start : match.end()]
            start = match.end()
        self._parts, self.waiting = [], 0
        self._keep(buffer[start:], buffer[start:])

    def _keep(self, data: bytes, window: bytes) -> None:
        self._parts.append(data)
        self._tail = window[-3:]
        self.waiting += len(data)

    def rest(self) -> bytes:
        """Return what is left without a terminator."""
        return b"".join(self._parts)


def data_of(event: bytes) -> bytes | None:
    """Return an event's data, its lines joined; None when it has none (a comment, a keep-alive)."""
    lines = [line[5:].removeprefix(b" ") for line in _LINE_END.split(event) if line.startswith(b"data:")]
    return b"\n".join(lines) if lines else None


class Assembler:
    """Builds the complete non-streamed answer from a stream's chunks.

    done: the terminal event came. failed: a chunk was an error. garbled: a chunk could not be understood. odd: a chunk was an
    object of another kind, which may belong to the stream and not to the answer.
    oversize: more text came than may be recorded; the answer is not complete.
    """

    def __init__(self, *, max_bytes: int) -> None:
        self.done = False
        self.failed = False
        self.garbled = False
        self.odd = False
        self.oversize = False
        self._left = max_bytes
        self._answer: Json = {}
        self._choices: dict[int, Json] = {}

    def add(self, event: bytes) -> bool:
        """Take one event in. Return True when it is a chunk that carries usage and no choice."""
        data = data_of(event)
        if data is None:
            return False
        if data.strip() == b"[DONE]":
            self.done = True
            return False
        self._left -= len(data)
        if self._left < 0:
            self.oversize = True
            return False
        try:
            chunk = orjson.loads(data)
        except orjson.JSONDecodeError:
            chunk = None
        if too_deep(data, chunk):
            chunk = None
        if isinstance(chunk, dict) and chunk.get("error") is None:
            return self._merge(chunk)
        self.failed |= isinstance(chunk, dict)
        self.garbled |= not isinstance(chunk, dict)
        return False

    def _merge(self, chunk: Json) -> bool:
        choices = chunk.get("choices")
        if not isinstance(choices, list):
            self.odd |= choices is None
            self.garbled |= choices is not None
            return False
        for name, value in chunk.items():
            if name not in ("choices", "object") and (value is not None or name not in self._answer):
                self._answer[name] = value
        for part in choices:
            if not isinstance(part, dict) or not isinstance(part.get("index", 0), int):
                self.garbled = True
                return False
            self._merge_choice(part)
        return not choices and chunk.get("usage") is not None

    def _merge_choice(self, part: Json) -> None:
        index = part.get("index", 0)
        choice = self._choices.setdefault(index, {"index": index, "message": {}, "finish_reason": None})
        for name, value in part.items():
            if name == "delta":
                if isinstance(value, dict):
                    self.garbled |= not accumulate(choice["message"], value)
            elif name == "logprobs":
                if isinstance(value, dict):
                    logprobs = choice.get("logprobs") or {}
                    self.garbled |= not accumulate(logprobs, value)
                    choice["logprobs"] = logprobs
                else:
                    choice.setdefault("logprobs", None)
            # Some upstreams repeat the message so far beside each delta; the deltas alone make the whole.
            elif name not in ("index", "message") and (value is not None or name not in choice):
                choice[name] = value

    @property
    def finished(self) -> bool:
        """Every choice came to its finish reason."""
        return bool(self._choices) and all(choice["finish_reason"] for choice in self._choices.values())

    def answer(self) -> Json:
        """Return the answer as the upstream would have sent it without a stream."""
        choices = [self._choices[index] for index in sorted(self._choices)]
        for choice in choices:
            message = choice["message"]
            message.setdefault("content", None)
            for call in _calls(message):
                call.pop("index", None)
        answer = {name: value for name, value in self._answer.items() if name != "usage"}
        answer |= {"object": "chat.completion", "choices": choices}
        if self._answer.get("usage") is not None:
            answer["usage"] = self._answer["usage"]
        return answer


def accumulate(into: Json, delta: Json) -> bool:
    """Merge a delta into what came before, as OpenAI's own clients do. Return False when the two do not fit together."""
    fits = True
    for name, value in delta.items():
        before = into.get(name)
        if value is None:
            into.setdefault(name, None)
        elif isinstance(value, list):
            merged = before if isinstance(before, list) else []
            fits &= _accumulate_list(merged, value)
            into[name] = merged
        elif isinstance(value, dict):
            inner = before if isinstance(before, dict) else {}
            fits &= accumulate(inner, value)
            into[name] = inner
        elif before is None or name in _WHOLE:
            into[name] = value
        elif isinstance(before, str) and isinstance(value, str):
            into[name] = before + value
        elif before != value:
            fits = False
    return fits


def _accumulate_list(into: list[Any], delta: list[Any]) -> bool:
    fits = True
    for item in delta:
        if not isinstance(item, dict) or "index" not in item:
            into.append(item)
            continue
        index = item["index"]
        same = next((known for known in into if isinstance(known, dict) and known.get("index") == index), None)
        if same is None:
            same = {}
            into.append(same)
        fits &= accumulate(same, item)
    return fits


def replay(answer: Json, *, include_usage: bool) -> bytes:
    """Return a complete answer as a stream: role, pieces of content, finish reason, usage when asked for, [DONE]."""
    head = {name: value for name, value in answer.items() if name not in ("choices", "usage", "object")}
    head["object"] = "chat.completion.chunk"
    events = [_event({**head, "choices": [part]}) for choice in answer.get("choices", ()) for part in _parts(choice)]
    if include_usage:
        events.append(_event({**head, "choices": [], "usage": answer.get("usage")}))
    return b"".join(events) + DONE


def _event(chunk: Json) -> bytes:
    return b"data: " + orjson.dumps(chunk) + b"\n\n"


def _parts(choice: Json) -> Iterator[Json]:
    message: Json = choice.get("message") or {}
    calls = _calls(message)
    texts = {name: message[name] for name in _PIECEWISE if isinstance(message.get(name), str)}
    opening = {name: value for name, value in message.items() if name not in texts and not (name == "tool_calls" and calls)}
    opening |= dict.fromkeys(texts, "")

    def part(delta: Json, **more: object) -> Json:
        return {"index": choice.get("index", 0), "delta": delta, "finish_reason": None, **more}

    first: Json = {"logprobs": choice["logprobs"]} if "logprobs" in choice else {}
    yield part({"role": "assistant"} | opening, **first)
    for name, text in texts.items():
        for piece in _pieces(text):
            yield part({name: piece})
    for index, call in enumerate(calls):
        function = call.get("function")
        if not isinstance(function, dict) or not isinstance(function.get("arguments"), str):
            yield part({"tool_calls": [{"index": index, **call}]})
            continue
        yield part({"tool_calls": [{"index": index, **call, "function": {**function, "arguments": ""}}]})
        for piece in _pieces(function["arguments"]):
            yield part({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    rest = {name: value for name, value in choice.items() if name not in ("index", "message", "finish_reason", "logprobs")}
    yield {"index": choice.get("index", 0), "delta": {}, "finish_reason": choice.get("finish_reason"), **rest}


def _calls(message: Json) -> list[Json]:
    """Return the message's tool calls, none when they are not what they should be."""
    calls = message.get("tool_calls")
    return calls if isinstance(calls, list) and all(isinstance(call, dict) for call in calls) else []


def _pieces(text: str) -> Iterator[str]:
    size = max(PIECE_CHARS, -(-len(text) // MAX_PIECES))
    for start in range(0, len(text), size):
        yield text[start : start + size]

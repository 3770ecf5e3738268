"""The wire form of streams: split, assembled and replayed without loss."""

from __future__ import annotations

import itertools
import json
import time
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from engine.gateway.stream import DONE, Assembler, EventParser, data_of, replay

TEXT = st.text(alphabet=st.characters(exclude_categories=("Cs",)), max_size=300)


def assemble(stream: bytes, *, cuts: list[int] | None = None, max_bytes: int = 10**7) -> Assembler:
    parser, assembler = EventParser(), Assembler(max_bytes=max_bytes)
    marks = [0, *sorted(cut % (len(stream) + 1) for cut in cuts or []), len(stream)]
    for start, end in itertools.pairwise(marks):
        for event in parser.feed(stream[start:end]):
            assembler.add(event)
    assert parser.rest() == b""
    return assembler


def call(number: int, name: str, arguments: str) -> dict[str, Any]:
    return {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": arguments}}


MESSAGES = st.builds(
    lambda content, refusal, reasoning, calls: (
        {"role": "assistant", "content": content}
        | ({"refusal": None} if refusal else {})
        | ({"reasoning_content": reasoning} if reasoning else {})
        | ({"tool_calls": [call(n, "weather", text) for n, text in enumerate(calls)]} if calls else {})
    ),
    content=st.none() | TEXT,
    refusal=st.booleans(),
    reasoning=TEXT,
    calls=st.lists(TEXT, max_size=3),
)


@given(message=MESSAGES, cuts=st.lists(st.integers(min_value=0, max_value=10**6), max_size=8), usage=st.booleans())
def test_a_replayed_answer_assembles_to_itself_whatever_the_reads(message: dict[str, Any], cuts: list[int], usage: bool) -> None:
    answer = {
        "id": "chatcmpl-1",
        "created": 1,
        "model": "gpt-test",
        "object": "chat.completion",
        "system_fingerprint": None,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}],
    }
    if usage:
        answer["usage"] = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    assembler = assemble(replay(answer, include_usage=usage), cuts=cuts)
    assert assembler.done
    assert assembler.finished
    assert not assembler.garbled
    assert assembler.answer() == answer


def test_a_replay_opens_with_the_role_and_ends_with_finish_reason_usage_and_done() -> None:
    message = {"role": "assistant", "content": "word " * 100}
    answer = {"id": "x", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": {"total_tokens": 3}}
    stream = replay(answer, include_usage=True)
    chunks = [json.loads(line[6:]) for line in stream.decode().split("\n\n")[:-2]]
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    pieces = [chunk["choices"][0]["delta"]["content"] for chunk in chunks[1:-2]]
    assert len(pieces) > 5
    assert "".join(pieces) == message["content"]
    assert chunks[-2]["choices"][0] == {"index": 0, "delta": {}, "finish_reason": "stop"}
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"] == {"total_tokens": 3}
    assert stream.endswith(DONE)
    assert b'"usage"' not in replay(answer, include_usage=False)


def test_a_very_long_answer_is_replayed_in_a_bounded_number_of_chunks() -> None:
    answer = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "x" * 500_000}, "finish_reason": "stop"}]}
    assert replay(answer, include_usage=False).count(b"data: ") <= 403


def test_events_end_with_any_line_ending_and_comments_carry_no_data() -> None:
    parser = EventParser()
    events = list(parser.feed(b": keep-alive\n\ndata: a\r\n\r\ndata:b\r\rdata: c\ndata: d\n\ndata: unfin"))
    assert [data_of(event) for event in events] == [None, b"a", b"b", b"c\nd"]
    assert parser.rest() == b"data: unfin"


def test_repeated_ids_roles_and_names_are_not_doubled_and_arguments_are_joined() -> None:
    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        return b"data: " + json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}).encode() + b"\n\n"

    part = {"index": 0, "id": "call_9", "type": "function"}
    stream = (
        chunk({"role": "assistant", "tool_calls": [{**part, "function": {"name": "f", "arguments": '{"a"'}}]})
        + chunk({"role": "assistant", "tool_calls": [{**part, "function": {"name": "f", "arguments": ": 1}"}}]})
        + chunk({}, "tool_calls")
        + DONE
    )
    message = assemble(stream).answer()["choices"][0]["message"]
    assert message == {"role": "assistant", "content": None, "tool_calls": [call(9, "f", '{"a": 1}')]}


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab", max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["index", "function", "arguments", "id", "content"]), inner)
    ),
    max_leaves=8,
)
_fields = st.sampled_from(["role", "content", "reasoning", "refusal", "tool_calls", "function_call", "audio"])
_parts = st.fixed_dictionaries(
    {},
    optional={
        "index": _json,
        "delta": st.dictionaries(_fields, _json) | _json,
        "message": _json,
        "logprobs": _json,
        "finish_reason": _json,
    },
)
_chunks = st.fixed_dictionaries({"choices": st.lists(_parts | _json, max_size=2) | _json}, optional={"usage": _json, "id": _json})


@given(chunks=st.lists(_chunks | _json, max_size=4))
def test_whatever_json_an_upstream_streams_it_is_assembled_and_replayed_or_garbled(chunks: list[Any]) -> None:
    assembler = assemble(b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks) + DONE)
    if not (assembler.garbled or assembler.failed):
        answer = assembler.answer()
        assert replay(answer, include_usage=True).endswith(DONE)


@given(message=st.dictionaries(_fields, _json))
def test_whatever_message_an_upstream_answers_it_is_replayed(message: dict[str, Any]) -> None:
    answer = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    assembler = assemble(replay(answer, include_usage=False))
    assert assembler.finished


def test_nesting_that_could_not_be_written_again_is_garbled() -> None:
    deep = b'data: {"choices": [{"index": 0, "delta": {"x": ' + b"[" * 500 + b"]" * 500 + b"}}]}\n\n"
    assert assemble(deep + DONE).garbled


def test_a_message_repeated_beside_each_delta_is_not_doubled() -> None:
    def chunk(delta: str, so_far: str, finish: str | None) -> bytes:
        part = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": so_far}, "delta": {"content": delta}}
        return b"data: " + json.dumps({"choices": [part]}).encode() + b"\n\n"

    stream = chunk("Hello", "Hello", None) + chunk(" you", "Hello you", "stop") + DONE
    assert assemble(stream).answer()["choices"][0]["message"]["content"] == "Hello you"


def test_a_long_event_costs_its_length_and_not_its_square() -> None:
    parser, piece = EventParser(), b"x" * 16_384
    begun = time.process_time()
    for _ in range(2_000):
        assert list(parser.feed(piece)) == []
    assert len(list(parser.feed(b"\n\n"))) == 1
    assert time.process_time() - begun < 10  # a third of a second, and some 40 s for the square


def test_an_end_cut_in_two_by_a_read_is_found() -> None:
    parser = EventParser()
    found = [event for byte in b"data: a\r\n\r\ndata: b\n\n" for event in parser.feed(bytes([byte]))]
    assert found == [b"data: a\r\n\r\n", b"data: b\n\n"]


def test_what_cannot_be_understood_is_told_apart() -> None:
    assert assemble(b"data: {not json\n\n" + DONE).garbled
    assert assemble(b"data: [1]\n\n" + DONE).garbled
    assert assemble(b'data: {"choices": 4}\n\n' + DONE).garbled
    assert assemble(b'data: {"error": {"message": "m"}}\n\n').failed
    assert assemble(b'data: {"choices": []}\n\n' * 9, max_bytes=50).oversize
    unfinished = assemble(b'data: {"choices": [{"index": 0, "delta": {"content": "a"}}]}\n\n')
    assert not unfinished.done
    assert not unfinished.finished

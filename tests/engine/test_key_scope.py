"""What parts keys beside the body's text: headers that go upstream, the order that an answer follows, what the raw body said."""

from __future__ import annotations

from typing import Any

from engine.keys import canonicalise
from engine.types import Normaliser
from tests.engine.rig import SECRET, chat
from tests.engine.test_keys import canonical


def test_headers_are_part_of_key_and_partition_and_never_run_together() -> None:
    made = [
        canonicalise(chat(), namespace="faq", tenant="acme", model_version="", secret=SECRET, keyed=keyed)
        for keyed in ((), ((b"a", b"bc"),), ((b"ab", b"c"),), ((b"a", b"b"), (b"c", b"")), ((b"a", b"b1:c0:"),))
    ]
    assert len({one.key for one in made}) == len({one.partition for one in made}) == len(made)
    assert made[0] == canonical(chat())
    ruled = canonical(chat(), normaliser=Normaliser.WHITESPACE)
    assert ruled.partition not in {one.partition for one in made}


def _schema(*names: str) -> dict[str, Any]:
    inner = {"type": "object", "properties": {name: {"type": "string", "description": name} for name in names}}
    return {"type": "object", "properties": {"outer": inner}, "required": sorted(names)}


def _asked_for(schema: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        chat(response_format={"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}),
        chat(tools=[{"type": "function", "function": {"name": "f", "parameters": schema}}]),
    ]


def test_the_order_of_a_schemas_properties_is_in_the_key_and_no_other_order() -> None:
    for one, other in zip(_asked_for(_schema("reason", "answer")), _asked_for(_schema("answer", "reason")), strict=True):
        assert canonical(one).key != canonical(other).key
        assert canonical(one).partition != canonical(other).partition
    schema = _schema("reason", "answer")
    shuffled = dict(reversed(schema.items()))
    for one, other in zip(_asked_for(schema), _asked_for(shuffled), strict=True):
        assert canonical(one).key == canonical(other).key

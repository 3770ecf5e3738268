"""One canonical form a request: what must be equal is equal, what may change the answer makes another key."""

from __future__ import annotations

import json
import os
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.encoding import MAX_DEPTH, encode
from engine.errors import InvalidRequest
from engine.keys import Canonical, canonicalise
from engine.normalise import rule_of
from engine.types import GroupFingerprint, Normaliser
from tests.engine.rig import SECRET, chat

GOLDEN = Path(__file__).parents[1] / "golden" / "keys.json"
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
# Alike but for a sign, a raised digit or a letter's case, which compatibility folding or a lower case would make one.
ALMOST = [("What is 2⁵?", "What is 25?"), ("x ≤ 5", "x ≥ 5"), ("-20℃", "20℃"), ("rm -rf /", "rm -rf ."), ("10 Mb/s", "10 MB/s")]


def canonical(
    body: Any,
    *,
    namespace: str = "faq",
    tenant: str = "acme",
    model_version: str = "",
    secret: bytes = SECRET,
    normaliser: Normaliser = Normaliser.NONE,
) -> Canonical:
    return canonicalise(body, namespace=namespace, tenant=tenant, model_version=model_version, secret=secret, normaliser=normaliser)


def _golden_bodies() -> dict[str, dict[str, Any]]:
    tool_turn = [
        {"role": "user", "content": "weather?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "1", "content": "sunny"},
    ]
    return {
        "plain": chat(),
        "system_and_parameters": chat(system="Be brief.", temperature=0.2, max_tokens=100, stop=["x"], seed=7),
        "tools": chat(tools=[TOOL], tool_choice="required"),
        "chinese": chat("如何重置密码？", system="你是客服。"),
        "emoji_and_surrogate": chat("a\ud800b 😀 \0"),
        "tool_result": {"model": "gpt-test", "messages": tool_turn},
        "parts": chat([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]),  # type: ignore[arg-type]
        **{f"sign_{text}": chat(text) for pair in ALMOST for text in pair},
    }


def test_the_golden_vectors_hold() -> None:
    made = {
        name: {**found._asdict(), "fingerprint": found.fingerprint.hex}
        for name, found in ((name, canonical(body, model_version="v1")) for name, body in _golden_bodies().items())
    }
    if os.environ.get("REFRESH_GOLDEN"):
        GOLDEN.write_text(json.dumps(made, indent=1, sort_keys=True) + "\n")
    assert made == json.loads(GOLDEN.read_text())


@pytest.mark.parametrize("normaliser", [Normaliser.NONE, Normaliser.WHITESPACE])
@pytest.mark.parametrize(("one", "other"), ALMOST)
def test_a_sign_a_raised_digit_and_a_letters_case_are_part_of_the_key(one: str, other: str, normaliser: Normaliser) -> None:
    assert canonical(chat(one), normaliser=normaliser).key != canonical(chat(other), normaliser=normaliser).key


@pytest.mark.parametrize(
    "fields",
    [
        {"n": 1, "stream": False},
        {"presence_penalty": 0.0, "frequency_penalty": 0, "logit_bias": {}},
        {"response_format": {"type": "text"}, "stop": None, "seed": None},
        {"stream": True, "stream_options": {"include_usage": True}, "user": "42", "metadata": {"a": "b"}, "store": True},
        {"service_tier": "flex", "prompt_cache_key": "k", "safety_identifier": "u"},
        {"tool_choice": "none", "parallel_tool_calls": True, "modalities": ["text"], "logprobs": False},
    ],
)
def test_defaults_and_fields_without_effect_leave_the_key(fields: dict[str, Any]) -> None:
    assert canonical(chat(**fields)) == canonical(chat())


@pytest.mark.parametrize("name", ["temperature", "top_p", "repetition_penalty"])
def test_an_explicit_one_is_not_what_a_servers_own_configuration_says(name: str) -> None:
    assert canonical(chat(**{name: 1})).key != canonical(chat()).key
    assert canonical(chat(**{name: 1})).key == canonical(chat(**{name: 1.0})).key


def test_spellings_of_one_request_share_a_key() -> None:
    assert canonical(chat(temperature=0.0)).key == canonical(chat(temperature=0)).key
    assert canonical(chat(stop="x")).key == canonical(chat(stop=["x"])).key
    assert canonical(chat([{"type": "text", "text": "hi"}])).key == canonical(chat("hi")).key  # type: ignore[arg-type]
    composed = "caf\u00e9"
    assert canonical(chat(unicodedata.normalize("NFD", composed))).key == canonical(chat(composed)).key
    assert canonical(chat(tools=[TOOL], tool_choice="auto", parallel_tool_calls=True)).key == canonical(chat(tools=[TOOL])).key
    shuffled = dict(reversed(chat(temperature=0.5).items()))
    assert canonical(shuffled).key == canonical(chat(temperature=0.5)).key


@pytest.mark.parametrize(
    ("one", "two"), [("a\u037e é", "a; é"), ("\u212a", "K"), ("\u1fef", "`"), ("\u2329", "\u3008"), ("\ufa10", "\u585a")]
)
def test_a_sign_that_looks_like_another_is_not_the_other(one: str, two: str) -> None:
    assert unicodedata.normalize("NFC", one) == two
    assert canonical(chat(one)).key != canonical(chat(two)).key
    assert canonical(chat("q", system=one)).partition != canonical(chat("q", system=two)).partition


@pytest.mark.parametrize(
    "other",
    [
        chat(temperature=0.5),
        chat(top_p=0.9),
        chat(max_tokens=10),
        chat(max_completion_tokens=10),
        chat(seed=1),
        chat(system="Be brief."),
        chat(tools=[TOOL]),
        chat(response_format={"type": "json_object"}),
        chat(logprobs=True),
        chat(model="gpt-other"),
        {**chat(), "messages": [{"role": "user", "content": "before"}, *chat()["messages"]]},
        {**chat(), "messages": [{**chat()["messages"][0], "name": "bob"}]},
    ],
)
def test_what_changes_the_answer_changes_key_and_partition(other: dict[str, Any]) -> None:
    ours, theirs = canonical(chat()), canonical(other)
    assert ours.key != theirs.key
    assert ours.partition != theirs.partition


def test_namespace_tenant_version_and_secret_separate() -> None:
    forms = [
        canonical(chat()),
        canonical(chat(), namespace="docs"),
        canonical(chat(), tenant="globex"),
        canonical(chat(), model_version="v2"),
        canonical(chat(), secret=b"t" * 32),
    ]
    assert len({form.key for form in forms}) == len({form.partition for form in forms}) == len(forms)


def test_the_last_turns_text_changes_the_key_and_not_the_partition() -> None:
    ours, theirs = canonical(chat("one")), canonical(chat("two"))
    assert ours.key != theirs.key
    assert ours.partition == theirs.partition


def test_max_tokens_and_max_completion_tokens_are_two_fields() -> None:
    assert canonical(chat(max_tokens=5)).key != canonical(chat(max_completion_tokens=5)).key


def test_fields_never_run_together() -> None:
    assert canonical(chat("hi", user=42)).key != canonical(chat("hiuser42")).key
    assert canonical(chat(), namespace="ab", tenant="c").key != canonical(chat(), namespace="a", tenant="bc").key
    two = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    keys = {canonical(chat(text)).key for text in ("ab", "a\nb", two)}  # type: ignore[arg-type]
    assert len(keys) == 3


def test_booleans_and_numbers_are_two_values() -> None:
    assert canonical(chat(logprobs=0)).key != canonical(chat(logprobs=False)).key
    assert encode(True) != encode(1)


def test_the_fingerprint_groups_by_system_prompt_without_its_digits() -> None:
    ours = canonical(chat("one", system="Today is 2026-01-01."))
    assert ours.fingerprint == canonical(chat("two", system="Today is 2027-11-30."), tenant="globex", namespace="x").fingerprint
    assert ours.fingerprint != canonical(chat("one", system="Be rude.")).fingerprint
    assert ours.fingerprint != canonical(chat("one", system="Today is 2026-01-01.", temperature=0)).fingerprint


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("dog bites man", "man bites dog"),
        ("bites bites man", "bites man"),
        ("Can I use this in May?", "Can I use this in may?"),
        ("Let's eat, Grandma", "Let's eat Grandma"),
        ("x\u00b2", "x2"),  # NFKC would take one for the other
        ("speed up", "accelerate"),
        (f"a{'x' * 20_000}", f"b{'x' * 20_000}"),
        (f"{'x' * 20_000}a", f"{'x' * 20_000}b"),
        (f"{'x' * 20_000}", f"{'x' * 20_001}"),
    ],
)
def test_order_case_punctuation_and_every_part_of_a_long_text_stand_in_the_key(one: str, two: str) -> None:
    assert canonical(chat(one)).key != canonical(chat(two)).key
    assert canonical(chat("hi", system=one)).partition != canonical(chat("hi", system=two)).partition


# Normalisers

SPELLINGS = {
    Normaliser.WHITESPACE: ("What is a cache? ", "What is a cache?"),
    Normaliser.SQL: ("select a from t", "SELECT  a\nFROM t;"),
    Normaliser.PYTHON: ("f( 1 )", "f(1)\n"),
}


@pytest.mark.parametrize("kind", SPELLINGS)
def test_spellings_of_one_text_share_a_key_where_the_policy_says_so(kind: Normaliser) -> None:
    one, two = SPELLINGS[kind]
    assert canonical(chat(one)).key != canonical(chat(two)).key
    left, right = (canonical(chat(text, system="Help."), normaliser=kind) for text in (one, two))
    assert left.key == right.key
    assert left.normalised
    assert left.normaliser.startswith(f"{kind.value}/")
    assert left.prompt == one  # what is embedded and compared is what was said


@pytest.mark.parametrize("kind", SPELLINGS)
@pytest.mark.parametrize("before", [[{"role": "user", "content": "Count the blanks."}], [{"role": "assistant", "content": "Yes?"}]])
def test_after_other_turns_a_text_is_left_as_it_was_sent(kind: Normaliser, before: list[dict[str, str]]) -> None:
    bodies = [{"model": "m", "messages": [*before, {"role": "user", "content": text}]} for text in SPELLINGS[kind]]
    bodies += [chat([{"type": "text", "text": "Count the blanks."}, {"type": "text", "text": text}]) for text in SPELLINGS[kind]]  # type: ignore[arg-type]
    found = [canonical(body, normaliser=kind) for body in bodies]
    assert len({one.key for one in found}) == 4
    assert not any(one.normalised for one in found)


def test_a_normaliser_s_keys_and_partitions_meet_no_other_s() -> None:
    found = [canonical(chat("one"), normaliser=kind) for kind in Normaliser]
    assert len({one.key for one in found}) == len({one.partition for one in found}) == len(Normaliser)


@pytest.mark.parametrize("kind", SPELLINGS)
def test_a_text_that_spells_a_normal_form_does_not_meet_it(kind: Normaliser) -> None:
    one, _ = SPELLINGS[kind]
    rule = rule_of(kind).text
    assert rule
    normal = rule(one)
    assert normal
    body = chat([{"type": "text", "text": "normal"}, {"type": "text", "text": normal.form}])  # type: ignore[arg-type]
    keys = {canonical(sent, normaliser=kind).key for sent in (chat(one), chat(f"\t{normal.form}"), body)}
    assert len(keys) == 3


@given(st.sampled_from(list(SPELLINGS)), st.text(st.sampled_from("ab 1'\"(),=;\n-*.:")), st.text(st.sampled_from("ab 1'\"(),=;\n-*.:")))
def test_requests_share_a_key_only_by_their_form(kind: Normaliser, one: str, two: str) -> None:
    rule = rule_of(kind).text
    assert rule
    keys = [canonical(chat(text or " "), normaliser=kind).key for text in (one, two)]
    left, right = (rule(text or " ") for text in (one, two))
    same = left.form == right.form if left and right else (left, one or " ") == (right, two or " ")
    assert (keys[0] == keys[1]) == same


def test_a_template_is_in_the_key_by_its_tree_where_the_policy_says_so() -> None:
    def of(source: object, kind: Normaliser = Normaliser.TEMPLATE, **values: object) -> Canonical:
        return canonical(chat(chat_template=source, chat_template_kwargs=values), normaliser=kind)

    assert of("{{x}}", Normaliser.NONE).bypass == "unknown_field"
    assert [of(source).bypass for source in ("{{x}}", "{{", 5, None)] == ["", "unknown_field", "unknown_field", ""]
    assert of("{{x}}{# note #}", x=1).key == of("{{ x }}", x=1).key
    apart = [of("{{x}}", x=1), of("{{x}} ", x=1), of(None, x=1), *(of("{{x}}", x=value) for value in (1.0, "1", True, [1], {"1": 1}))]
    assert len({one.key for one in apart}) == len({one.partition for one in apart}) == len(apart)


def nested(levels: int) -> Any:
    return json.loads("[" * (levels - 1) + "1" + "]" * (levels - 1))


def test_the_values_of_a_template_keep_type_and_order() -> None:
    def of(value: object) -> str:
        return canonical(chat(chat_template_kwargs={"x": value, "y": 1})).key

    values = [1, 1.0, True, "1", {"a": 1, "b": 2}, {"b": 2, "a": 1}, ["object", "a", 1, "b", 2], ["float", 1.0, "1.0"], 0.0, -0.0, []]
    assert len({of(value) for value in values}) == len(values)
    assert canonical(chat(chat_template_kwargs={"y": 1, "x": 2})).key == canonical(chat(chat_template_kwargs={"x": 2, "y": 1})).key
    deep: Any = 1.0
    for _ in range(5_000):
        deep = [deep]
    with pytest.raises(InvalidRequest, match=str(MAX_DEPTH)):
        of(deep)


def test_a_shape_makes_finer_groups_and_literals_do_not() -> None:
    def group(text: str, kind: Normaliser = Normaliser.SQL) -> GroupFingerprint:
        return canonical(chat(text), normaliser=kind).fingerprint

    assert group("SELECT a FROM t WHERE b = 1") == group("SELECT a FROM t WHERE b = 22")
    assert group("SELECT a FROM t WHERE b = 1") != group("SELECT b FROM t WHERE b = 1")
    assert group("transfer(alice, 10)", Normaliser.PYTHON) != group("delete(prod, 999)", Normaliser.PYTHON)
    assert group("Which is it?") == canonical(chat("Which is it?")).fingerprint
    assert not isinstance(group("SELECT 1"), str)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (chat(retrieval_index="docs"), "unknown_field"),
        (chat(n=2), "multi_choice"),
        (chat(tools=nested(64)), ""),
        (chat(tools=nested(65)), "too_deep"),
        (chat(tools=nested(190)), "too_deep"),
        (chat(chat_template_kwargs={"x": nested(190)}), "too_deep"),
        ({**chat(), "messages": [{"role": "assistant", "tool_calls": nested(190)}, {"role": "user", "content": "x"}]}, "too_deep"),
        (chat([{"type": "image_url", "image_url": {"url": "x"}}]), "non_text"),  # type: ignore[arg-type]
        (chat(modalities=["text", "audio"]), "non_text"),
        ({**chat(), "messages": [{"role": "user", "content": "x", "hidden": 1}]}, "unknown_field"),
    ],
)
def test_what_is_not_understood_is_a_bypass(body: dict[str, Any], reason: str) -> None:
    assert canonical(body).bypass == reason


def test_a_tool_result_is_exact_only() -> None:
    found = canonical(_golden_bodies()["tool_result"])
    assert (found.bypass, found.semantic_skip, found.prompt) == ("", "no_user_turn", "weather?")
    other = _golden_bodies()["tool_result"]
    other["messages"][-1]["content"] = "rain"
    assert canonical(other).key != found.key


def test_surrogates_and_nul_are_escaped_in_the_prompt_and_distinct_in_the_key() -> None:
    found = canonical(chat("a\ud800\0"))
    assert found.prompt == "a\\ud800\\x00"
    assert found.key != canonical(chat("a\\ud800\\x00")).key

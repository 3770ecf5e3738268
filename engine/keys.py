"""A chat request in its one canonical form, and the hashes that say what may serve it.

Everything that may change the answer is in the key; what has no effect on it is dropped by a list; what is not known here makes
the request a bypass. Values are written as tagged, length-prefixed bytes, so that no two requests share a form: `("hi", 42)` is
not `"hi42"`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from engine.digests import hmac_sha256
from engine.encoding import MAX_KEYED_DEPTH, TooDeep, composed, encode, text_bytes
from engine.errors import InvalidRequest
from engine.normalise import Rule, rule_of
from engine.types import GroupFingerprint, Normaliser, ServingKey

# In each hash: another form of the canonical request must never meet an old one's keys.
FORM = b"cachescope/3"

# No effect on the answer's content.
_DROPPED = frozenset(
    {
        "metadata",
        "prompt_cache_key",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "store",
        "stream",
        "stream_options",
        "user",
    }
)
# Change the answer. The second half is what OpenAI-compatible servers (vLLM, SGLang, llama.cpp) add.
_KEYED = frozenset(
    {
        "frequency_penalty",
        "function_call",
        "functions",
        "logit_bias",
        "logprobs",
        "max_completion_tokens",
        "max_tokens",
        "modalities",
        "n",
        "parallel_tool_calls",
        "prediction",
        "presence_penalty",
        "reasoning_effort",
        "response_format",
        "seed",
        "stop",
        "temperature",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "verbosity",
        "chat_template_kwargs",
        "enable_thinking",
        "ignore_eos",
        "min_p",
        "min_tokens",
        "reasoning",
        "repetition_penalty",
        "stop_token_ids",
        "thinking",
        "top_k",
    }
)
# An explicit default asks for the same as its absence, and so does null. `max_tokens` and `max_completion_tokens` are two
# fields: some models refuse one of them and some servers count them differently, so neither stands for the other. Not here:
# `temperature`, `top_p` and `repetition_penalty`, whose absence means what the model's own configuration says on many servers.
_DEFAULTS: Mapping[str, object] = {
    "frequency_penalty": 0,
    "ignore_eos": False,
    "logit_bias": {},
    "logprobs": False,
    "modalities": ["text"],
    "n": 1,
    "presence_penalty": 0,
    "response_format": {"type": "text"},
    "stop": [],
}
_MESSAGE_FIELDS = frozenset(
    {
        "annotations",
        "audio",
        "content",
        "function_call",
        "name",
        "reasoning",
        "reasoning_content",
        "refusal",
        "role",
        "tool_call_id",
        "tool_calls",
    }
)
_TEXT_PARTS = frozenset({"text", "refusal"})
_SYSTEM_ROLES = frozenset({"system", "developer"})
_REMEMBERED_CHARS = 16_384
_TEMPLATE = "chat_template"
_DIGITS = re.compile(r"\d+")


class Canonical(NamedTuple):
    """What the engine knows of a request.

    key: 64 hex. partition: 32 hex, of all but the last user turn's text. fingerprint: 16 hex, the group of system prompt and
    parameters (digits left out), the same for all tenants; for analysis only. prompt: the last user turn, printable: lone
    surrogates and NUL are escaped. prompt_hash: 32 hex. bypass: why it must not be looked up, '' = it may.
    semantic_skip: why it can only be looked up exactly, '' = nothing speaks against it.
    normaliser: its version, '' = none. normalised: whether the key is of a normal form, not of the text as it was sent.
    """

    key: ServingKey
    partition: str
    fingerprint: GroupFingerprint
    prompt: str
    prompt_hash: str
    model: str
    bypass: str = ""
    semantic_skip: str = ""
    normaliser: str = ""
    normalised: bool = False


def canonicalise(
    body: object,
    *,
    namespace: str,
    tenant: str,
    model_version: str,
    secret: bytes,
    normaliser: Normaliser = Normaliser.NONE,
    keyed: Sequence[tuple[bytes, bytes]] = (),
) -> Canonical:
    """Return the canonical form's hashes. secret: the installation's; each tenant's own is derived from it.

    keyed: names and values beside the body that may change the answer, sorted by name.

    Raises InvalidRequest when the body is no chat request.
    """
    if not isinstance(body, Mapping):
        raise InvalidRequest("the body must be a JSON object")
    model = body.get("model")
    if not isinstance(model, str) or not model.strip():
        raise InvalidRequest("the body's model must be a non-empty string")
    sent = body.get("messages")
    if not isinstance(sent, list | tuple) or not sent:
        raise InvalidRequest("the body's messages must be a list of at least one message")
    bypass = _Bypass()
    messages = [_message(index, message, bypass) for index, message in enumerate(sent)]
    rule = None if normaliser is Normaliser.NONE else rule_of(normaliser)
    template = _template(body, rule)
    parameters = _parameters(body, bypass, known="" if template is None else _TEMPLATE)
    texts, skip = _last_turn(messages)
    prompt = "\n".join(texts)
    normal = rule.text(texts[0]) if rule and rule.text and not skip and _stands_alone(messages) else None

    tenant_secret = _tenant_secret(secret, tenant)
    settings = _form(parameters, bypass) if parameters else _NOTHING
    # A number in the place of the text: no message that was sent can have one there.
    blanked = messages if skip else [*messages[:-1], {**messages[-1], "content": len(texts)}]
    scope = [text_bytes(namespace), text_bytes(tenant), text_bytes(model), text_bytes(model_version), settings, _form(blanked, bypass)]
    if rule:
        # One field more than without: what was made under another normaliser, or none, is never met.
        scope += [encode([rule.version, template])]
    if keyed:
        # No encoded value begins like this, so it is no normaliser's field.
        scope += [b"headers:" + b"".join([b"%d:%b%d:%b" % (len(name), name, len(value), value) for name, value in keyed])]
    partition = _hmac(tenant_secret, b"partition", *scope)
    said = [] if skip else [b"normal", text_bytes(normal.form)] if normal else [*map(text_bytes, texts)]
    if rule and not normal:
        said = [b"sent", *said]
    system = [message for message in messages if message["role"] in _SYSTEM_ROLES]
    group = _fingerprint(secret, model, settings, system)
    if normal and normal.shape:
        group = _hmac(secret, b"shape", group.encode(), text_bytes(normal.shape)).hex()[:16]
    return Canonical(
        # The partition's hash stands for all that it covers: the messages are written out once.
        key=ServingKey(_hmac(tenant_secret, b"key", partition, *said).hex()),
        partition=partition.hex()[:32],
        fingerprint=GroupFingerprint(group),
        prompt=printable(prompt),
        prompt_hash=_hmac(tenant_secret, b"prompt", text_bytes(prompt)).hex()[:32],
        model=printable(model),
        bypass=bypass.reason,
        semantic_skip=skip,
        normaliser=rule.version if rule else "",
        normalised=normal is not None or template is not None,
    )


def _template(body: Mapping[object, object], rule: Rule | None) -> str | None:
    """Return the normal form of the request's own template, None when it has none or the rule cannot read it."""
    source = body.get(_TEMPLATE)
    return rule.template(source) if rule and rule.template and isinstance(source, str) else None


def _stands_alone(messages: list[dict[str, object]]) -> bool:
    """Return whether the last turn is one text after nothing but system messages.

    What earlier turns ask for may be about the very blanks that a normaliser leaves out.
    """
    return isinstance(messages[-1].get("content"), str) and all(message["role"] in _SYSTEM_ROLES for message in messages[:-1])


@lru_cache(maxsize=1_024)
def _tenant_secret(secret: bytes, tenant: str) -> bytes:
    return _hmac(secret, b"tenant", text_bytes(tenant))


def _fingerprint(secret: bytes, model: str, settings: bytes, system: list[dict[str, object]]) -> str:
    if len(system) == 1 and len(system[0]) == 2:
        role, content = system[0]["role"], system[0].get("content")
        if isinstance(role, str) and isinstance(content, str) and len(content) + len(settings) <= _REMEMBERED_CHARS:
            return _plain_fingerprint(secret, model, settings, role, content)
    return _group(secret, model, settings, system)


# Most requests come with one of a few system prompts.
@lru_cache(maxsize=512)
def _plain_fingerprint(secret: bytes, model: str, settings: bytes, role: str, content: str) -> str:
    return _group(secret, model, settings, [{"role": role, "content": content}])


def _group(secret: bytes, model: str, settings: bytes, system: list[dict[str, object]]) -> str:
    return _hmac(secret, b"fingerprint", text_bytes(model), settings, _group_form(system)).hex()[:16]


def printable(text: str) -> str:
    """Return the text as every store and wire takes it: lone surrogates and NUL stand escaped."""
    if "\0" in text:
        text = text.replace("\0", "\\x00")
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text


class _Bypass:
    """The first reason found; the whole body is still read, so that a malformed one is always refused."""

    reason = ""

    def add(self, reason: str) -> None:
        self.reason = self.reason or reason


def _message(index: int, message: object, bypass: _Bypass) -> dict[str, object]:
    if not isinstance(message, dict):
        raise InvalidRequest(f"messages[{index}] must be an object")
    role = message.get("role")
    if not isinstance(role, str) or not role:
        raise InvalidRequest(f"messages[{index}].role must be a non-empty string")
    form: dict[str, object] = {"role": role}
    for name, value in message.items():
        # What an earlier answer left empty (`"refusal": null, "annotations": []`) says nothing.
        if name == "role" or value is None or (name in {"annotations", "tool_calls"} and value == []):
            continue
        if name not in _MESSAGE_FIELDS:
            bypass.add("unknown_field")
        if name == "audio":
            bypass.add("non_text")
        form[name] = _content(index, value, bypass) if name == "content" else value
    return form


def _content(index: int, content: object, bypass: _Bypass) -> object:
    """Return a single text as a string and several as a list; anything else as it stands, with a bypass."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list | tuple):
        raise InvalidRequest(f"messages[{index}].content must be a string, a list of parts or null")
    texts: list[object] = []
    for place, part in enumerate(content):
        if not isinstance(part, dict) or not isinstance(part.get("type"), str):
            raise InvalidRequest(f"messages[{index}].content[{place}] must be an object with a type")
        kind = part["type"]
        if kind not in _TEXT_PARTS:
            bypass.add("non_text")
            texts.append(part)
            continue
        text = part.get(kind)
        if not isinstance(text, str):
            raise InvalidRequest(f"messages[{index}].content[{place}].{kind} must be a string")
        if part.keys() - {"type", kind, "cache_control"}:  # a hint for the provider's own prompt cache
            bypass.add("unknown_field")
        texts.append(text if kind == "text" else dict(part))
    if len(texts) == 1 and isinstance(texts[0], str):
        return texts[0]
    return texts


def _parameters(body: Mapping[object, object], bypass: _Bypass, *, known: str = "") -> dict[str, object]:
    """Return what of the body is in the key beside model and messages. known: a field that is in the key in another way."""
    kept: dict[str, object] = {}
    for name, value in body.items():
        if not isinstance(name, str):
            raise InvalidRequest("the body's field names must be strings")
        if name in {"model", "messages"} or name in _DROPPED or value is None or name == known:
            continue
        if name not in _KEYED:
            bypass.add("unknown_field")
        if name == "chat_template_kwargs" and isinstance(value, dict):
            value = _typed_values(value, bypass)  # noqa: PLW2901 - the template prints them
        if name == "stop" and isinstance(value, str):
            value = [value]  # noqa: PLW2901 - the one spelling for the rest of this turn
        if name not in _DEFAULTS or not _same(value, _DEFAULTS[name]):
            kept[name] = value
    if "n" in kept:
        bypass.add("multi_choice")
    if "modalities" in kept:
        bypass.add("non_text")
    # Without tools nothing can be chosen, and with them `auto` and parallel calls are the default.
    tools = bool(kept.get("tools"))
    if kept.get("tool_choice") == ("auto" if tools else "none"):
        del kept["tool_choice"]
    if not tools or kept.get("parallel_tool_calls") is True:
        kept.pop("parallel_tool_calls", None)
    return kept


def _form(value: object, bypass: _Bypass) -> bytes:
    """Return the canonical bytes. What is nested deeper than a request has reason to be is not looked up."""
    try:
        return encode(value, MAX_KEYED_DEPTH)
    except TooDeep:
        bypass.add("too_deep")
        return encode(value)


def _typed_values(values: Mapping[object, object], bypass: _Bypass) -> Mapping[object, object]:
    try:
        return {given: _typed(item) for given, item in values.items()}
    except TooDeep:
        bypass.add("too_deep")
        return values


def _typed(value: object, depth: int = MAX_KEYED_DEPTH) -> object:
    """Return a template's value with its type and order: it prints 1.0 and 1 differently, and may list an object."""
    if depth == 0:
        raise TooDeep(MAX_KEYED_DEPTH)
    if isinstance(value, dict):
        return ["object", *(part for name, item in value.items() for part in (name, _typed(item, depth - 1)))]
    if isinstance(value, list | tuple):
        return ["list", *(_typed(item, depth - 1) for item in value)]
    return ["float", value, repr(value)] if isinstance(value, float) else value


def _same(value: object, default: object) -> bool:
    # True == 1 in Python; in JSON they are two values.
    return isinstance(value, bool) == isinstance(default, bool) and value == default


def _last_turn(messages: list[dict[str, object]]) -> tuple[list[str], str]:
    """Return the texts of the last user turn and why they cannot be compared, '' = they can."""
    if messages[-1]["role"] == "user" and isinstance(text := messages[-1].get("content"), str):
        return [composed(text)], "" if text.strip() else "no_user_turn"
    last = next((message for message in reversed(messages) if message["role"] == "user"), None)
    content = last.get("content") if last else None
    parts = content if isinstance(content, list) else [content]
    texts = [part for part in parts if isinstance(part, str)]
    alone = last is messages[-1] and len(texts) == len(parts) and any(text.strip() for text in texts)
    return [composed(text) for text in texts], "" if alone else "no_user_turn"


def _group_form(system: list[dict[str, object]]) -> bytes:
    # A date or a number in a system prompt must not make a group of its own each day.
    return encode([{**message, "content": _without_digits(message.get("content"))} for message in system])


def _without_digits(content: object) -> object:
    if isinstance(content, str):
        return _DIGITS.sub("0", content)
    if isinstance(content, list):
        return [_without_digits(part) for part in content]
    return content


def _hmac(secret: bytes, purpose: bytes, *fields: bytes) -> bytes:
    framed = [b"%d:%b" % (len(field), field) for field in (FORM, purpose, *fields)]
    return hmac_sha256(secret, b"".join(framed))


_NOTHING = encode({})

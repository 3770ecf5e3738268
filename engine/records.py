"""The control records of the store as values, and back to JSON. A record that cannot be read errs on the side of serving nothing.

`policy:<namespace>`, `generations:<namespace>`, `purge:<id>`, `key:<id>`, `gateway:<id>`; their versions are the store's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

import orjson

from engine.errors import InvalidSetting, StoreCorrupt
from engine.tiers.base import ControlDoc
from engine.types import Generations, Judging, Normaliser, Policy, Score, Switch, VerifyMode

POLICY = "policy:"
GENERATIONS = "generations:"
PURGE = "purge:"
KEY = "key:"
GATEWAY = "gateway:"

MAX_TTL_S = 366 * 86_400.0
MAX_VERSION = 2**31 - 1  # of a score, and of its features
MAX_WEIGHT = 1e9  # of a score, either way; its features are of unit size
_MOST_WEIGHTS = 64


class BadRecord(StoreCorrupt):
    """A control record that is not what this version writes."""


@dataclass(frozen=True, slots=True)
class TenantKey:
    """A tenant's API key. hash: SHA-256 of its secret, 64 hex; `*` in a list allows all; revoked_ms: None = in force.

    scope: what its holders are authorised for, '' = no more than the tenant; keys of other scopes share no answers with it.
    """

    id: str
    tenant: str
    hash: str
    namespaces: tuple[str, ...]
    model_versions: tuple[str, ...]
    created_ms: int
    revoked_ms: int | None = None
    scope: str = ""


@dataclass(frozen=True, slots=True)
class Purge:
    """A purge as recorded. state: hidden, undoing, undone or reclaimed.

    old_live: the generations it hid; new: the one it began. entries: how many it hid; None = the counting was cut off.
    """

    id: str
    namespace: str
    old_live: tuple[str, ...]
    new: str
    at_ms: int
    state: str = "hidden"
    entries: int | None = None


@dataclass(frozen=True, slots=True)
class GatewayInfo:
    """A gateway's heartbeat. token: the control token that it has applied."""

    id: str
    url: str
    pid: int
    started_ms: int
    last_ms: int
    token: int


def value_of(doc: ControlDoc) -> dict[str, Any]:
    """Return a record's JSON object. Raises BadRecord."""
    try:
        value = orjson.loads(doc.value)
    except orjson.JSONDecodeError as error:
        raise BadRecord(f"the control record {doc.key!r} is not JSON") from error
    if not isinstance(value, dict):
        raise BadRecord(f"the control record {doc.key!r} is not a JSON object")
    return value


def json_of(value: Mapping[str, Any]) -> str:
    return orjson.dumps(value).decode()


# Policies

_FIELDS = ("switch", "threshold", "ttl_s", "verify_mode", "holdout_ratio", "normaliser", "score", "judge")
_CHOICES: Mapping[str, type[StrEnum]] = {"switch": Switch, "verify_mode": VerifyMode, "normaliser": Normaliser, "judge": Judging}


def checked_policy(changes: Mapping[str, object]) -> dict[str, Any]:
    """Return the changes, each checked. Raises InvalidSetting, which names the field and what it takes."""
    unknown = changes.keys() - set(_FIELDS)
    if unknown:
        raise InvalidSetting(f"a policy has no field {sorted(unknown)[0]!r}; it has {', '.join(_FIELDS)}")
    return {name: _field(name, value) for name, value in changes.items()}


def _field(name: str, value: object) -> object:
    if name in _CHOICES:
        kind = _CHOICES[name]
        if not isinstance(value, str) or value not in set(kind):
            raise InvalidSetting(f"{name} must be one of {', '.join(kind)}; it is {value!r}")
        return kind(value)
    if value is None:
        return None
    if name == "score":
        return score_of(value)
    low, high = {"threshold": (-1.0, 1.0), "ttl_s": (1.0, MAX_TTL_S), "holdout_ratio": (0.0, 1.0)}[name]
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
    if not low <= number <= high:  # false for NaN as well
        raise InvalidSetting(f"{name} must be a number from {low:g} to {high:g}; it is {value!r}")
    return float(number)


def score_of(value: object) -> Score:
    """Return a score as it is recorded. Raises InvalidSetting."""
    fields: Mapping[str, Any] = value if isinstance(value, Mapping) else {}
    weights = fields.get("weights")
    numbers = [*(weights if isinstance(weights, list | tuple) else [None]), fields.get("bias"), fields.get("cut")]
    whole: list[Any] = [fields.get("version"), fields.get("features")]
    sound = all(_within(one, -MAX_WEIGHT, MAX_WEIGHT) for one in numbers) and _within(fields.get("cut"), 0, 1)
    if not sound or not all(_within(one, 1, MAX_VERSION) and one == int(one) for one in whole) or len(numbers) > _MOST_WEIGHTS:
        raise InvalidSetting(
            "score must be an object of version, features (both whole numbers from 1), weights (a list of numbers), bias (a number) and "
            "cut (a probability from 0 to 1), or null for none"
        )
    return Score(
        version=int(fields["version"]),
        features=int(fields["features"]),
        weights=tuple(float(one) for one in fields["weights"]),
        bias=float(fields["bias"]),
        cut=float(fields["cut"]),
    )


def _within(value: object, low: float, high: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high


def score_json(given: Score) -> dict[str, Any]:
    return {**asdict(given), "weights": list(given.weights)}


def policy_of(doc: ControlDoc, defaults: Policy) -> Policy:
    """Return the policy in force. Fields that it does not set are the installation's. Raises BadRecord."""
    value = value_of(doc)
    try:
        fields = checked_policy({name: value[name] for name in _FIELDS if name in value})
    except InvalidSetting as error:
        raise BadRecord(f"the control record {doc.key!r}: {error}") from error
    return replace(defaults, version=doc.version, **fields)


def policy_or_off(doc: ControlDoc, defaults: Policy) -> Policy:
    """Return the policy in force; for one that cannot be read, off: it may have said so."""
    try:
        return policy_of(doc, defaults)
    except BadRecord:
        return Policy(version=doc.version, switch=Switch.OFF)


def made_by(doc: ControlDoc) -> str:
    """Return the operation id of the act that made a policy record, '' when none is named."""
    try:
        return str(value_of(doc).get("operation_id") or "")
    except BadRecord:
        return ""


def policy_record(doc: ControlDoc | None, changes: Mapping[str, object], *, operation_id: str = "") -> str:
    """Return the record with these fields changed; those never set stay absent, and so the installation's.

    operation_id: the act that made it, so that its repetition is recognised. Raises InvalidSetting.
    """
    checked = checked_policy(changes)
    given = checked.get("score")
    if given is not None:
        from engine.verify import score  # noqa: PLC0415 - it brings the word lists: time and memory for the few who set a score

        if not score.fits(given):
            raise InvalidSetting(
                f"the score has {len(given.weights)} weights for features of version {given.features}; this gateway computes "
                f"{len(score.FEATURES)} of version {score.VERSION}: fit the score anew"
            )
        checked["score"] = score_json(given)
    try:
        before = value_of(doc) if doc else {}
    except BadRecord:
        before = {}  # it served nothing; this change replaces it
    kept = {name: before[name] for name in _FIELDS if name in before}
    fields = {**kept, **checked}
    if fields.get("ttl_s", 0) is None:
        del fields["ttl_s"]  # the installation's
    return json_of({**fields, "operation_id": operation_id})


# Generations and purges


def generations_of(doc: ControlDoc) -> Generations:
    """Raises BadRecord."""
    value = value_of(doc)
    write, live = value.get("write"), value.get("live")
    if not isinstance(write, str) or not _strings(live):
        raise BadRecord(f"the control record {doc.key!r} has no generations")
    return Generations(write=write, live=frozenset(live or ()))


def generations_or_none(doc: ControlDoc) -> Generations:
    """Return the generations; for a record that cannot be read, none: nothing is seen, in any gateway."""
    try:
        return generations_of(doc)
    except BadRecord:
        return Generations()


def generations_json(generations: Generations, *, first: bool = False, last: Purge | None = None) -> str:
    """Return the record. first: a store made it, no purge has touched it. last: the purge that made it, safe from a crash so."""
    value: dict[str, Any] = {"write": generations.write, "live": sorted(generations.live)}
    if first:
        value["first"] = generations.write
    if last is not None:
        value["last"] = orjson.Fragment(purge_json(last))
    return json_of(value)


def unpurged_of(doc: ControlDoc) -> str:
    """Return the write token of a record that a store made and no purge has touched, else ''. Raises BadRecord."""
    value = value_of(doc)
    first = value.get("first")
    return first if isinstance(first, str) and first == value.get("write") else ""


def last_purge_of(doc: ControlDoc) -> Purge | None:
    """Return the purge that made this generations record, None when none did. Raises BadRecord."""
    last = value_of(doc).get("last")
    return purge_of(str(last.get("operation_id") or ""), last) if isinstance(last, dict) else None


def purge_of(purge_id: str, value: Mapping[str, Any]) -> Purge:
    """Raises BadRecord."""
    entries = value.get("entries")
    if not (isinstance(value.get("namespace"), str) and isinstance(value.get("new"), str) and _strings(value.get("old_live"))):
        raise BadRecord(f"the record of the purge {purge_id!r} is incomplete")
    return Purge(
        id=purge_id,
        namespace=value["namespace"],
        old_live=tuple(value["old_live"]),
        new=value["new"],
        at_ms=_whole(value.get("at_ms")),
        state=str(value.get("state") or "hidden"),
        entries=entries if isinstance(entries, int) else None,
    )


def purge_json(purge: Purge) -> str:
    return json_of(
        {
            "namespace": purge.namespace,
            "old_live": list(purge.old_live),
            "new": purge.new,
            "at_ms": purge.at_ms,
            "state": purge.state,
            "operation_id": purge.id,
            "entries": purge.entries,
        }
    )


# Keys and gateways


def key_of(doc: ControlDoc) -> TenantKey:
    """Return the key; one that cannot be read is a key that nobody holds, so that authentication stays on."""
    key_id = doc.key.removeprefix(KEY)
    try:
        value = value_of(doc)
        revoked = value.get("revoked_ms")
        if not (isinstance(value.get("hash"), str) and _strings(value.get("namespaces")) and _strings(value.get("model_versions"))):
            raise BadRecord(f"the control record {doc.key!r} is incomplete")
    except BadRecord:
        return TenantKey(key_id, "", "", (), (), 0, revoked_ms=0)
    return TenantKey(
        id=key_id,
        tenant=str(value.get("tenant") or ""),
        hash=value["hash"],
        namespaces=tuple(value["namespaces"]),
        model_versions=tuple(value["model_versions"]),
        created_ms=_whole(value.get("created_ms")),
        revoked_ms=None if revoked is None else _whole(revoked),
        scope=str(value.get("scope") or ""),
    )


def key_json(key: TenantKey) -> str:
    return json_of(
        {
            "tenant": key.tenant,
            "hash": key.hash,
            "namespaces": list(key.namespaces),
            "model_versions": list(key.model_versions),
            "created_ms": key.created_ms,
            "revoked_ms": key.revoked_ms,
            "scope": key.scope,
        }
    )


def gateway_of(doc: ControlDoc) -> GatewayInfo:
    """Raises BadRecord."""
    value = value_of(doc)
    numbers = [_whole(value.get(name)) for name in ("pid", "started_ms", "last_ms", "token")]
    return GatewayInfo(doc.key.removeprefix(GATEWAY), str(value.get("url") or ""), *numbers)


def gateway_json(info: GatewayInfo) -> str:
    return json_of({"url": info.url, "pid": info.pid, "started_ms": info.started_ms, "last_ms": info.last_ms, "token": info.token})


def _strings(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _whole(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0

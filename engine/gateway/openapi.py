"""The control API described in OpenAPI 3.1: what each request takes and gives. Served under /control/v1/openapi.json.

The description stands beside the handlers, and tests hold the two equal: every route is described, and a client that is made
from the description alone (schemathesis) finds no answer that it does not tell of.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.control import MAX_SCOPE_CHARS
from engine.naming import MAX_NAME_CHARS
from engine.records import MAX_TTL_S, MAX_VERSION, MAX_WEIGHT
from engine.types import Judging, Normaliser, Outcome, Switch, VerifyMode
from engine.verify import score

Schema = dict[str, Any]

PREFIX = "/control/v1"
MAX_BATCH = 10_000
MAX_KEYS = 1_000  # of lookups, asked for at once

_NAME: Schema = {"type": "string", "minLength": 1, "maxLength": MAX_NAME_CHARS, "pattern": r"^[^\x00-\x1f\x7f-\x9f]+$"}
_MAY_BE_EMPTY: Schema = {**_NAME, "minLength": 0, "pattern": r"^[^\x00-\x1f\x7f-\x9f]*$"}
_TEXT: Schema = {"type": "string"}
_INTEGER: Schema = {"type": "integer"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_YES: Schema = {"type": "boolean"}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _map(values: Schema) -> Schema:
    return {"type": "object", "additionalProperties": values}


def _number(low: float, high: float) -> Schema:
    return {"type": "number", "minimum": low, "maximum": high}


def _object(optional: Mapping[str, Schema] | None = None, /, **required: Schema) -> Schema:
    return {"type": "object", "properties": {**required, **(optional or {})}, "required": [*required]}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


_WHOLE: Schema = {"type": "integer", "minimum": 1, "maximum": MAX_VERSION}
# As it is taken; what is in force may be of an older version of the features, which then vetoes everything.
_SCORE = _object(
    version=_WHOLE,
    features={"const": score.VERSION},
    weights={"type": "array", "items": _number(-MAX_WEIGHT, MAX_WEIGHT), "minItems": len(score.FEATURES), "maxItems": len(score.FEATURES)},
    bias=_number(-MAX_WEIGHT, MAX_WEIGHT),
    cut=_number(0, 1),
)
_SCORE_IN_FORCE = _object(version=_WHOLE, features=_WHOLE, weights=_list({"type": "number"}), bias={"type": "number"}, cut=_number(0, 1))
_POLICY_FIELDS: dict[str, Schema] = {
    "switch": {"enum": [*Switch]},
    "threshold": _or_null(_number(-1, 1)),
    "ttl_s": _number(1, MAX_TTL_S),
    "verify_mode": {"enum": [*VerifyMode]},
    "holdout_ratio": _or_null(_number(0, 1)),
    "normaliser": {"enum": [*Normaliser]},
    "score": _or_null(_SCORE_IN_FORCE),
    "judge": {"enum": [*Judging]},
}
_HEAD = _object(
    **dict.fromkeys(("entry_id", "key", "partition", "namespace", "tenant", "model", "generation", "prompt"), _TEXT),
    **dict.fromkeys(("created_ms", "expires_ms", "size_bytes"), _INTEGER),
    cost_usd=_or_null({"type": "number"}),
)
_GATEWAY = _object(id=_TEXT, url=_TEXT, **dict.fromkeys(("pid", "started_ms", "last_ms", "token"), _INTEGER), applied=_YES)
_BREAKER = _object(dependency=_TEXT, operation=_TEXT, state=_TEXT, opened=_COUNT, refused=_COUNT)
_FAILING = _object(model=_TEXT, state=_TEXT, opened=_COUNT, in_flight=_COUNT, waiting=_COUNT)
_CHAT = _object(
    model={"type": "string", "pattern": r"^\S[^\x00-\x1f\x7f-\x9f]*$"},
    messages={"type": "array", "minItems": 1, "items": _object({"content": _or_null(_TEXT)}, role={"type": "string", "minLength": 1})},
)

_SCHEMAS: dict[str, Schema] = {
    "Error": _object(error=_object(code=_TEXT, message=_TEXT)),
    "Policy": _object(version=_COUNT, **_POLICY_FIELDS),
    "Changes": {
        "type": "object",
        "properties": {**_POLICY_FIELDS, "ttl_s": _or_null(_POLICY_FIELDS["ttl_s"]), "score": _or_null(_SCORE)},
        "additionalProperties": False,
        "minProperties": 1,
    },
    "Purge": _object(
        id=_TEXT,
        namespace=_TEXT,
        old_live=_list(_TEXT),
        new=_TEXT,
        at_ms=_INTEGER,
        state={"enum": ["hidden", "undoing", "undone", "reclaimed"]},
        entries=_or_null(_COUNT),
    ),
    "Key": _object(
        {"key": _TEXT},
        id=_TEXT,
        tenant=_TEXT,
        namespaces=_list(_TEXT),
        model_versions=_list(_TEXT),
        created_ms=_INTEGER,
        revoked_ms=_or_null(_INTEGER),
        scope=_TEXT,
    ),
    "Namespace": _object(
        name=_TEXT,
        policy=_ref("Policy"),
        live=_list(_TEXT),
        purges=_list(_object(id=_TEXT, at_ms=_INTEGER, state=_TEXT, entries=_or_null(_COUNT))),
    ),
    "Preview": _object(
        namespace=_TEXT,
        entries=_COUNT,
        bytes=_COUNT,
        tenants=_map(_COUNT),
        models=_map(_COUNT),
        oldest_ms=_or_null(_INTEGER),
        newest_ms=_or_null(_INTEGER),
        value_usd=_or_null({"type": "number"}),
        sample=_list(_HEAD),
        live=_list(_TEXT),
    ),
    "State": _object(
        gateway_id=_TEXT,
        started_ms=_INTEGER,
        control_token=_INTEGER,
        control_age_ms=_or_null(_COUNT),
        store=_object(url_scheme=_TEXT, ok=_YES, error=_TEXT),
        embedder=_object(id=_TEXT, dimension=_COUNT, ok=_YES, reason=_TEXT),
        judge=_object(configured=_YES),
        upstream=_object(configured=_YES, host=_TEXT, failing=_list(_FAILING)),
        breakers=_list(_BREAKER),
        keys=_COUNT,
        processes=_list(_object(process=_COUNT, gateway_id=_TEXT, pid=_or_null(_INTEGER), up=_YES)),
        counters={"type": "object"},
        prompts_recorded=_YES,
        demo=_YES,
    ),
}

_IN_QUERY = [{"name": "namespace", "in": "query", "required": True, "schema": _NAME}]
_IN_PATH = [{"name": "key_id", "in": "path", "required": True, "schema": {"type": "string", "pattern": "^[0-9a-f]+$"}}]
_OPERATION = {"operation_id": _NAME}


def _operation(summary: str, answer: Schema, *statuses: int, body: Schema | None = None, parameters: list[Schema] | None = None) -> Schema:
    """Return an operation. statuses: the errors that it may come to beside those that all may."""
    every = {401, 403, 500, 503, *statuses, *((400, 413) if body else ()), *((400,) if parameters else ())}
    failed = {"description": "what failed", "content": {"application/json": {"schema": _ref("Error")}}}
    told: Schema = {
        "summary": summary,
        "responses": {
            "200": {"description": "done", "content": {"application/json": {"schema": answer}}},
            **{str(status): failed for status in sorted(every)},
        },
    }
    if parameters:
        told["parameters"] = parameters
    if body:
        told["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    return told


PATHS: dict[str, dict[str, Schema]] = {
    "/openapi.json": {"get": _operation("this description", {"type": "object"})},
    "/state": {"get": _operation("what this gateway is", _ref("State"))},
    "/namespaces": {
        "get": _operation("policies, live generations, purges that can be undone", _object(namespaces=_list(_ref("Namespace"))))
    },
    "/preview": {"get": _operation("what a purge would hide", _ref("Preview"), parameters=_IN_QUERY)},
    "/visible": {"get": _operation("how many entries may be seen", _object(visible=_COUNT, control_token=_INTEGER), parameters=_IN_QUERY)},
    "/stored": {
        "post": _operation(
            "which of these keys of lookups have an entry that may be served now",
            _object(stored=_list(_TEXT)),
            body=_object(
                namespace=_NAME, keys={"type": "array", "maxItems": MAX_KEYS, "items": {"type": "string", "pattern": "^[0-9a-f]{64}$"}}
            ),
        )
    },
    "/purge": {"post": _operation("hide a namespace's entries", _ref("Purge"), 409, body=_object(namespace=_NAME, operation_id=_NAME))},
    "/undo": {"post": _operation("bring back what a purge hid", _ref("Purge"), 404, 409, body=_object(_OPERATION, purge_id=_NAME))},
    "/reclaim": {
        "post": _operation(
            "delete what nobody can see",
            _object(deleted=_COUNT, remaining=_COUNT),
            404,
            409,
            body=_object({**_OPERATION, "batch": {"type": "integer", "minimum": 1, "maximum": MAX_BATCH}}, purge_id=_NAME),
        )
    },
    "/policy": {
        "post": _operation(
            "change fields of a namespace's policy",
            _object(policy=_ref("Policy")),
            409,
            body=_object(namespace=_NAME, changes=_ref("Changes"), expected_version={**_COUNT, "maximum": 2**53}, operation_id=_NAME),
        )
    },
    "/warm": {
        "post": _operation(
            "ask once for the sake of the cache",
            _object(outcome={"enum": [*Outcome]}, stored=_YES, entry_id=_TEXT, reason=_TEXT),
            502,
            504,
            body=_object(
                {**_OPERATION, **dict.fromkeys(("model_version", "adapter", "retrieval_version", "scope"), _MAY_BE_EMPTY)},
                namespace=_NAME,
                tenant=_NAME,
                body=_CHAT,
            ),
        )
    },
    "/keys": {
        "get": _operation("all tenant keys, revoked ones too", _object(keys=_list(_ref("Key")))),
        "post": _operation(
            "make a key; its secret is shown once",
            _ref("Key"),
            409,
            body=_object(
                {
                    **{name: {"type": "array", "minItems": 1, "items": _NAME} for name in ("namespaces", "model_versions")},
                    "scope": {"type": "string", "maxLength": MAX_SCOPE_CHARS, "pattern": r"^[^\x00-\x1f\x7f-\x9f]*$"},
                },
                tenant=_NAME,
            ),
        ),
    },
    "/keys/{key_id}": {"delete": _operation("revoke a key", _ref("Key"), 404, parameters=_IN_PATH)},
    "/gateways": {"get": _operation("all live gateways", _object(control_token=_INTEGER, gateways=_list(_GATEWAY)))},
}


def description() -> dict[str, Any]:
    """Return the OpenAPI document."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "Cachescope control API", "version": "1"},
        "paths": {PREFIX + path: operations for path, operations in PATHS.items()},
        "components": {"schemas": _SCHEMAS, "securitySchemes": {"admin": {"type": "http", "scheme": "bearer"}}},
        "security": [{"admin": []}],
    }

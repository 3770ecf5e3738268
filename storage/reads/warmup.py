"""What could be warmed: the most frequent recorded misses, and the requests that asked for them."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, and_, case, func, or_, select

from storage.models import telemetry_metadata
from storage.payloads import unpack

# Attribute names of engine.semconv; storage and engine never import each other (a test holds them equal).
PROMPT_ATTRIBUTE = "cachescope.prompt"
BODY_ATTRIBUTE = "cachescope.request.body"
HEADERS_ATTRIBUTE = "cachescope.keyed_headers"
ADAPTER_ATTRIBUTE, RETRIEVAL_ATTRIBUTE = "cachescope.adapter", "cachescope.retrieval_version"
SCOPE_ATTRIBUTE = "cachescope.authorisation_scope"

LOOKED_AT = 3  # newest lookups of a key whose payload is searched for the request: recording may have been off for the last
_MOST = 1e12  # tokens, US dollars or ms of one request: more is no report either
_CHUNK = 200  # keys a query: far below SQLite's limit of variables

lookups = telemetry_metadata.tables["lookups"]
spans = telemetry_metadata.tables["spans"]
payloads = telemetry_metadata.tables["span_payloads"]


@dataclass(frozen=True, slots=True)
class MissedRequest:
    """One distinct request that missed. misses: how often, coalesced ones included.

    Averages are over those that reported; a number below 0 or beyond all measure is no report.
    """

    key: str
    tenant: str
    model: str
    model_version: str
    misses: int
    prompt: str | None
    input_tokens: float | None
    output_tokens: float | None
    cost_usd: float | None
    upstream_ms: float | None


@dataclass(frozen=True, slots=True)
class RecordedBody:
    """A recorded request, and what parts its key beside the body. body: None with the reason when it cannot be sent again.

    reason: prompts_not_recorded | keyed_headers (a header is part of the key, and its value is not recorded) | body_too_large |
    body_unreadable.
    """

    body: dict[str, object] | None
    reason: str = ""
    adapter: str = ""
    retrieval_version: str = ""
    scope: str = ""


def _missed(namespace: str, since_ms: int, until_ms: int, tenant: str | None) -> ColumnElement[bool]:
    column = lookups.c
    wanted = and_(
        column.namespace == namespace,
        column.at_ms >= since_ms,
        column.at_ms < until_ms,
        column.dialect == "native",
        column.cache_kind == "response",
        column.purpose == "traffic",
        column.outcome.in_(["miss", "coalesced"]),
        or_(column.held_out.is_(None), column.held_out.is_(False)),  # a held-out lookup had its answer in the cache
        column.key != "",
    )
    return wanted if tenant is None else and_(wanted, column.tenant == tenant)


def count_missed(conn: Connection, *, namespace: str, since_ms: int, until_ms: int, tenant: str | None = None) -> tuple[int, int]:
    """Return how many distinct requests missed, and how many misses that were."""
    row = conn.execute(
        select(func.count(func.distinct(lookups.c.key)), func.count()).where(_missed(namespace, since_ms, until_ms, tenant))
    ).one()
    return int(row[0]), int(row[1])


def most_missed(
    conn: Connection, *, namespace: str, since_ms: int, until_ms: int, limit: int, tenant: str | None = None
) -> list[MissedRequest]:
    """Return the `limit` most frequent distinct misses of [since_ms, until_ms), most frequent first, then by key."""
    column = lookups.c
    misses = func.count().label("misses")
    query = (
        select(
            column.key,
            func.max(column.tenant),
            func.max(column.model),
            func.max(column.model_version),
            misses,
            func.max(column.prompt),
            *(
                func.avg(case((told.between(0, _MOST), told)))
                for told in (column.input_tokens, column.output_tokens, column.cost_usd, column.upstream_ms)
            ),
        )
        .where(_missed(namespace, since_ms, until_ms, tenant))
        .group_by(column.key)
        .order_by(misses.desc(), column.key)
        .limit(limit)
    )
    return [MissedRequest(*row) for row in conn.execute(query)]


def bodies(conn: Connection, *, namespace: str, since_ms: int, until_ms: int, keys: Collection[str]) -> dict[str, RecordedBody]:
    """Return the newest recorded request of each key; every key asked for has an answer."""
    found: dict[str, RecordedBody] = {}
    wanted = sorted(keys)
    for start in range(0, len(wanted), _CHUNK):
        _read_bodies(conn, found, _missed(namespace, since_ms, until_ms, None), wanted[start : start + _CHUNK])
    return {key: found.get(key, RecordedBody(None, "prompts_not_recorded")) for key in wanted}


def _read_bodies(conn: Connection, found: dict[str, RecordedBody], missed: ColumnElement[bool], keys: list[str]) -> None:
    rank = func.row_number().over(partition_by=lookups.c.key, order_by=(lookups.c.at_ms.desc(), lookups.c.id.desc())).label("rank")
    newest = select(lookups.c.key, lookups.c.trace_id, lookups.c.span_id, rank).where(missed, lookups.c.key.in_(keys)).subquery("newest")
    query = (
        select(newest.c.key, payloads.c.payload)
        .join(spans, and_(spans.c.trace_id == newest.c.trace_id, spans.c.span_id == newest.c.span_id))
        .join(payloads, payloads.c.span_id == spans.c.id)
        .where(newest.c.rank <= LOOKED_AT)
        .order_by(newest.c.key, newest.c.rank)
    )
    for key, payload in conn.execute(query):
        if key not in found or found[key].body is None:
            read = _body(payload)
            if key not in found or read.body is not None:
                found[key] = read


def _body(payload: bytes) -> RecordedBody:
    try:
        attributes = json.loads(unpack(payload))["attributes"]
        text = attributes.get(BODY_ATTRIBUTE)
        if attributes.get(HEADERS_ATTRIBUTE) and attributes.get(PROMPT_ATTRIBUTE):
            return RecordedBody(None, "keyed_headers")
        if text is None:
            return RecordedBody(None, "body_too_large" if attributes.get(PROMPT_ATTRIBUTE) else "prompts_not_recorded")
        body = json.loads(text)
        named = [str(attributes.get(name, "")) for name in (ADAPTER_ATTRIBUTE, RETRIEVAL_ATTRIBUTE, SCOPE_ATTRIBUTE)]
    except (ValueError, KeyError, TypeError, AttributeError):
        return RecordedBody(None, "body_unreadable")
    return RecordedBody(body, "", *named) if isinstance(body, dict) else RecordedBody(None, "body_unreadable")

"""Model calls as their senders told them, and the scores of their caches. Each call once: `spans.is_call`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, text

from storage.reads.window import Scope, Window, newest_from

MOST_CALLS = 100_000  # the newest of a window; a page's table needs no more, and reads them in about 0.2 s
MOST_SCORES = 5_000
MOST_HITS = 5_000  # the newest lookups of a window that are searched for answers that were errors


@dataclass(frozen=True, slots=True)
class Use:
    """Calls of one model by one service, counted by one token rule. Sums are over those that reported; `_n` says how many.

    input_tokens: cached ones included. known_input_tokens: of the calls that told of cached tokens, the only fair denominator.
    """

    service: str
    provider: str
    model: str
    token_rule: str
    calls: int
    failed: int
    input_n: int
    input_tokens: int
    output_tokens: int
    cached_n: int
    cached_tokens: int
    known_input_tokens: int
    raw_input_tokens: int
    cost_n: int
    cost_usd: float


_USES = text(
    """
SELECT service, provider, model, token_rule, count(*), sum(status = 2), count(input_tokens), CAST(total(input_tokens) AS INTEGER),
  CAST(total(output_tokens) AS INTEGER), count(cached_input_tokens), CAST(total(cached_input_tokens) AS INTEGER),
  CAST(total(CASE WHEN cached_input_tokens IS NOT NULL THEN input_tokens END) AS INTEGER),
  CAST(total(raw_input_tokens) AS INTEGER), count(cost_usd), coalesce(sum(cost_usd), 0)
FROM (SELECT * FROM spans WHERE is_call AND start_ns >= :start AND start_ns < :end ORDER BY start_ns DESC LIMIT :most)
GROUP BY service, provider, model, token_rule ORDER BY count(*) DESC, service, model, token_rule
"""
)


def uses(conn: Connection, window: Window) -> list[Use]:
    """Return the window's calls by service, provider, model and token rule, the most frequent first."""
    bounds = {"start": window.start_ms * 1_000_000, "end": window.end_ms * 1_000_000, "most": MOST_CALLS}
    return [Use(*row) for row in conn.execute(_USES, bounds)]


@dataclass(frozen=True, slots=True)
class Scores:
    """Scored candidates of one source, as stored: (similarity, threshold, served), threshold None where it was not told.

    score_rule: how the sender's scores were turned into similarities; '' = not at all.
    """

    source_id: int
    score_rule: str
    rows: tuple[tuple[float, float | None, bool], ...]


# A candidate that was near enough and did not serve was vetoed or held out: it says nothing of the score.
_SCORES = text(
    """
SELECT source_id, score_rule, similarity, threshold, outcome = 'semantic_hit' FROM lookups
WHERE at_ms >= :start AND at_ms < :end AND similarity IS NOT NULL AND cache_kind = 'response'
  AND (outcome = 'semantic_hit' OR (outcome = 'miss' AND coalesce(passed, 1) AND NOT coalesce(held_out, 0) AND reason <> 'vetoed'))
ORDER BY at_ms DESC, trace_id, span_id LIMIT :most
"""
)


def scores(conn: Connection, window: Window) -> list[Scores]:
    """Return the newest scored candidates of the window by source."""
    found: dict[tuple[int, str], list[tuple[float, float | None, bool]]] = {}
    for source_id, rule, similarity, threshold, served in conn.execute(
        _SCORES, {"start": window.start_ms, "end": window.end_ms, "most": MOST_SCORES}
    ):
        found.setdefault((source_id, rule), []).append((similarity, threshold, bool(served)))
    return [Scores(source_id, rule, tuple(rows)) for (source_id, rule), rows in sorted(found.items())]


# A hit on what an error left behind: its own span says so, or every other answer to this key in the window was an error. An entry
# that is older than the window may be sound: the second kind is a suspicion, and is counted apart.
_HITS = "('exact_hit', 'semantic_hit', 'stale_hit')"
_ERRORS_SERVED = text(
    f"""
WITH failed AS (
  SELECT namespace, tenant, "key", min(at_ms) AS since FROM lookups
  WHERE at_ms >= :start AND at_ms < :end AND cache_kind = 'response' AND outcome = 'error' AND "key" <> ''
  GROUP BY namespace, tenant, "key"
), sound AS (
  SELECT DISTINCT one.namespace, one.tenant, one."key" FROM lookups one JOIN failed USING (namespace, tenant, "key")
  WHERE one.at_ms >= :start AND one.at_ms < :end AND one.outcome IN ('miss', 'coalesced', 'bypass')
)
SELECT hit.source_id, sum(hit.reason = 'error_served'), sum(hit.reason <> 'error_served')
FROM lookups hit LEFT JOIN failed USING (namespace, tenant, "key") LEFT JOIN sound USING (namespace, tenant, "key")
WHERE hit.at_ms >= :start AND hit.at_ms < :end AND hit.cache_kind = 'response' AND hit.outcome IN {_HITS}
  AND (hit.reason = 'error_served' OR (failed.since <= hit.at_ms AND sound."key" IS NULL))
GROUP BY hit.source_id
"""  # noqa: S608 - a list of ours
)


def errors_served(conn: Connection, window: Window) -> Mapping[int, tuple[int, int]]:
    """Return by source how many hits served what was an error, and how many may have, of the window's newest 5,000 lookups."""
    bounds = {"start": newest_from(conn, window, Scope(purpose=None), MOST_HITS), "end": window.end_ms}
    return {row[0]: (row[1], row[2]) for row in conn.execute(_ERRORS_SERVED, bounds)}

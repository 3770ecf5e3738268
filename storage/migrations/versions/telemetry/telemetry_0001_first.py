"""The first schema."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "telemetry_0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "counter_hours",
        sa.Column("series_id", sa.Integer(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("increase", sa.Float(), nullable=False),
        sa.Column("steps", sa.Integer(), nullable=False),
        sa.Column("covered_ms", sa.BigInteger(), nullable=False),
        sa.Column("resets", sa.Integer(), nullable=False),
        sa.Column("anomalies", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("series_id", "at_ms"),
    )
    op.create_index("ix_counter_hour_at", "counter_hours", ["at_ms"], unique=False)
    op.create_table(
        "counter_minutes",
        sa.Column("series_id", sa.Integer(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("increase", sa.Float(), nullable=False),
        sa.Column("steps", sa.Integer(), nullable=False),
        sa.Column("covered_ms", sa.BigInteger(), nullable=False),
        sa.Column("resets", sa.Integer(), nullable=False),
        sa.Column("anomalies", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("series_id", "at_ms"),
    )
    op.create_index("ix_counter_minute_at", "counter_minutes", ["at_ms"], unique=False)
    op.create_table(
        "counter_series",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("source_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("labels", sa.String(), nullable=False),
        sa.Column("first_ms", sa.BigInteger(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("value", sa.Float(), nullable=False),
        sa.Column("start_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_counter_series", "counter_series", ["source_id", "name", "labels"], unique=False)
    op.create_index("ix_counter_series_at", "counter_series", ["source_id", "at_ms"], unique=False)
    op.create_table(
        "source_snapshots",
        sa.Column("source_id", sa.Integer(), nullable=False),
        sa.Column("topic", sa.String(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("source_id", "topic"),
    )
    op.create_table(
        "lookups",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("trace_id", sa.LargeBinary(), nullable=False),
        sa.Column("span_id", sa.LargeBinary(), nullable=False),
        sa.Column("source_id", sa.Integer(), nullable=False),
        sa.Column("dialect", sa.String(), nullable=False),
        sa.Column("cache_kind", sa.String(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("duration_ms", sa.Float(), nullable=False),
        sa.Column("outcome", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("purpose", sa.String(), nullable=False),
        sa.Column("tier", sa.String(), nullable=False),
        sa.Column("namespace", sa.String(), nullable=False),
        sa.Column("tenant", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("model_version", sa.String(), nullable=False),
        sa.Column("provider", sa.String(), nullable=False),
        sa.Column("client", sa.String(), nullable=False),
        sa.Column("switch", sa.String(), nullable=False),
        sa.Column("policy_version", sa.Integer(), nullable=True),
        sa.Column("generation", sa.String(), nullable=False),
        sa.Column("partition", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("fingerprint", sa.String(), nullable=False),
        sa.Column("prompt_hash", sa.String(), nullable=False),
        sa.Column("prompt_simhash", sa.String(), nullable=False),
        sa.Column("prompt", sa.String(), nullable=True),
        sa.Column("entry_id", sa.String(), nullable=False),
        sa.Column("entry_age_s", sa.Float(), nullable=True),
        sa.Column("entry_bytes", sa.Integer(), nullable=True),
        sa.Column("candidates", sa.Integer(), nullable=True),
        sa.Column("candidate_id", sa.String(), nullable=False),
        sa.Column("similarity", sa.Float(), nullable=True),
        sa.Column("threshold", sa.Float(), nullable=True),
        sa.Column("passed", sa.Boolean(), nullable=True),
        sa.Column("verdicts", sa.String(), nullable=False),
        sa.Column("candidate_prompt", sa.String(), nullable=True),
        sa.Column("holdout_propensity", sa.Float(), nullable=True),
        sa.Column("held_out", sa.Boolean(), nullable=True),
        sa.Column("input_tokens", sa.Integer(), nullable=True),
        sa.Column("output_tokens", sa.Integer(), nullable=True),
        sa.Column("cached_input_tokens", sa.Integer(), nullable=True),
        sa.Column("lookup_ms", sa.Float(), nullable=True),
        sa.Column("upstream_ms", sa.Float(), nullable=True),
        sa.Column("saved_ms", sa.Float(), nullable=True),
        sa.Column("saved_usd", sa.Float(), nullable=True),
        sa.Column("cost_usd", sa.Float(), nullable=True),
        sa.Column("token_rule", sa.String(), nullable=False),
        sa.Column("raw_input_tokens", sa.Integer(), nullable=True),
        sa.Column("cache_write_tokens", sa.Integer(), nullable=True),
        sa.Column("score_rule", sa.String(), nullable=False),
        sa.Column("sampler", sa.String(), nullable=False),
        sa.Column("kept_ratio", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("trace_id", "span_id"),
    )
    counted = ["cache_kind", "purpose", "outcome", "namespace", "tenant", "model", "tier", "source_id"]
    counted += ["model_version", "client", "fingerprint", "policy_version", "switch", "threshold", "generation"]
    counted += ["prompt_hash", "prompt_simhash", "input_tokens", "similarity", "entry_id"]
    op.create_index("ix_lookups_at", "lookups", ["at_ms", *counted], unique=False)
    for every in (8, 32, 128, 512, 2_048):
        sampled = sa.text(f"id % {every} = 0")
        columns = ["at_ms", *counted]
        op.create_index(f"ix_lookups_{every}", "lookups", columns, unique=False, sqlite_where=sampled, postgresql_where=sampled)
    op.create_index("ix_lookups_ns_at", "lookups", ["namespace", "at_ms"], unique=False)
    kept = ["at_ms", "cache_kind", "purpose", "outcome", "kept_ratio", "namespace", "tenant", "model", "tier", "source_id", "sampler"]
    only = sa.text("sampler <> ''")
    op.create_index("ix_lookups_sampled", "lookups", kept, unique=False, sqlite_where=only, postgresql_where=only)
    op.create_table(
        "metric_exemplars",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("source_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("labels", sa.String(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("value", sa.Float(), nullable=False),
        sa.Column("trace_id", sa.LargeBinary(), nullable=True),
        sa.Column("span_id", sa.LargeBinary(), nullable=True),
        sa.Column("attributes", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_exemplars", "metric_exemplars", ["source_id", "name", "at_ms"], unique=False)
    op.create_index("ix_exemplars_at", "metric_exemplars", ["at_ms"], unique=False)
    op.create_table(
        "metric_samples",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("source_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("labels", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("value", sa.Float(), nullable=False),
        sa.Column("start_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_samples", "metric_samples", ["source_id", "name", "at_ms"], unique=False)
    op.create_index("ix_samples_at", "metric_samples", ["at_ms"], unique=False)
    op.create_table(
        "rejects",
        sa.Column("source_id", sa.Integer(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("last_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("source_id", "reason"),
    )
    op.create_table(
        "removed",
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("before_ms", sa.BigInteger(), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("last_ms", sa.BigInteger(), nullable=False),
        sa.Column("by_size", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("kind"),
    )
    for name in ("rollups_10s", "rollups_1m", "rollups_1h"):
        op.create_table(
            name,
            sa.Column("at_ms", sa.BigInteger(), nullable=False),
            sa.Column("cache_kind", sa.String(), nullable=False),
            sa.Column("source_id", sa.Integer(), nullable=False),
            sa.Column("purpose", sa.String(), nullable=False),
            sa.Column("namespace", sa.String(), nullable=False),
            sa.Column("tenant", sa.String(), nullable=False),
            sa.Column("model", sa.String(), nullable=False),
            sa.Column("tier", sa.String(), nullable=False),
            sa.Column("outcome", sa.String(), nullable=False),
            sa.Column("reason", sa.String(), nullable=False),
            sa.Column("lookups", sa.BigInteger(), nullable=False),
            sa.Column("duration_us", sa.BigInteger(), nullable=False),
            sa.Column("input_tokens", sa.BigInteger(), nullable=False),
            sa.Column("input_tokens_n", sa.BigInteger(), nullable=False),
            sa.Column("output_tokens", sa.BigInteger(), nullable=False),
            sa.Column("cost_nusd", sa.BigInteger(), nullable=False),
            sa.Column("cost_n", sa.BigInteger(), nullable=False),
            sa.Column("saved_nusd", sa.BigInteger(), nullable=False),
            sa.Column("saved_usd_n", sa.BigInteger(), nullable=False),
            sa.Column("saved_us", sa.BigInteger(), nullable=False),
            sa.Column("saved_us_n", sa.BigInteger(), nullable=False),
            sa.Column("lookup_us", sa.BigInteger(), nullable=False),
            sa.Column("lookup_us_n", sa.BigInteger(), nullable=False),
            sa.Column("cached_tokens", sa.BigInteger(), nullable=False),
            sa.Column("cached_of_tokens", sa.BigInteger(), nullable=False),
            sa.Column("cached_n", sa.BigInteger(), nullable=False),
            sa.Column("judged_n", sa.BigInteger(), nullable=False),
            sa.Column("vetoed_n", sa.BigInteger(), nullable=False),
            sa.Column("duration_sketch", sa.LargeBinary(), nullable=False),
            sa.PrimaryKeyConstraint(
                "at_ms", "cache_kind", "source_id", "purpose", "namespace", "tenant", "model", "tier", "outcome", "reason"
            ),
            sqlite_with_rowid=False,
        )
    for name in ("totals_1m", "totals_1h", "totals_6h"):
        op.create_table(
            name,
            sa.Column("at_ms", sa.BigInteger(), nullable=False),
            sa.Column("cache_kind", sa.String(), nullable=False),
            sa.Column("source_id", sa.Integer(), nullable=False),
            sa.Column("purpose", sa.String(), nullable=False),
            sa.Column("outcome", sa.String(), nullable=False),
            sa.Column("lookups", sa.BigInteger(), nullable=False),
            sa.Column("duration_us", sa.BigInteger(), nullable=False),
            sa.Column("input_tokens", sa.BigInteger(), nullable=False),
            sa.Column("input_tokens_n", sa.BigInteger(), nullable=False),
            sa.Column("output_tokens", sa.BigInteger(), nullable=False),
            sa.Column("cost_nusd", sa.BigInteger(), nullable=False),
            sa.Column("cost_n", sa.BigInteger(), nullable=False),
            sa.Column("saved_nusd", sa.BigInteger(), nullable=False),
            sa.Column("saved_usd_n", sa.BigInteger(), nullable=False),
            sa.Column("saved_us", sa.BigInteger(), nullable=False),
            sa.Column("saved_us_n", sa.BigInteger(), nullable=False),
            sa.Column("lookup_us", sa.BigInteger(), nullable=False),
            sa.Column("lookup_us_n", sa.BigInteger(), nullable=False),
            sa.Column("cached_tokens", sa.BigInteger(), nullable=False),
            sa.Column("cached_of_tokens", sa.BigInteger(), nullable=False),
            sa.Column("cached_n", sa.BigInteger(), nullable=False),
            sa.Column("judged_n", sa.BigInteger(), nullable=False),
            sa.Column("vetoed_n", sa.BigInteger(), nullable=False),
            sa.Column("duration_sketch", sa.LargeBinary(), nullable=False),
            sa.PrimaryKeyConstraint("at_ms", "cache_kind", "source_id", "purpose", "outcome"),
            sqlite_with_rowid=False,
        )
    for name in ("parts_1m", "parts_1h", "parts_6h"):
        op.create_table(
            name,
            sa.Column("at_ms", sa.BigInteger(), nullable=False),
            sa.Column("cache_kind", sa.String(), nullable=False),
            sa.Column("source_id", sa.Integer(), nullable=False),
            sa.Column("purpose", sa.String(), nullable=False),
            sa.Column("namespace", sa.String(), nullable=False),
            sa.Column("tier", sa.String(), nullable=False),
            sa.Column("outcome", sa.String(), nullable=False),
            sa.Column("reason", sa.String(), nullable=False),
            sa.Column("lookups", sa.BigInteger(), nullable=False),
            sa.Column("duration_us", sa.BigInteger(), nullable=False),
            sa.Column("input_tokens", sa.BigInteger(), nullable=False),
            sa.Column("input_tokens_n", sa.BigInteger(), nullable=False),
            sa.Column("output_tokens", sa.BigInteger(), nullable=False),
            sa.Column("cost_nusd", sa.BigInteger(), nullable=False),
            sa.Column("cost_n", sa.BigInteger(), nullable=False),
            sa.Column("saved_nusd", sa.BigInteger(), nullable=False),
            sa.Column("saved_usd_n", sa.BigInteger(), nullable=False),
            sa.Column("saved_us", sa.BigInteger(), nullable=False),
            sa.Column("saved_us_n", sa.BigInteger(), nullable=False),
            sa.Column("lookup_us", sa.BigInteger(), nullable=False),
            sa.Column("lookup_us_n", sa.BigInteger(), nullable=False),
            sa.Column("cached_tokens", sa.BigInteger(), nullable=False),
            sa.Column("cached_of_tokens", sa.BigInteger(), nullable=False),
            sa.Column("cached_n", sa.BigInteger(), nullable=False),
            sa.Column("judged_n", sa.BigInteger(), nullable=False),
            sa.Column("vetoed_n", sa.BigInteger(), nullable=False),
            sa.Column("duration_sketch", sa.LargeBinary(), nullable=False),
            sa.PrimaryKeyConstraint("at_ms", "cache_kind", "source_id", "purpose", "namespace", "tier", "outcome", "reason"),
            sqlite_with_rowid=False,
        )
    for name in ("places_10m", "places_1h", "places_6h"):
        op.create_table(
            name,
            sa.Column("at_ms", sa.BigInteger(), nullable=False),
            sa.Column("cache_kind", sa.String(), nullable=False),
            sa.Column("purpose", sa.String(), nullable=False),
            sa.Column("namespace", sa.String(), nullable=False),
            sa.Column("tenant", sa.String(), nullable=False),
            sa.Column("model", sa.String(), nullable=False),
            sa.Column("exact_hit", sa.BigInteger(), nullable=False),
            sa.Column("semantic_hit", sa.BigInteger(), nullable=False),
            sa.Column("partial_hit", sa.BigInteger(), nullable=False),
            sa.Column("stale_hit", sa.BigInteger(), nullable=False),
            sa.Column("coalesced", sa.BigInteger(), nullable=False),
            sa.Column("miss", sa.BigInteger(), nullable=False),
            sa.Column("bypass", sa.BigInteger(), nullable=False),
            sa.Column("error", sa.BigInteger(), nullable=False),
            sa.Column("hit_tokens", sa.BigInteger(), nullable=False),
            sa.Column("tokens", sa.BigInteger(), nullable=False),
            sa.Column("saved_nusd", sa.BigInteger(), nullable=False),
            sa.Column("spent_nusd", sa.BigInteger(), nullable=False),
            sa.Column("hits_priced", sa.BigInteger(), nullable=False),
            sa.Column("misses_priced", sa.BigInteger(), nullable=False),
            sa.PrimaryKeyConstraint("at_ms", "cache_kind", "purpose", "namespace", "tenant", "model"),
            sqlite_with_rowid=False,
        )
    op.create_table(
        "sources",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("service", sa.String(), nullable=False),
        sa.Column("instance", sa.String(), nullable=False),
        sa.Column("scope", sa.String(), nullable=False),
        sa.Column("dialect", sa.String(), nullable=False),
        sa.Column("demo", sa.Boolean(), nullable=False),
        sa.Column("first_seen_ms", sa.BigInteger(), nullable=False),
        sa.Column("last_seen_ms", sa.BigInteger(), nullable=False),
        sa.Column("last_span_ms", sa.BigInteger(), nullable=True),
        sa.Column("accepted", sa.BigInteger(), nullable=False),
        sa.Column("duplicates", sa.BigInteger(), nullable=False),
        sa.Column("lookups", sa.BigInteger(), nullable=False),
        sa.Column("described", sa.BigInteger(), nullable=False),
        sa.Column("calls", sa.BigInteger(), nullable=False),
        sa.Column("dropped", sa.BigInteger(), nullable=False),
        sa.Column("missing", sa.String(), nullable=False),
        sa.Column("call_facts", sa.String(), nullable=False),
        sa.Column("last_error", sa.String(), nullable=False),
        sa.Column("last_error_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("kind", "service", "instance", "scope", "dialect"),
    )
    op.create_table(
        "span_payloads",
        sa.Column("span_id", sa.Integer(), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("span_id"),
    )
    op.create_table(
        "spans",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("trace_id", sa.LargeBinary(), nullable=False),
        sa.Column("span_id", sa.LargeBinary(), nullable=False),
        sa.Column("parent_id", sa.LargeBinary(), nullable=True),
        sa.Column("source_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("kind", sa.Integer(), nullable=False),
        sa.Column("start_ns", sa.BigInteger(), nullable=False),
        sa.Column("end_ns", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("status_message", sa.String(), nullable=False),
        sa.Column("service", sa.String(), nullable=False),
        sa.Column("operation", sa.String(), nullable=False),
        sa.Column("provider", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("input_tokens", sa.Integer(), nullable=True),
        sa.Column("output_tokens", sa.Integer(), nullable=True),
        sa.Column("cached_input_tokens", sa.Integer(), nullable=True),
        sa.Column("token_rule", sa.String(), nullable=False),
        sa.Column("cost_usd", sa.Float(), nullable=True),
        sa.Column("is_call", sa.Boolean(), nullable=False),
        sa.Column("call_role", sa.String(), nullable=False),
        sa.Column("call_key", sa.BigInteger(), nullable=True),
        sa.Column("raw_input_tokens", sa.Integer(), nullable=True),
        sa.Column("cache_write_tokens", sa.Integer(), nullable=True),
        sa.Column("waits_for", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("trace_id", "span_id"),
    )
    op.create_index("ix_spans_start", "spans", ["start_ns"], unique=False)
    for name, column, where in (
        ("ix_spans_calls", "start_ns", "is_call"),
        ("ix_spans_call_key", "call_key", "call_key IS NOT NULL"),
        ("ix_spans_waits", "waits_for", "waits_for IS NOT NULL"),
    ):
        op.create_index(name, "spans", [column], unique=False, sqlite_where=sa.text(where), postgresql_where=sa.text(where))
    op.create_table(
        "trace_summaries",
        sa.Column("trace_id", sa.LargeBinary(), nullable=False),
        sa.Column("start_ns", sa.BigInteger(), nullable=False),
        sa.Column("end_ns", sa.BigInteger(), nullable=False),
        sa.Column("spans", sa.Integer(), nullable=False),
        sa.Column("errors", sa.Integer(), nullable=False),
        sa.Column("lookups", sa.Integer(), nullable=False),
        sa.Column("root_name", sa.String(), nullable=False),
        sa.Column("service", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("trace_id"),
    )
    op.create_index("ix_trace_start", "trace_summaries", ["start_ns"], unique=False)

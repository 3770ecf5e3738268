"""The attributes whose meaning is known, and which hold no text of a user's: with prompts off they are kept whatever they say."""

from __future__ import annotations

from typing import Final

from collectors.dialects import DIALECTS
from engine import semconv

_FIELDS: Final = (
    *("operation", "provider", "model", "input_tokens", "output_tokens", "total_tokens", "cache_read", "cache_write", "cost_usd"),
    "response_id",
)
# What dialects read by code of their own.
_BESIDE: Final = (
    *("cache.model", "cache.matched_key", "cache.key", "cache.name", "cache.category"),  # BetterDB
    *("cache_status", "model", "consumer"),  # Higress
    *("metadata.user_api_key_team_alias", "metadata.user_api_key_team_id"),  # LiteLLM
    "langfuse.observation.usage_details",
    "gen_ai.usage.input_token_details",  # LangSmith
    "gen_ai.response.finish_reasons",
)
# Conventions for what a process is and where it runs. Command lines are not among them: they may hold a prompt.
PREFIXES: Final = (
    *("service.", "telemetry.", "deployment.", "cloud.", "k8s.", "container.image.", "container.runtime", "host.", "os."),
    *("process.runtime.", "process.executable.", "user_agent.", "code.", "thread.", "server.", "client.", "network."),
    *("error.", "exception."),  # what went wrong is wanted more than anything else
)
NAMES: Final = frozenset(
    {name for dialect in DIALECTS for field in _FIELDS for name in getattr(dialect, field)}
    | {value for name, value in vars(semconv).items() if name.isupper() and isinstance(value, str)}
    | set(_BESIDE)
)

"""Which metrics have a meaning for caches, as a table. Those are stored; all others are counted and dropped.

A name is compared as sent, without regard to case, with `.`, `/`, `-` and `:` read as `_`: exporters differ in that alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple


class Rule(NamedTuple):
    """pattern: a regular expression for the whole name. whose: who sends it."""

    pattern: str
    whose: str


RULES: tuple[Rule, ...] = (
    Rule(r"cachescope_.*", "Cachescope's gateway and collector"),
    # Systems whose every metric is about a cache.
    Rule(r"lmcache_.*", "LMCache"),
    Rule(r"semantic_cache_.*|agent_cache_.*", "BetterDB"),
    Rule(r"gptcache_.*", "GPTCache"),
    Rule(r"kvbm_.*|kvcache_.*|prefix_indexer_.*", "Dynamo's block manager, llm-d"),
    # Engines and gateways: what is about reuse of tokens, blocks or answers.
    Rule(r"(vllm_)?(gpu_|external_|mm_)?prefix_cache_.*|vllm_.*kv_.*|vllm_prompt_tokens_(cached|by_source).*", "vLLM"),
    Rule(r"sglang_(cached|evicted|load_back|prefill_effective|prompt)_tokens.*|sglang_hicache_.*", "SGLang"),
    Rule(r"litellm_redis_.*|litellm_input_cached_tokens_.*", "LiteLLM"),
    Rule(r"kong_ai_llm_requests.*|kong_ai_.*", "Kong, by its label cache_status"),
    # Tokens by type: cached input is one of the types, and the others are its denominator.
    Rule(
        r"gen_ai_client_token_usage(_.*)?|gen_ai_usage_.*|llm_usage_tokens|llm_token_count.*", "OpenTelemetry GenAI, OpenLIT, OpenLLMetry"
    ),
    Rule(r"redis_(keyspace|keys_evicted|keys_expired|evicted_keys|expired_keys|memory|maxmemory|db_keys|db_expires).*", "Redis"),
    Rule(r"(aws_elasticache_|azure_.*)?cache_?(hits|misses|hitrate).*", "hosted Redis"),
    Rule(r"memcached_(operation|commands|evictions|current_items|bytes|operation_hit_ratio|items|get).*", "memcached"),
    Rule(r"nv_cache_.*", "Triton"),
    # Whatever says so in its name.
    Rule(r"(.*_)?(cache|cached|caches|caching)(_.*)?", "any name with the word cache in it"),
)
# Points that say it by an attribute, whatever the metric is called.
ATTRIBUTES = frozenset({"cache_status", "cache_hit", "cache_type", "cache_source", "cachescope_outcome", "cache_result"})

_ALL = re.compile("|".join(f"(?:{rule.pattern})" for rule in RULES))
_JOINTS = re.compile(r"[./:\-\s]")


def of_name(name: str) -> bool:
    """Return whether every point of a metric of this name is stored."""
    return len(name) <= 256 and _of_name(name)


@lru_cache(4096)
def _of_name(name: str) -> bool:
    return _ALL.fullmatch(_JOINTS.sub("_", name).lower()) is not None


def of_attributes(names: Mapping[str, object]) -> bool:
    """Return whether a point with these attributes is stored."""
    return any(_JOINTS.sub("_", name).lower() in ATTRIBUTES for name in names)

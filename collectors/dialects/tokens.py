"""Does a sender's input count hold the cached tokens? Known by who wrote the span, never guessed from an attribute's name."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

INCLUSIVE = "inclusive"  # the input count holds the cached tokens already
ADDITIVE = "additive"  # the input count is what was not cached: read and written tokens come on top
ADDITIVE_PROVEN = "additive_proven"  # the numbers leave no other reading, whatever is known of the sender
INCLUSIVE_ASSUMED = "inclusive_assumed"  # the conventions demand it, and nobody has told us of this sender


@dataclass(frozen=True, slots=True, eq=False)  # told apart by identity: a table is written once, and asked with every call
class Rules:
    """known: (scope prefix, provider prefix, rule), the first match wins, '' matches any. otherwise: where none matches."""

    known: tuple[tuple[str, str, str], ...] = ()
    otherwise: str = INCLUSIVE_ASSUMED


NO_RULES = Rules()


@lru_cache(maxsize=4_096)
def rule_for(rules: Rules, scope: str, provider: str) -> str:
    """Return the rule for a sender. Senders are few, and are asked about with every call."""
    for scope_prefix, provider_prefix, rule in rules.known:
        if scope.startswith(scope_prefix) and provider.startswith(provider_prefix):
            return rule
    return rules.otherwise


def proves_additive(given: int, output: int | None, extra: int, total: object) -> bool:
    """Return whether the input cannot hold the read and written tokens.

    It cannot when they are more than it, nor when the total is the sum of all four: a total that is merely the sum of input and
    output proves nothing, for many libraries compute it so from whatever they have.
    """
    return extra > given or (type(total) is int and output is not None and total == given + output + extra)

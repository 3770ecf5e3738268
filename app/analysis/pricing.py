"""What calls cost: fresh and cached input tokens are priced apart. Hits of a response cache cost nothing, and are no calls."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rates:
    """US dollars per million tokens. cached_input_usd: None = cached tokens cost as much as fresh ones."""

    input_usd: float
    output_usd: float
    cached_input_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Bill:
    """US dollars. full_usd: had nothing been read from the provider's cache. saved_usd: the difference, 0 … full_usd."""

    cost_usd: float
    full_usd: float

    @property
    def saved_usd(self) -> float:
        return max(0.0, self.full_usd - self.cost_usd)


def bill(rates: Rates, *, input_tokens: int, cached_tokens: int, output_tokens: int) -> Bill:
    """Return what the tokens cost. input_tokens hold the cached ones; cached tokens beyond them are not believed.

    A cached rate above the fresh one is taken as it stands, so that a cost is never below what the provider asks.
    """
    cached = min(max(0, cached_tokens), input_tokens)
    at_cached = rates.input_usd if rates.cached_input_usd is None else rates.cached_input_usd
    made = output_tokens * rates.output_usd
    cost = ((input_tokens - cached) * rates.input_usd + cached * at_cached + made) / 1e6
    return Bill(cost, (input_tokens * rates.input_usd + made) / 1e6)

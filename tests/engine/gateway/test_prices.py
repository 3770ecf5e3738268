"""Money of an upstream's answer: only what a price list says."""

from __future__ import annotations

import orjson
import pytest

from engine.gateway.answers import judge
from engine.settings import Price


def test_a_price_list_without_the_model_gives_no_cost_and_not_zero() -> None:
    body = orjson.dumps(
        {
            "model": "m-2026",
            "choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 5},
        }
    )
    price = Price(1.0, 2.0)

    def cost(prices: dict[str, Price]) -> float | None:
        return judge(status=200, body=body, headers=[], upstream_ms=1.0, model="m", prices=prices).usage.cost_usd

    assert (cost({"other": price}), cost({})) == (None, None)
    assert cost({"m": price}) == cost({"m-2026": price}) == pytest.approx(20e-6)

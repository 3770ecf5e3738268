"""What caching in units of each size saves: a known answer, a public trace, and what must hold."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.analysis.granularity import WHOLE, Granularity, Prompt, replay
from app.charts import regret as charts
from app.views import granularity
from tests.app.analysis.test_oracle import MOONCAKE

PROMPTS = st.lists(st.builds(Prompt, st.lists(st.integers(0, 3), max_size=6).map(tuple), st.just(0)), max_size=30).map(
    # A hash covers all before it: here it is the path itself, as text.
    lambda found: [
        Prompt(tuple(str(one.blocks[:end]) for end in range(1, len(one.blocks) + 1)), max(1, 10 * len(one.blocks))) for one in found
    ]
)


def test_a_hit_is_the_longest_run_from_the_start() -> None:
    prompts = [Prompt((1, 2, 3), 25), Prompt((1, 2, 4), 30), Prompt((1, 2, 3), 25), Prompt((), 4)]
    assert replay(prompts, block_tokens=10, blocks_per_unit=1) == Granularity(10, 4, 2, 84, 40, 3, 30)
    assert replay(prompts, block_tokens=10, blocks_per_unit=2) == Granularity(20, 4, 2, 84, 40, 1, 20)
    assert replay(prompts, block_tokens=10, blocks_per_unit=WHOLE) == Granularity(0, 4, 1, 84, 25, 2, 55)
    for size in ({"block_tokens": 0, "blocks_per_unit": 1}, {"block_tokens": 1, "blocks_per_unit": -1}):
        with pytest.raises(ValueError, match="expected at least 1"):
            replay([], **size)


@settings(max_examples=60, deadline=None)
@given(PROMPTS)
def test_smaller_units_save_no_less(prompts: list[Prompt]) -> None:
    saved = [replay(prompts, block_tokens=10, blocks_per_unit=size).saved_tokens for size in (1, 2, 4)]
    assert saved == sorted(saved, reverse=True)
    assert replay(prompts, block_tokens=10, blocks_per_unit=WHOLE).saved_tokens <= sum(one.tokens for one in prompts)


@pytest.mark.shared_data
def test_mooncake_s_prompts_share_beginnings_not_wholes() -> None:
    view = granularity.load(MOONCAKE.read_bytes(), block_tokens=512)
    assert not view.bad
    single, whole = view.found[0], view.found[-1]
    rows = [json.loads(line) for line in MOONCAKE.open(encoding="utf-8")]
    full = [row["hash_ids"][: row["input_length"] // 512] for row in rows]
    assert single.stored == len({one for blocks in full for one in blocks})
    assert single.saved_tokens == 512 * (sum(map(len, full)) - single.stored)  # every block seen before follows one seen before
    assert (single.prompts, single.saved_tokens, single.total_tokens) == (12_031, 54_063_104, 144_793_823)
    assert round((single.saved_ratio or 0) * 100, 2) == 37.34
    asked = Counter((tuple(row["hash_ids"]), row["input_length"]) for row in rows)
    assert whole.saved_tokens == sum(tokens * (times - 1) for (_, tokens), times in asked.items())
    assert 0 < (whole.saved_ratio or 0) < 0.1
    assert view.sentence.startswith("Blocks of 512 tokens would save ")
    table = granularity.rows(view.found)
    assert [row["unit"] for row in table][-1] == "whole prompt"
    drawn = {trace.name: list(trace.y) for trace in charts.granularity(view.found).figure.data}
    assert drawn == {name: [row[name] for row in table] for name in ("prefill saved", "prompts with a hit")}
    assert {row["prompts in all"] for row in table} == {12_031}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "Too few prompts to judge: 0"),
        (b'{"hash_ids": [1], "input_length": 9}\n\nnonsense', "Line 3 cannot be used"),
        (b"[1]", "Line 1 cannot be used"),
        (b'{"hash_ids": [1.5], "input_length": 9}', "Line 1 cannot be used"),
        (b'{"hash_ids": [1], "input_length": 0}', "Line 1 cannot be used"),
        (b'{"hash_ids": [1], "input_length": true}', "Line 1 cannot be used"),
        (b"\xff\xfe", "Line 1 cannot be used"),
        (b"[" * 100_000, "Line 1 cannot be used"),
        (b'{"hash_ids": [' + b"1," * 1_000_000 + b'1], "input_length": 9}', "More than 1,000,000 blocks by line 1"),
        (b" " * (granularity.MOST_BYTES + 1), "at most 33,554,432 are read"),
    ],
)
def test_what_cannot_be_read_is_said(content: bytes, told: str) -> None:
    view = granularity.load(content, block_tokens=512)
    assert told in view.sentence
    assert view.found == ()

"""Granularity: what caching whole prompts, chunks or token blocks saves of a trace of block hashes that an operator brings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from app.analysis.granularity import WHOLE, Granularity, Prompt, replay
from app.views import words

MOST_BYTES: Final = 32 * 1024 * 1024
MOST_BLOCKS: Final = 1_000_000  # in all: some three seconds for all sizes
PER_UNIT: Final = (1, 2, 4, 8, 16, WHOLE)
FEW: Final = 100


@dataclass(frozen=True, slots=True)
class View:
    """sentence: the answer, or why the file cannot be read (bad)."""

    sentence: str
    bad: bool
    found: tuple[Granularity, ...]


def load(content: bytes, *, block_tokens: int) -> View:
    """Return what each size of unit saves. content: JSON lines with `hash_ids`, a list, and `input_length`, tokens."""
    prompts, fault = _read(content)
    if fault:
        return View(fault, True, ())
    if len(prompts) < FEW:
        return View(f"Too few prompts to judge: {words.count(len(prompts))}, {FEW} needed", False, ())
    found = tuple(replay(prompts, block_tokens=block_tokens, blocks_per_unit=size) for size in PER_UNIT)
    best, whole = found[0], found[-1]
    told = (
        f"Blocks of {words.count(block_tokens)} tokens would save {_share(best)} of the prefill, whole prompts {_share(whole)} "
        f"(n = {words.count(best.prompts)} prompts, without a limit of space)"
    )
    return View(told, False, found)


def _share(one: Granularity) -> str:
    return words.NO_DATA if one.saved_ratio is None else words.ratio(one.saved_ratio)


def _read(content: bytes) -> tuple[list[Prompt], str]:
    """Return the prompts, or what is wrong with which line."""
    if len(content) > MOST_BYTES:
        return [], f"The file has {words.count(len(content))} bytes: at most {words.count(MOST_BYTES)} are read; cut it"
    prompts, blocks = [], 0
    for number, line in enumerate(content.splitlines(), 1):
        if not line.strip():
            continue
        prompt = _prompt(line)
        if prompt is None:
            return [], (
                f'Line {words.count(number)} cannot be used: expected {{"hash_ids": [numbers or texts], "input_length": tokens above 0}}, '
                "one JSON object a line"
            )
        blocks += len(prompt.blocks)
        if blocks > MOST_BLOCKS:
            return [], f"More than {words.count(MOST_BLOCKS)} blocks by line {words.count(number)}: cut the file there"
        prompts.append(prompt)
    return prompts, ""


def _prompt(line: bytes) -> Prompt | None:
    try:
        row = orjson.loads(line)
    except ValueError:
        return None
    if not isinstance(row, dict):
        return None
    hashes, tokens = row.get("hash_ids"), row.get("input_length")
    if not isinstance(hashes, list) or not all(isinstance(one, int | str) for one in hashes):
        return None
    if not isinstance(tokens, int) or isinstance(tokens, bool) or tokens < 1:
        return None
    return Prompt(tuple(hashes), tokens)


def rows(found: Sequence[Granularity]) -> list[dict[str, Any]]:
    return [
        {
            "unit": "whole prompt" if one.unit_tokens == WHOLE else f"{words.count(one.unit_tokens)} tokens",
            "prefill saved": None if one.saved_ratio is None else one.saved_ratio * 100,
            "tokens saved": one.saved_tokens,
            "prompts with a hit": one.hits / one.prompts * 100 if one.prompts else None,
            "units stored": one.stored,
            "tokens held": one.held_tokens,
            "prompts in all": one.prompts,
            "tokens in all": one.total_tokens,
        }
        for one in found
    ]

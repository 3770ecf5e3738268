"""Prompt, chunk or token block: what caching in units of each size saves of a recorded stream of prompts' block hashes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

WHOLE: Final = 0  # as blocks_per_unit: the prompt as one unit


@dataclass(frozen=True, slots=True)
class Prompt:
    """blocks: hash of each block of equal length, the last one maybe shorter; a block's hash covers all before it. tokens: in all, > 0."""

    blocks: tuple[int | str, ...]
    tokens: int


@dataclass(frozen=True, slots=True)
class Granularity:
    """One unit's size and what it saves. unit_tokens: 0 = the whole prompt. saved_tokens: prefill not computed again, of total_tokens.

    hits: prompts with at least one unit found, of prompts. stored: units stored in all, which take held_tokens.
    """

    unit_tokens: int
    prompts: int
    hits: int
    total_tokens: int
    saved_tokens: int
    stored: int
    held_tokens: int

    @property
    def saved_ratio(self) -> float | None:
        """Tokens saved of all, 0…1; None without any."""
        return self.saved_tokens / self.total_tokens if self.total_tokens else None


def replay(prompts: Sequence[Prompt], *, block_tokens: int, blocks_per_unit: int) -> Granularity:
    """Replay prompts in order through a cache of units without a limit of space. A hit is the longest run of units found from the start.

    block_tokens: > 0, of a full block. blocks_per_unit: >= 1, or WHOLE. Blocks that fill no unit are not stored.
    Raises ValueError on sizes below these.
    """
    if block_tokens < 1 or blocks_per_unit < 0:
        raise ValueError(f"a block of {block_tokens} tokens, {blocks_per_unit} to a unit: expected at least 1, and 0 or more")
    held: set[object] = set()
    used = saved = hits = total = 0
    for prompt in prompts:
        total += prompt.tokens
        found = True
        gained = 0
        for unit, size in _units(prompt, block_tokens, blocks_per_unit):
            if unit in held:
                gained += size if found else 0
                continue
            found = False
            held.add(unit)
            used += size
        saved += min(gained, prompt.tokens)
        hits += gained > 0
    return Granularity(blocks_per_unit * block_tokens, len(prompts), hits, total, saved, len(held), used)


def _units(prompt: Prompt, block_tokens: int, per_unit: int) -> Iterable[tuple[object, int]]:
    """Yield what is stored of a prompt: its last block's hash names a unit, since that covers all before it."""
    if not prompt.blocks:
        return
    if per_unit == WHOLE:
        yield (prompt.blocks[-1], prompt.tokens), prompt.tokens
        return
    full = min(len(prompt.blocks), prompt.tokens // block_tokens)
    for end in range(per_unit, full + 1, per_unit):
        yield prompt.blocks[end - 1], per_unit * block_tokens

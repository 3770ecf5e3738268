"""Places of keys and lookups among all: of what they are alone, and even whatever that looks like."""

from collections.abc import Callable

import pytest

from storage.slots import PICKS, SLOTS, pick, slot

PLACES = {
    "ids in a row": lambda n: (pick(bytes(16), n.to_bytes(8, "big")), PICKS),
    "spans of one place in traces in a row": lambda n: (pick(n.to_bytes(16, "big"), b"span id."), PICKS),
    "every 256th": lambda n: (pick(bytes(16), (n << 8).to_bytes(8, "big")), PICKS),
    "keys in a row": lambda n: (slot(f"key {n}"), SLOTS),
}


@pytest.mark.parametrize("named", PLACES)
@pytest.mark.parametrize("number", [3, 8, 512])
def test_one_in_so_many_is_picked_whatever_ids_look_like(named: str, number: int) -> None:
    """Within five standard errors of what chance would give."""
    place: Callable[[int], tuple[int, int]] = PLACES[named]
    many = 40_000
    found = [place(n) for n in range(many)]
    assert all(0 <= at < of for at, of in found)
    share = sum(at % number == 0 for at, _ in found) / many
    assert abs(share - 1 / number) < 5 * (1 / number / many) ** 0.5


def test_what_is_picked_is_spread_over_its_neighbours() -> None:
    """Of ids in a row, a pick tells nothing of the next: as many pairs of neighbours are picked as by chance."""
    picked = [pick(bytes(16), n.to_bytes(8, "big")) % 8 == 0 for n in range(40_000)]
    for apart in (1, 2, 7, 8, 256):
        pairs = sum(one and other for one, other in zip(picked, picked[apart:], strict=False))
        assert 500 < pairs < 750, apart  # 40,000 / 64 = 625

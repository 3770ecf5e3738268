from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.reads import sketches
from storage.sketch import Sketch

values = st.lists(st.floats(-10, 1e12) | st.floats(allow_nan=False, allow_infinity=False), max_size=30)


def _bytes(numbers: list[float], each: int) -> bytes:
    sketch = Sketch()
    for number in numbers:
        sketch.add(number, each)
    return sketch.to_bytes()


@given(st.lists(st.tuples(st.sampled_from("ab"), values, st.sampled_from([1, 200, 300, 70_000, 1 << 33]))))
def test_all_at_once_are_what_one_after_the_other_makes(told: list[tuple[str, list[float], int]]) -> None:
    rows = [(key, _bytes(numbers, each)) for key, numbers, each in told]
    expected: dict[str, Sketch] = {}
    for key, data in rows:
        expected.setdefault(key, Sketch()).merge_bytes(data)
    assert sketches.merged(rows) == expected


def test_more_than_fits_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sketches, "_AT_ONCE_BYTES", 40)
    rows = [("a", _bytes([float(number)], 1)) for number in range(50)]
    assert sketches.merged(rows)["a"].count == 50


@pytest.mark.parametrize("bad", [b"short", b"\x02" + _bytes([5.0], 1)[1:], b"\x01\x09" + _bytes([5.0], 1)[2:], _bytes([5.0], 1) + b"x"])
def test_what_is_no_sketch_is_refused(bad: bytes) -> None:
    good = _bytes([5.0], 1)
    with pytest.raises(ValueError, match="sketch"):
        sketches.merged([("a", good), ("a", bad)])

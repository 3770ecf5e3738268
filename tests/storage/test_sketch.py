from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.sketch import ACCURACY_RATIO, BUCKETS, Sketch, merge_bytes

values = st.floats(1e-3, 1e12) | st.floats(-10, 0)
anything = st.floats(allow_nan=False, allow_infinity=False)


def sketch_of(numbers: list[float]) -> Sketch:
    sketch = Sketch()
    for number in numbers:
        sketch.add(number)
    return sketch


def exact(numbers: list[float], q: float) -> float:
    return sorted(numbers)[math.floor(q * (len(numbers) - 1))]


@given(st.lists(values, min_size=1), st.floats(0, 1))
def test_quantiles_are_within_one_percent_of_the_exact_ones(numbers: list[float], q: float) -> None:
    expected = exact(numbers, q)
    found = sketch_of(numbers).quantile(q)
    assert found == pytest.approx(max(expected, 0.0), rel=ACCURACY_RATIO * 1.0001, abs=0)


@pytest.mark.parametrize("q", [0, 0.01, 0.5, 0.9, 0.99, 0.999, 1])
def test_quantiles_of_a_long_tail(q: float) -> None:
    rng = random.Random(7)
    numbers = [rng.lognormvariate(3, 2) for _ in range(20_000)]
    assert sketch_of(numbers).quantile(q) == pytest.approx(exact(numbers, q), rel=0.0101)


def test_nothing_counted_has_no_quantile() -> None:
    assert Sketch().quantile(0.5) is None
    assert Sketch().to_bytes() == b""
    assert Sketch.from_bytes(b"").count == 0


@given(st.lists(anything), st.randoms(use_true_random=False), st.integers(1, 6))
def test_any_order_and_any_split_give_the_same_bytes(numbers: list[float], rng: random.Random, parts: int) -> None:
    whole = sketch_of(numbers).to_bytes()
    shuffled = list(numbers)
    rng.shuffle(shuffled)
    merged, data = Sketch(), b""
    for part in range(parts):
        piece = sketch_of(shuffled[part::parts])
        merged.merge(piece)
        data = merge_bytes(data, piece.to_bytes())
    assert merged.to_bytes() == whole
    assert data == whole


@given(st.lists(anything))
def test_bytes_and_back(numbers: list[float]) -> None:
    sketch = sketch_of(numbers)
    again = Sketch.from_bytes(sketch.to_bytes())
    assert again == sketch
    assert again.count == len(numbers)


def test_counts_of_every_width_survive() -> None:
    for count in (1, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, 2**40):
        sketch = Sketch()
        sketch.add(5.0, count)
        assert Sketch.from_bytes(sketch.to_bytes()).count == count
        assert Sketch.from_bytes(merge_bytes(sketch.to_bytes(), sketch.to_bytes())).count == 2 * count


def test_the_number_of_buckets_is_bounded_and_the_high_quantiles_stay_right() -> None:
    numbers = [10.0**exponent for exponent in range(-8, 301)]
    sketch = sketch_of(numbers)
    assert len(sketch.to_bytes()) < 20 + BUCKETS * 10
    assert sketch.count == len(numbers)
    assert sketch.quantile(1) == pytest.approx(1e300, rel=0.0101)


def test_a_few_values_take_a_few_bytes() -> None:
    assert len(sketch_of([1.0, 2.0, 3.0]).to_bytes()) < 30


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        Sketch().add(value)


@pytest.mark.parametrize("data", [b"x", b"\x02" + b"\0" * 20, b"\x01" + b"\0" * 13 + b"\x05\x00", sketch_of([1.0]).to_bytes() + b"!"])
def test_bytes_that_are_no_sketch_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        Sketch.from_bytes(data)

"""Known answers of the decomposition, of Adtributor's measures, and faults that must be found."""

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.analysis.attribution import OTHER, by_dimension, explain, kitagawa, tabulate
from tests.bench.attribution_bench import DIMENSIONS as BENCH
from tests.bench.attribution_bench import KINDS, draw, rank

Counts = Mapping[tuple[str, ...], tuple[int, int]]


def test_mix_and_rate_as_known() -> None:
    n0, n1 = np.array([500.0, 300, 200]), np.array([300.0, 300, 400])
    mix, rate = kitagawa(n0 * [0.8, 0.5, 0.2], n0, n1 * [0.8, 0.4, 0.2], n1)
    assert mix.sum() == pytest.approx(-0.12)
    assert rate.sum() == pytest.approx(-0.03)
    assert rate == pytest.approx([0, -0.03, 0])


def test_a_window_without_lookups_cannot_be_decomposed() -> None:
    zero, some = np.zeros(2), np.ones(2)
    with pytest.raises(ValueError, match="no hit rate"):
        kitagawa(zero, zero, some, some)


def test_one_segment_s_failure_has_all_the_explanatory_power() -> None:
    before = {("a",): (80, 100), ("b",): (50, 100), ("c",): (20, 100)}
    (found,) = by_dimension(tabulate(("namespace",), before, {**before, ("b",): (10, 100)}))
    powers = {part.value: part.explained_ratio for part in found.parts}
    assert powers == pytest.approx({"a": 0.0, "b": 1.0, "c": 0.0})
    assert found.blamed == ("b",)


def test_windows_of_unequal_length_are_compared_by_shares() -> None:
    before = {("a",): (80, 100), ("b",): (50, 100)}
    (found,) = by_dimension(tabulate(("namespace",), before, {("a",): (800, 1_000), ("b",): (100, 1_000)}))
    assert found.blamed == ("b",)
    assert found.explained_ratio == pytest.approx(1.0)
    assert sum(part.effect_ratio for part in found.parts) == pytest.approx(0.45 - 0.65)


def test_the_blamed_dimension_comes_before_those_that_only_go_with_it() -> None:
    before = {(a, b): (70, 100) for a in "xyz" for b in "pq"}
    now = {(a, b): (20 if a == "x" else 70, 100) for a in "xyz" for b in "pq"}
    found = by_dimension(tabulate(("namespace", "tenant"), before, now))
    assert next((one.name, one.blamed) for one in found) == ("namespace", ("x",))


def test_a_new_and_a_vanished_segment_have_a_mix_part_alone() -> None:
    before, now = {("a",): (800, 1_000), ("old",): (100, 1_000)}, {("a",): (800, 1_000), ("new",): (900, 1_000)}
    cells = tabulate(("client",), before, now)
    parts = {part.value: part for part in by_dimension(cells)[0].parts}
    assert parts["new"].rate_ratio == parts["old"].rate_ratio == 0
    assert {one.literals[0][1]: one.kind for one in explain(cells)} == {"old": "vanished", "new": "new"}


def test_equal_windows_have_nothing_to_explain() -> None:
    same = {("a",): (60, 100), ("b",): (20, 100)}
    assert explain(tabulate(("namespace",), same, same)) == []
    assert explain(tabulate(("namespace",), {}, same)) == []
    assert by_dimension(tabulate(("namespace",), same, {})) == []


def test_noise_is_not_explained() -> None:
    rng = np.random.default_rng(3)
    sides = [{(a, b): (int(rng.binomial(200, 0.6)), 200) for a in "abcd" for b in "efgh"} for _ in range(2)]
    assert explain(tabulate(("namespace", "tenant"), *sides)) == []


@pytest.mark.parametrize("kind", KINDS)
def test_an_injected_fault_is_ranked_first(kind: str) -> None:
    """A few runs of each kind; the bench makes hundreds."""
    rng = np.random.default_rng(KINDS.index(kind))
    for _ in range(3):
        run = draw(rng, kind)
        assert rank(explain(tabulate(BENCH, run.before, run.now)), run.literals) == 1


def test_rare_values_are_put_together_and_never_blamed_by_name() -> None:
    before = {(f"t{number}",): (5, 10) for number in range(5_000)}
    now = {(f"t{number}",): (1, 10) for number in range(5_000)}
    cells = tabulate(("tenant",), before, now)
    assert len(cells.values[0]) == 40
    assert OTHER in cells.values[0]
    assert not any(value == OTHER for one in explain(cells) for _, value in one.literals)


SIDE = st.dictionaries(
    st.tuples(st.sampled_from("abc"), st.sampled_from("xy")), st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
)


@given(SIDE, SIDE)
def test_every_dimension_s_parts_sum_to_the_change_and_nothing_is_not_a_number(before: Counts, now: Counts) -> None:
    cells = tabulate(("namespace", "tenant"), before, now)
    for one in by_dimension(cells):
        assert sum(part.effect_ratio for part in one.parts) == pytest.approx(cells.change_ratio)
        assert np.all(np.isfinite([(part.explained_ratio, part.surprise_bits) for part in one.parts]))
    for found in explain(cells):
        assert np.isfinite([found.mix_ratio, found.rate_ratio, found.score]).all()

"""The hit rate's denominator, and what moved it."""

import pytest

from app.analysis.hit_rate import Counts, count, movers


def test_bypasses_and_errors_are_outside_the_denominator_and_coalesced_is_no_hit() -> None:
    counts = count([("exact_hit", 5), ("semantic_hit", 1), ("coalesced", 2), ("miss", 4), ("bypass", 7), ("error", 3), ("miss", 0)])
    share = counts.hit_rate
    assert share is not None
    assert (share.k, share.n, counts.total) == (6, 12, 22)
    covered = counts.coverage
    assert covered is not None
    assert (covered.k, covered.n) == (12, 22)


def test_only_bypasses_have_no_hit_rate() -> None:
    assert Counts({"bypass": 9}).hit_rate is None


def _segment(eligible: int, hits: int) -> Counts:
    return Counts({"exact_hit": hits, "miss": eligible - hits})


def test_the_change_splits_into_mix_and_rate_as_known() -> None:
    before = {"a": _segment(500, 400), "b": _segment(300, 150), "c": _segment(200, 40)}
    now = {"a": _segment(300, 240), "b": _segment(300, 120), "c": _segment(400, 80)}
    found = movers(now, before)
    assert sum(mover.mix_ratio for mover in found) == pytest.approx(-0.12)
    assert sum(mover.rate_ratio for mover in found) == pytest.approx(-0.03)
    assert sum(mover.effect_ratio for mover in found) == pytest.approx(-0.15)


def test_a_new_segment_moves_the_total_by_its_mix_alone() -> None:
    found = movers({"a": _segment(50, 40), "b": _segment(50, 0)}, {"a": _segment(100, 80)})
    assert sum(mover.effect_ratio for mover in found) == pytest.approx(-0.4)
    assert next(mover for mover in found if mover.name == "b").rate_ratio == 0


def test_nothing_before_explains_nothing() -> None:
    assert movers({"a": _segment(5, 1)}, {}) == []

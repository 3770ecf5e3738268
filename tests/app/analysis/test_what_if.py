"""What tuning could win: findings on streams whose answer is known, and on input that nobody wants."""

from __future__ import annotations

import dataclasses
import json
import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.analysis import regret, what_if
from app.analysis.key_sample import PARTS, KeySample
from app.analysis.policies import Stream
from app.analysis.regret import Amount, Event, Findings
from app.analysis.what_if import analyse
from app.charts import regret as regret_charts
from app.views import regret_rows

HOUR_MS = 3_600_000


def events(n: int = 1_200, *, keys: int = 200, ttl_ms: int = HOUR_MS, seed: int = 1, **values: float | None) -> list[Event]:
    """Return a day's lookups as a cache without a limit of space and with this lifetime answers them."""
    rng = random.Random(seed)
    stored: dict[int, int] = {}
    found = []
    for at in sorted(rng.randrange(24 * HOUR_MS) for _ in range(n)):
        x = int(keys * rng.random() ** 2)
        hit = x in stored and at - stored[x] <= ttl_ms
        if not hit:
            stored[x] = at
        told: dict[str, float | None] = {"size_bytes": 1_000.0, "ms": 500.0, "usd": 0.01} | values
        found.append(Event(at, f"k{x}", hit, age_ms=at - stored[x] if hit else None, **told))  # type: ignore[arg-type]
    return found


def analysed(given: list[Event], **more: object) -> Findings:
    found = analyse(given, **({"ttl_ms": HOUR_MS} | more))  # type: ignore[arg-type]
    assert found is not None
    assert regret.from_json(json.loads(json.dumps(regret.as_json(found), allow_nan=False))) == found
    return found


def test_a_cache_that_lost_nothing_has_no_regret_at_its_lifetime() -> None:
    found = analysed(events())
    hits = sum(event.hit for event in events())
    assert found.recorded == Amount(hits, pytest.approx(hits * 500.0), pytest.approx(hits * 0.01))  # type: ignore[arg-type]
    assert found.replayed.hits == found.recorded.hits == found.at_lifetime.low.hits == found.at_lifetime.high.hits
    assert found.at_lifetime.method == "exact"
    low, high = found.regret
    assert low.hits == 0 < high.hits
    assert found.miss_ratio == pytest.approx(1 - hits / 1_200)
    assert found.space_curve[-1].miss_ratio == pytest.approx(found.miss_ratio)
    today = next(point for point in found.ttl_curve if point.at == HOUR_MS)
    assert (today.miss_ratio, today.space) == (pytest.approx(found.miss_ratio), found.capacity)
    knob = found.best_knob
    assert knob is not None
    assert (knob.name, found.worth_it) == ("lifetime", True)
    assert knob.to_ms == found.ttl_curve[-1].at


def test_entries_lost_before_they_expire_are_a_knob_of_their_own() -> None:
    lost = [Event(e.at_ms, e.key, e.hit and i % 3 > 0, size_bytes=1_000.0, usd=0.01) for i, e in enumerate(events())]
    found = analysed(lost)
    keep = next(knob for knob in found.knobs if knob.name == "keep")
    assert keep.gain.hits == sum(e.hit for e in events()) - sum(e.hit for e in lost)
    assert found.regret[0].hits == keep.gain.hits
    assert keep.gain.ms is None  # no lookup says how long it took


def test_a_curve_that_no_sampled_key_tells_is_no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(what_if, "EXACT_MOST", 100)
    monkeypatch.setattr(what_if, "SAMPLED_KEYS", 1e-6)
    found = analysed(events())
    assert found.lru_curve == ()
    assert {row["missed, no expiry"] for row in regret_rows.space_rows(found)} == {None}
    assert list(regret_charts.spaces(found).figure.data[0].y or ()) == []


def test_policies_part_only_where_space_is_short() -> None:
    found = analysed(events(3_000, keys=400))
    by_share = {share: {one.policy: one.saved.hits for one in found.tournament if one.share == share} for share in (1.0, 0.1)}
    assert len(set(by_share[1.0].values()) - {by_share[1.0]["wtinylfu"]}) <= 1
    assert max(by_share[0.1].values()) == by_share[0.1]["belady"] > min(by_share[0.1].values())


def test_semantic_links_raise_the_upper_end_alone() -> None:
    given = [
        Event(1_000 * i, f"k{i % 50}", False, semantic=i % 50 >= 25 and i >= 50, size_bytes=10.0, usd=1.0) if i < 50 or i % 50 >= 25
        else Event(1_000 * i, f"k{i % 50}", True, age_ms=1.0, size_bytes=10.0, usd=1.0)
        for i in range(400)
    ]  # fmt: skip
    groups = regret.groups((f"k{i}", f"k{i - 25}") for i in range(25, 50))
    found = analysed(given, groups=groups)
    assert found.served_semantic.hits == 175
    assert found.semantic.high is not None
    assert found.semantic.high.hits == 375  # of 400 lookups all but the first of 25 prompts
    assert found.regret[1].hits == 375 - 175 - 175
    assert analysed(given, why_no_groups="no label").semantic == regret.Semantic(0, 0, None, why_not="no label")


def test_an_entry_stored_before_the_window_answers_all_that_is_linked_to_its_prompt() -> None:
    """One prompt's entry is older than the window, and answers it alone: the other, asked before it, would have hit too."""
    given = [Event(0, "a", False), Event(1_000, "b", True, age_ms=5_000), Event(40_000, "a", True, age_ms=40_000)]
    found = analysed(given, ttl_ms=42_000, groups=regret.groups([("a", "b")]))
    assert found.recorded.hits == 2
    assert found.semantic.high is not None
    assert found.semantic.high.hits == 2, "stored before the window, or at 0, it expires between"
    assert analysed(given, ttl_ms=60_000, groups=regret.groups([("a", "b")])).semantic.high == Amount(3)
    two = [Event(0, "a", True, age_ms=40_000), Event(0, "b", True, age_ms=1_000), Event(30_000, "a", False)]
    found = analysed(two, ttl_ms=42_000, groups=regret.groups([("a", "b")]))
    assert found.semantic.high == Amount(3), "the newer of two entries is still there"
    served = [Event(0, "a", False), Event(39_000, "b", False, semantic=True), Event(45_000, "a", False)]
    found = analysed(served, ttl_ms=42_000, groups=regret.groups([("a", "b")]))
    assert found.semantic.high == Amount(1), "a semantic hit is of the entry at 0, which expires"


@pytest.mark.parametrize("told", [0.01, None])
def test_a_semantic_hit_without_a_price_is_worth_what_it_would_be_on_the_other_side(told: float | None) -> None:
    """25 pairs of prompts: one of each is asked for 20 times, the other 19 times after it and served by its entry, once it missed."""
    given = []
    for i in range(1_000):
        number, second, missed = i % 50 % 25, i % 50 >= 25, i < 50
        usd = 0.01 if missed or not second else told
        key = f"{'b' if second else 'a'}{number}"
        given.append(Event(i * 1_000, key, not second and not missed, second and not missed, 1.0, 9.0, usd=usd))
    found = analysed(given, groups=regret.groups((f"a{x}", f"b{x}") for x in range(25)))
    knob = next(knob for knob in found.knobs if knob.name == "semantic")
    assert (knob.gain.hits, knob.gain.usd) == (25, pytest.approx(0.25))
    assert found.served_semantic == Amount(475, None, pytest.approx(4.75))  # type: ignore[arg-type]
    assert analysed(given, why_no_groups="no label").served_semantic == Amount(475, None, pytest.approx(4.75))  # type: ignore[arg-type]
    low, high = found.regret
    assert (low.usd, high.usd) == (0, pytest.approx(0.25))


def test_an_entry_stored_before_the_window_may_hit_in_it() -> None:
    given = [Event(10_000, "old", True, age_ms=5_000, usd=1.0), Event(20_000, "old", True, age_ms=15_000, usd=1.0)]
    found = analysed(given)
    assert (found.recorded.hits, found.replayed.hits) == (2, 2)
    assert found.regret[1].hits == 0


@pytest.mark.parametrize("sizes", ["equal", "small and hot", "large and hot", "log-normal"])
def test_the_curve_from_a_sample_of_keys_is_the_exact_one_within_its_bound(monkeypatch: pytest.MonkeyPatch, sizes: str) -> None:
    keys, n = 60_000, 150_000
    rng = np.random.default_rng(3)
    hot = np.arange(keys) < keys // 10
    made = {
        "equal": np.full(keys, 100),
        "small and hot": np.where(hot, 100, 5_000),
        "large and hot": np.where(hot, 5_000, 100),
        "log-normal": np.maximum(1, rng.lognormal(7, 1.5, keys)),
    }[sizes]
    weights = np.arange(1, keys + 1) ** -0.8
    ids = np.concatenate([np.arange(keys), rng.choice(keys, n, p=weights / weights.sum())])  # each was put before, none is a first request
    requests = Stream(ids, np.arange(ids.size), made.astype(np.int64))
    worth = what_if._Worth(ids, np.concatenate([np.zeros(keys), np.ones(n)]), None, None, np.full(ids.size, -1))
    sampled, method = what_if._lru(requests, worth)
    monkeypatch.setattr(what_if, "EXACT_MOST", keys)
    exact, whole = what_if._lru(requests, worth)
    assert (method, whole) == ("SHARDS, 54.6% of the keys", "exact")
    assert [at for at, _ in sampled] == [at for at, _ in exact]
    error = np.abs([left - right for (_, left), (_, right) in zip(sampled, exact, strict=True)])
    assert error.mean() < 0.01
    assert (sampled[-1][1], exact[-1][1]) == pytest.approx((0, 0), abs=1e-9)  # all hit in the space of all keys


def sampled(given: list[Event], *, keys_each: int, certain: int) -> Findings:
    """Return findings on the keys up to `certain`, and of the others on those whose number is a multiple of keys_each."""
    taken, seen, of_certain = [], [0] * PARTS, 0
    for event in given:
        number = int(event.key[1:])
        if number < certain:
            of_certain += 1
            taken.append(event)
        elif number % keys_each == 0:
            seen[number // keys_each % PARTS] += 1
            taken.append(dataclasses.replace(event, part=number // keys_each % PARTS))
    return analysed(taken, sample=KeySample(keys_each, certain, of_certain, len(given) - of_certain, tuple(seen), 1))


def test_keys_that_are_alike_are_told_by_one_of_each_four_exactly() -> None:
    """Every key is asked for once an hour, each with its neighbour: what the sample says of the others is the truth, with no error."""
    given = [
        Event(hour * HOUR_MS + x * 1_000, f"k{x}", hour > 0, age_ms=1.0, size_bytes=100.0, usd=0.5) for hour in range(6) for x in range(400)
    ]
    for certain in (0, 8):
        whole, part = analysed(given), sampled(given, keys_each=4, certain=certain)
        assert (part.lookups, part.of) == (6 * (certain + (400 - certain) // 4), 2_400)
        for name in ("recorded", "replayed", "fixed", "regret", "capacity", "miss_ratio"):
            assert getattr(part, name) == getattr(whole, name), name
        assert [knob.gain for knob in part.knobs] == [knob.gain for knob in whole.knobs]
        assert [knob.error and knob.error.hits for knob in part.knobs] == [0.0] * len(part.knobs)
        assert [point.miss_ratio for point in part.ttl_curve] == [point.miss_ratio for point in whole.ttl_curve]
        assert [ratio for _, ratio in part.lru_curve] == pytest.approx([ratio for _, ratio in whole.lru_curve], abs=0.01)
        assert part.sampled is not None
        assert part.sampled.recorded.hits == pytest.approx(0, abs=1e-9)


def test_a_burst_is_its_lookups_one_after_another() -> None:
    given = [Event(x * 700_000 + i, f"k{x % 3}", x > 2 or i > 0, age_ms=1.0, size_bytes=10.0, usd=1.0) for x in range(60) for i in range(9)]
    burst = []
    for x in range(60):
        first, rest = given[9 * x], given[9 * x + 1]
        burst += [dataclasses.replace(first, count=9)] if first.hit else [first, dataclasses.replace(rest, count=8)]
    whole, short = analysed(given), analysed(burst)
    for name in ("lookups", "of", "recorded", "replayed", "regret", "capacity"):
        assert getattr(short, name) == getattr(whole, name), name
    assert [knob.gain for knob in short.knobs] == [knob.gain for knob in whole.knobs]


def test_what_is_won_surely_decides_where_keys_are_sampled() -> None:
    found = analysed(events())
    best = found.best_knob
    assert best is not None
    doubtful = dataclasses.replace(best, error=Amount(best.gain.hits))
    assert found.worth_it
    assert not dataclasses.replace(found, knobs=(doubtful,)).worth_it


@pytest.mark.parametrize(
    "given",
    [
        pytest.param([Event(5, "a", False)], id="one lookup"),
        pytest.param([Event(5, "a", True)], id="one hit"),
        pytest.param([Event(i, "a", i > 0) for i in range(300)], id="one key"),
        pytest.param([Event(i, f"k{i}", False, usd=1.0, ms=1.0) for i in range(300)], id="all misses"),
        pytest.param([Event(i, f"k{i % 9}", True, age_ms=1.0, usd=1.0) for i in range(300)], id="all hits"),
        pytest.param([Event(7, f"k{i % 9}", i >= 9) for i in range(300)], id="one instant"),
        pytest.param(events(300, usd=-1.0, ms=math.inf, size_bytes=-5.0), id="impossible values"),
        pytest.param(events(300, usd=1e308, ms=1e308, size_bytes=1e308), id="values beyond all measure"),
        pytest.param(events(300, usd=None, ms=None, size_bytes=None), id="nothing known"),
        pytest.param(events(300, usd=0.0, size_bytes=0.5), id="free and smaller than a byte"),
    ],
)
def test_poor_input_has_findings_without_nan(given: list[Event]) -> None:
    found = analysed(given)  # its JSON has no NaN
    low, high = found.regret
    assert 0 <= low.hits <= high.hits
    assert all(0 <= point.miss_ratio <= 1 for point in (*found.space_curve, *found.ttl_curve))
    assert all(0 <= ratio <= 1 for _, ratio in found.lru_curve)


def test_impossible_values_count_as_unknown_and_nothing_exact_has_no_findings() -> None:
    found = analysed(events(300, usd=-1.0, ms=math.nan, size_bytes=0.0))
    assert (found.known.refused, found.known.unit, found.recorded.usd, found.recorded.ms) == (900, "entries", None, None)
    assert analyse([], ttl_ms=HOUR_MS) is None
    assert analyse([Event(1, "a", False, semantic=True)], ttl_ms=HOUR_MS) is None
    few = analysed(events(100))
    assert not few.enough
    assert not few.worth_it


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.booleans(), st.sampled_from([None, 1.0, 7.0])), min_size=1, max_size=40),
    st.integers(0, 30),
)
def test_the_ends_stay_in_order_whatever_was_recorded(rows: list[tuple[int, bool, float | None]], ttl_ms: int) -> None:
    given = [Event(i, f"k{x % 7}", hit, size_bytes=value, usd=value) for i, (x, hit, value) in enumerate(rows)]
    found = analysed(given, ttl_ms=ttl_ms)
    low, high = found.regret
    assert low.hits <= high.hits <= len(rows)
    assert found.at_lifetime.low.hits <= found.at_lifetime.high.hits
    assert all(knob.gain.hits >= 0 for knob in found.knobs)
    assert found.ttl_curve == tuple(sorted(found.ttl_curve, key=lambda point: point.at))


def test_groups_join_chains() -> None:
    assert regret.groups([("b", "a"), ("c", "b"), ("x", "y")]) == {"a": "a", "b": "a", "c": "a", "x": "x", "y": "x"}
    assert regret.groups([]) == {}

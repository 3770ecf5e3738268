"""What the drift page says of two windows."""

import random
from collections.abc import Mapping
from typing import NoReturn

import numpy as np
import pytest

from app.analysis.entropy import entropy
from app.views import drift, drift_panels, drift_rows, likeness, traces
from storage import spans
from storage.errors import StoreMissing
from storage.reads import drift as reads
from storage.reads.traces import Search
from storage.reads.window import Scope, Window
from storage.store import Store
from tests.storage.support import MINUTE_NS, START_NS, Made, batch

START_MS = START_NS // 1_000_000
NOW = Window.of(START_MS, START_MS + 3_600_000)


def _fill(store: Store, prompts: dict[str, int], *, minute: int, first: int = 0) -> None:
    asked = [prompt for prompt, times in prompts.items() for _ in range(times)]
    made = [
        Made(first + number, start_ns=START_NS + minute * MINUTE_NS, extra={"prompt_hash": prompt, "prompt": f"text {prompt}"})
        for number, prompt in enumerate(asked)
    ]
    spans.write(store, [batch(*made)], now_ms=START_MS)


def _load(store: Store, *, thorough: bool = False) -> drift.Drift:
    return drift.load(lambda: store, window=NOW, scope=Scope(), window_name="the last hour", thorough=thorough)


def no_store() -> NoReturn:
    raise StoreMissing("there is no telemetry database yet")


def test_nothing_before_is_said_and_lists_no_new_prompts(store: Store) -> None:
    _fill(store, {"a": 3}, minute=1)
    view = _load(store)
    assert view.sentence == "1 different prompt in 3 lookups in the last hour; nothing in the period before to compare with"
    assert drift_rows.lists(view) == []
    assert [dial.label for dial in drift_rows.dials(view)] == ["Entropy", "Effective prompts"]


def test_too_few_are_not_judged(store: Store) -> None:
    _fill(store, {"a": 50, "b": 40}, minute=1)
    _fill(store, {"a": 50, "c": 80}, minute=-1, first=1_000)
    view = _load(store)
    assert "too few to compare (n = 130 in the period before, 100 needed in each)" in view.sentence
    assert not view.bad
    assert "too few to judge" in drift_rows.dials(view)[2].detail


def test_same_mix_is_as_before(store: Store) -> None:
    _fill(store, {"a": 100, "b": 50}, minute=1)
    _fill(store, {"a": 100, "b": 50}, minute=-1, first=1_000)
    view = _load(store)
    assert "no drift against the period before" in view.sentence
    assert [rows for _, rows in drift_rows.lists(view)] == [(), ()]


def test_another_mix_is_a_change_with_its_prompts(store: Store) -> None:
    _fill(store, {"a": 100, "b": 100}, minute=1)
    _fill(store, {"c": 150, "a": 50}, minute=-1, first=1_000)
    view = _load(store)
    assert view.bad
    assert "drift against the period before: mix of prompts" in view.sentence
    (new_title, new), (_, gone) = drift_rows.lists(view)
    assert new_title == "Prompts that are new"
    assert [(kind["prompts"], kind["lookups"]) for kind in drift_rows.kind_rows(new)] == [("text b", 100)]
    assert [(kind["prompts"], kind["lookups"]) for kind in drift_rows.kind_rows(gone)] == [("text c", 150)]
    assert next(row["verdict"] for row in drift_rows.panel_rows(view) if row["what"] == "mix of prompts") == "changed"
    assert drift_rows.dials(view)[3].value == "50.0 %"


def test_missing_telemetry_is_a_state_of_its_own() -> None:
    view = drift.load(no_store, window=NOW, scope=Scope(), window_name="the last hour")
    assert (view.now, [failure.source for failure in view.failures]) == (None, [drift.TELEMETRY])
    assert drift_rows.lists(view) == []


def _mixed(store: Store, prompts: dict[str, int], *, minute: int, first: int, **extra: object) -> None:
    """Lookups in an order that mixes the prompts, as many clients' do."""
    asked = [prompt for prompt, times in prompts.items() for _ in range(times)]
    random.Random(first).shuffle(asked)
    made = [
        Made(first + number, start_ns=START_NS + minute * MINUTE_NS + number * 1_000_000, extra={"prompt_hash": prompt, **extra})
        for number, prompt in enumerate(asked)
    ]
    spans.write(store, [batch(*made)], now_ms=START_MS)


def test_a_daily_rhythm_is_no_drift(store: Store) -> None:
    _mixed(store, {"lunch": 150, "news": 50}, minute=1, first=0)
    _mixed(store, {"news": 200}, minute=-30, first=1_000)
    assert _load(store).bad
    _mixed(store, {"lunch": 140, "news": 60}, minute=1 - 24 * 60, first=2_000)
    view = _load(store)
    assert not view.bad
    assert "changed as at the same time on" in view.sentence
    assert "as at the same time before" in {row["verdict"] for row in drift_rows.panel_rows(view)}


@pytest.mark.parametrize(
    ("hours", "days"),
    [(1, 1), (12, 1), (12.5, 7), (18, 7), (24, 7), (24 + 1 / 60, 7), (96, 14), (168, 14), (168 + 1 / 60, 14), (169, None)],
)
def test_the_same_time_before_is_never_the_period_before_itself(hours: float, days: int | None) -> None:
    window = Window.of(START_MS, START_MS + round(hours * 3_600_000))
    season = drift.season_of(window)
    assert (None if season is None else (window.start_ms - season.start_ms) / 86_400_000) == days
    if season is not None:
        assert season.end_ms <= window.previous.start_ms + 2 * 60_000


@pytest.mark.parametrize(
    ("seasonal", "equal", "alarm"),
    [
        ((0.010, 0.30, 6_000), (0.080, 0.015, 0.012), False),  # like it, and enough to see
        ((0.070, 0.10, 6_000), (0.080, 0.015, 0.012), True),  # chance is not ruled out, but as far away as the alarm
        ((0.085, 0.70, 500), (0.140, 0.100, 0.090), False),  # fewer, which would show the change, and do not
        ((0.090, 0.10, 120), (0.105, 0.100, 0.090), True),  # so few would hardly show the change itself
        ((0.080, 0.002, 6_000), (0.080, 0.015, 0.012), True),  # unlike it
    ],
)
def test_a_time_before_with_few_lookups_takes_back_no_alarm(
    seasonal: tuple[float, float, int], equal: tuple[float, float, float], alarm: bool
) -> None:
    """seasonal: effect, p, n. equal: effect, 95th percentile and median of chance."""
    effect, p_value, n = seasonal
    before = drift_panels.Change(effect, 0.1, p_value, n, halves=True)
    again = drift_panels.Change(equal[0], equal[1], 0.01, n, halves=True, median=equal[2])
    change = drift_panels.Change(0.08, 0.015, 0.002, 6_000, halves=True, median=0.012)
    assert drift_panels.Panel("mix", change, 0.004, before, None, again).alarm is alarm


def test_new_traffic_stays_an_alarm_where_the_day_before_was_nearly_silent(store: Store) -> None:
    """A tenth of the lookups is new; the day before, of 120 lookups, had none of it, which so few do not show."""
    _mixed(store, {**{f"p{number}": 90 for number in range(30)}, "new": 300}, minute=1, first=0)
    _mixed(store, {f"p{number}": 100 for number in range(30)}, minute=-59, first=5_000)
    assert _load(store).bad
    _mixed(store, {f"p{number}": 4 for number in range(30)}, minute=1 - 24 * 60, first=10_000)
    view = _load(store)
    mix = next(panel for panel in view.panels if panel.key == "mix")
    assert mix.seasonal is not None
    assert mix.seasonal.p_value > drift_panels.FALSE_SHARE
    assert mix.alarm
    assert view.bad
    assert "too few to tell" in str(next(row["same time before"] for row in drift_rows.panel_rows(view) if row["what"] == "mix of prompts"))


def _asked(store: Store, topics: dict[str, int], *, minute: int, first: int) -> None:
    """Lookups of topics, each in words of its own."""
    asked = [topic for topic, times in topics.items() for _ in range(times)]
    random.Random(first).shuffle(asked)
    made = [
        Made(
            first + number,
            start_ns=START_NS + minute * MINUTE_NS + number * 1_000_000,
            extra={"prompt_hash": f"{topic}{first + number}", "prompt": f"{topic} {first + number}"},
        )
        for number, topic in enumerate(asked)
    ]
    spans.write(store, [batch(*made)], now_ms=START_MS)


@pytest.mark.parametrize("hashed", [False, True])
def test_what_a_sample_of_a_wide_window_lacks_is_looked_for_in_all_of_it(
    store: Store, monkeypatch: pytest.MonkeyPatch, hashed: bool
) -> None:
    monkeypatch.setattr(reads, "MOST_ROWS", 200)
    rng = random.Random(4)
    for minute in (-59, 1):
        names = [f"p{rng.randrange(150)}" for _ in range(2_000)] + [f"only {minute}"] * 100
        rng.shuffle(names)
        made = []
        for number, name in enumerate(names):
            code = random.Random(name).getrandbits(64)  # clusters are of likes: no two lookups of a topic share a prompt
            extra = {"prompt_hash": name, "prompt": name} | (
                {"prompt_hash": f"{name} {minute} {number}", "prompt_simhash": f"{code ^ (1 << rng.randrange(64)):016x}"} if hashed else {}
            )
            start_ns = START_NS + minute * MINUTE_NS + number * 1_000_000_000
            made.append(Made((minute + 100) * 10_000 + number, start_ns=start_ns, extra=extra))
        spans.write(store, [batch(*made)], now_ms=START_MS)
    view = _load(store, thorough=True)
    assert view.now is not None
    stride = view.now.stride
    assert (stride > 1, view.looked, view.clustered) == (True, (1, 1), hashed)
    (_, new), (_, gone) = drift_rows.lists(view)
    assert [row["prompts"].split(" · ")[0] for found in (new, gone) for row in drift_rows.kind_rows(found)] == ["only 1", "only -59"]
    assert {row["counted in"] for row in drift_rows.kind_rows(new, stride)} == {f"one lookup in {stride}"}
    assert f"are of a sample, one lookup in {stride} of this time and one lookup in {stride} of" in drift_rows.unseen(view)
    dial = next(dial for dial in drift_rows.dials(view) if dial.label == "New prompts")
    assert view.new_share.lookups == (view.new_share.of if hashed else sum(kind.lookups for kind in new))
    assert not dial.value.startswith("at most")
    # Where even that is too much, one in a few is looked through, and the page says so.
    monkeypatch.setattr(reads, "MOST_LOOKED", 300)
    view = _load(store, thorough=True)
    assert view.looked == (7, 7)
    assert next(dial.value for dial in drift_rows.dials(view) if dial.label == "New prompts").startswith("at most ")
    assert "new or vanished is what is not in one lookup in 7 of the time before" in drift_rows.unseen(view)
    # Whoever waits for it has fewer read, and as many looked through as an index of samples gives.
    monkeypatch.setattr(reads, "ENOUGH", 140)
    monkeypatch.setattr(reads, "LEAST", 130)
    view = _load(store)
    assert view.now is not None
    assert (view.now.stride, view.looked) == (8, (1, 1))
    monkeypatch.setattr(reads, "MOST_LOOKED_BRIEFLY", 300)
    assert _load(store).looked == (8, 8)


def test_prompts_asked_once_are_no_change_of_entropy_whichever_window_came_first() -> None:
    """Above 600 kinds the rarest are put together: as many of both windows, else the later one would seem to have fewer."""

    def asked(number: int) -> reads.Mix:
        names = random.Random(number)
        return reads.Mix(tuple(reads.Asked(n, f"{names.getrandbits(64):016x}", "", None, None, "miss", "") for n in range(1_200)), 1)

    chances = []
    for number in range(10):
        mine, earlier = asked(2 * number), asked(2 * number + 1)
        group, _ = likeness.grouping(mine, earlier)
        panels = {panel.key: panel for panel in drift_panels.judge(mine, earlier, group, likeness.NO_VECTORS, 0.0)}
        assert panels["entropy"].change is not None
        chances.append(panels["entropy"].change.p_value)
    assert sum(one <= 0.05 for one in chances) <= 2  # more have a probability of 1 in 90


def _embed(texts: Mapping[str, str]) -> likeness.Vectors:
    found = {}
    for name, text in texts.items():
        topic, number = text.split()
        vector = np.random.default_rng(int(number)).normal(0, 0.02, 16)
        vector[len(topic)] += 1
        found[name] = (vector / np.linalg.norm(vector)).astype(np.float32)
    return likeness.Vectors("topics", found)


def test_a_daily_rhythm_is_judged_by_the_vectors_that_raised_the_alarm(store: Store) -> None:
    _asked(store, {"lunch": 150, "news": 50}, minute=1, first=0)
    _asked(store, {"news": 200}, minute=-30, first=1_000)
    _asked(store, {"lunch": 150, "news": 50}, minute=1 - 24 * 60, first=2_000)

    def load(embed: likeness.Embed) -> tuple[drift.Drift, dict[str, drift_panels.Panel]]:
        view = drift.load(lambda: store, window=NOW, scope=Scope(), window_name="the last hour", embed=embed)
        return view, {panel.key: panel for panel in view.panels}

    view, panels = load(_embed)
    assert all(panels[key].certain and panels[key].large and panels[key].rhythm for key in ("mix", "vectors"))
    assert not view.bad

    calls: list[int] = []

    def fails_at_last(texts: Mapping[str, str]) -> likeness.Vectors:
        calls.append(len(texts))
        return _embed(texts) if len(calls) == 1 else likeness.Vectors("", {}, "the model is gone")

    view, panels = load(fails_at_last)
    assert len(calls) == 2
    assert [panels[key].seasonal for key in ("mix", "vectors")] == [None, None]
    assert all(panels[key].alarm for key in ("mix", "vectors"))


def test_too_few_vectors_leave_simhashes_and_the_reason(store: Store) -> None:
    _asked(store, {"lunch": 150}, minute=1, first=0)
    _mixed(store, {"news": 150}, minute=-30, first=1_000, prompt_simhash="00000000000000ff")
    view = drift.load(lambda: store, window=NOW, scope=Scope(), window_name="the last hour", embed=_embed)
    assert view.embedder == ""
    assert "no vectors: too few texts: 100 are needed in each window" in drift_rows.grouped_by(view)
    assert all("vectors of" not in str(row["measure"]) for row in drift_rows.panel_rows(view))


def test_clusters_are_of_simhashes_and_samples_are_readable(store: Store) -> None:
    for number, (code, text) in enumerate((("00000000000000ff", "old"), ("00000000000000fe", "older"))):
        _mixed(store, {f"p{number}": 60}, minute=-30, first=1_000 * number, prompt_simhash=code, prompt=text)
    _mixed(store, {"p9": 120}, minute=1, first=9_000, prompt_simhash="ffffffffffff0000", prompt="new")
    view = _load(store)
    assert view.clustered
    (_, new), (_, gone) = drift_rows.lists(view)
    assert [(row["prompts"], row["lookups"]) for row in drift_rows.kind_rows(new)] == [("new", 120)]
    assert [(row["prompts"], row["different prompts"]) for row in drift_rows.kind_rows(gone)] == [("old · older", 2)]


SHARED = "3f2c8a1e-0b7d-4c55-9e21-6a0d4b1f7c10"


def test_collapse_and_scatter_are_findings_with_what_stands_behind_them(store: Store) -> None:
    made = [
        Made(number, outcome="semantic_hit", extra={"prompt_hash": f"h{number}", "entry_id": SHARED, "prompt_simhash": "0000000000000001"})
        for number in range(30)
    ]
    made += [
        Made(100 + number, extra={"prompt_hash": f"m{number}", "entry_id": f"own{number}", "prompt_simhash": "ffffffff00000000"})
        for number in range(25)
    ]
    spans.write(store, [batch(*made)], now_ms=START_MS)
    view = _load(store)
    rows = drift_rows.finding_rows(view.findings, query={"range": "24h", "namespace": "faq"})
    assert [(row["finding"], row["prompts"], row["entries"]) for row in rows] == [("collapse", 30, 1), ("scatter", 25, 25)]
    assert [row["entry ids"] for row in rows] == [SHARED, "own0, own1, own10 and 22 more"]
    assert [row["traces"] for row in rows] == [f"/traces?range=24h&namespace=faq&q={entry}" for entry in (SHARED, "own0")]
    for text, n in ((SHARED, 30), (SHARED.upper(), 30), ("own0", 1)):
        found = traces.find(lambda: store, window=NOW, scope=Scope(), search=Search(text=text), now_ms=NOW.end_ms)
        assert len(found.rows) == n, text
    assert "one entry answers 30 different prompts; 25 like prompts have 25 entries" in view.sentence


def test_scatter_alone_is_a_finding_at_the_head_too(store: Store) -> None:
    made = [
        Made(number, extra={"prompt_hash": f"m{number}", "entry_id": f"own{number}", "prompt_simhash": "ffffffff00000000"})
        for number in range(25)
    ]
    spans.write(store, [batch(*made)], now_ms=START_MS)
    view = _load(store)
    assert view.sentence.endswith("; 25 like prompts have 25 entries")
    assert view.bad


def test_broken_simhashes_fall_back_to_exact_prompts(store: Store) -> None:
    _mixed(store, {"a": 5}, minute=1, first=0, prompt_simhash="not sixteen hexd")
    assert not _load(store).clustered


def test_the_overview_s_dials_are_those_of_the_page_with_interval_and_verdict(store: Store) -> None:
    _fill(store, {"a": 100, "b": 150}, minute=1)
    alone = drift_rows.front(_load(store), 0)
    assert [dial.value for dial in alone] == [drift_rows.dials(_load(store))[0].value, "no data"]
    assert "95 %: 0.94–1.01" in alone[0].detail
    assert alone[1].detail == "nothing to compare with"
    _fill(store, {"a": 90, "c": 160}, minute=-1, first=1_000)
    view = _load(store)
    entropy, moved = drift_rows.front(view, 0)
    page = {dial.label: dial for dial in drift_rows.dials(view)}
    assert (entropy, moved.value) == (page["Entropy"], page["Change of the mix"].value)
    assert moved.change.startswith("changed: mix of prompts")
    assert "n = 240 in each" in moved.detail


def test_the_overview_s_dials_say_that_there_is_nothing(store: Store) -> None:
    assert [(dial.value, dial.detail) for dial in drift_rows.front(_load(store), 0)] == [
        ("no data", "no prompts in this time"),
        ("no data", "nothing to compare with"),
    ]
    failed = drift.load(no_store, window=NOW, scope=Scope(), window_name="the last hour")
    assert {dial.detail for dial in drift_rows.front(failed, 0)} == {"it cannot be read"}


def test_an_exact_hit_has_no_similarity_held_out_or_not(store: Store) -> None:
    told = [
        ("exact_hit", {"similarity": 1.0}),
        ("miss", {"similarity": 1.0, "held_out": True, "reason": "holdout"}),
        ("semantic_hit", {"similarity": 1.0}),
        ("miss", {"similarity": 0.9}),
    ]
    made = [Made(number, outcome=outcome, extra={"prompt_hash": "a", **extra}) for number, (outcome, extra) in enumerate(told)]
    spans.write(store, [batch(*made)], now_ms=START_MS)
    with store.read() as conn:
        found = reads.mix(conn, NOW, Scope())
    assert sorted(row.similarity for row in found.rows if row.similarity is not None) == [0.9, 1.0]


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        (("hit_rate",), "the hit rate changed within this time; nothing else against the period before"),
        (("mix", "hit_rate"), "drift against the period before: mix of prompts changed; the hit rate changed within this time"),
        (("mix",), "drift against the period before: mix of prompts changed"),
    ],
)
def test_a_change_within_the_time_is_not_told_as_one_against_the_time_before(keys: tuple[str, ...], told: str) -> None:
    change = drift_panels.Change(0.5, 0.1, 0.002, 400, halves=True)
    view = drift.Drift("", False, None, None, panels=tuple(drift_panels.Panel(key, change, 0.004) for key in keys))
    found = entropy([200, 200])
    assert found is not None
    assert drift._compared(view, found, found, "the period before") == (told, True)

"""What the thresholds page says: the threshold in force, how many, whether too few, and what moving it would have done."""

import contextlib
import dataclasses
import json
from dataclasses import replace
from typing import NoReturn

import pytest

from app.adapters.base import EngineAdapter, EngineState, NamespaceInfo, Via
from app.admin import actions as admin_acts
from app.errors import EngineUnavailable
from app.views import labelled, thresholds, words
from app.wiring import Wiring
from engine.types import Judging, Policy, Switch
from storage import labels, spans
from storage.errors import StoreMissing
from storage.labels import Label
from storage.reads.window import Scope, Window
from storage.store import open_telemetry
from tests.app import support
from tests.storage.support import START_NS, Made, batch

START_MS = START_NS // 1_000_000
WINDOW = Window.of(START_MS, START_MS + 3_600_000)
EMBEDDER = {"default_threshold": 0.9, "candidate_floor": 0.85}
STATE = EngineState("g", 0, 0, 0, {}, EMBEDDER, {}, 0, {}, prompts_recorded=True, demo=False)
VETO = json.dumps([["numbers", True, "30 / 60"], ["negation", False, ""]])


class Engine:
    """Answers as a gateway with this state and policy would; the adapter's protocol is the seam."""

    def __init__(self, state: EngineState = STATE, policy: Policy | None = None) -> None:
        self._state = state
        self._policy = policy or Policy()

    def state(self) -> EngineState:
        return self._state

    def namespaces(self) -> list[NamespaceInfo]:
        return [NamespaceInfo("faq", self._policy, ("g1",))]


def _fill(wired: Wiring, *made: tuple[str, dict[str, object]]) -> None:
    store = open_telemetry(wired.config.storage_settings(), write=True)
    with contextlib.closing(store):
        rows = [Made(number, outcome=outcome, extra={"threshold": 0.9, **extra}) for number, (outcome, extra) in enumerate(made)]
        spans.write(store, [batch(*rows)], now_ms=START_MS)


def _load(wired: Wiring, engine: object | None = None, namespace: str | None = "faq") -> thresholds.Thresholds:
    def answering() -> EngineAdapter:
        return engine or Engine()  # type: ignore[return-value]

    scope = Scope(namespace=namespace)
    return thresholds.load(wired.telemetry, wired.ops, answering, window=WINDOW, scope=scope, window_name="the last hour")


MIXED: tuple[tuple[str, dict[str, object]], ...] = (
    ("semantic_hit", {"similarity": 0.95, "passed": True, "prompt": "asked", "candidate_prompt": "stored"}),
    ("semantic_hit", {"similarity": 0.91, "passed": True}),
    ("miss", {"similarity": 0.88, "passed": True}),
    ("miss", {"similarity": 0.93, "passed": False, "verdicts": VETO}),
    ("miss", {"similarity": 0.92, "passed": True, "held_out": True}),
    ("exact_hit", {"similarity": 1.0, "passed": True}),
)


def test_top_line_says_threshold_number_and_that_there_are_too_few(wired: Wiring) -> None:
    _fill(wired, *MIXED)
    view = _load(wired)
    assert view.sentence == (
        "faq: in force is similarity ≥ 0.9000 (the embedder’s default). 2 semantic hits of 5 lookups with a candidate in the last "
        "hour; verification kept 1 similar ones from being served. Too few to judge a threshold by (n = 5, 200 needed)"
    )


def test_top_line_trusts_enough_lookups(wired: Wiring) -> None:
    _fill(wired, *[MIXED[0]] * thresholds.FEW)
    assert "Too few" not in _load(wired).sentence


def test_top_line_without_candidates_still_says_the_threshold(wired: Wiring) -> None:
    _fill(wired, ("miss", {}))
    policy = Policy(threshold=0.93, switch=Switch.EXACT_ONLY, version=2)
    assert _load(wired, Engine(policy=policy)).sentence == (
        "faq had no lookup with a semantic candidate in the last hour; in force is similarity ≥ 0.9300, "
        "but the switch is exact-only: no semantic hits are served."
    )


def test_exact_hits_are_no_candidates(wired: Wiring) -> None:
    _fill(wired, *MIXED)
    assert len(_load(wired).candidates) == 5


@pytest.mark.parametrize(
    ("threshold", "gained", "lost", "vetoed"),
    [(0.9, 0, 0, 1), (0.87, 1, 0, 1), (0.94, 0, 2, 0), (0.915, 0, 1, 1)],
)
def test_moved_threshold_gains_and_loses_known_hits(wired: Wiring, threshold: float, gained: int, lost: int, vetoed: int) -> None:
    _fill(wired, *MIXED)
    result = thresholds.move(_load(wired), threshold)
    assert (len(result.gained), len(result.lost), result.vetoed) == (gained, lost, vetoed)


def test_a_held_out_exact_hit_had_no_candidate(wired: Wiring) -> None:
    held = {"reason": "holdout", "held_out": True, "passed": True}
    _fill(
        wired,
        ("miss", {**held, "similarity": 1.0}),
        ("miss", {**held, "similarity": 0.97, "candidates": 3}),
        ("semantic_hit", {"similarity": 0.95, "passed": True, "candidates": 2}),
    )
    view = _load(wired)
    assert sorted(row.similarity for row in view.candidates) == [0.95, 0.97]
    assert thresholds.move(view, 0.99).hits_now == 2
    assert thresholds.count_rows(view)[0]["with a candidate"] == 2


def test_pairs_show_texts_vetoes_and_the_way_to_their_trace(wired: Wiring) -> None:
    _fill(wired, *MIXED)
    view = _load(wired)
    (vetoed,) = thresholds.pair_rows(view, thresholds.vetoed_ids(view))
    assert vetoed["verification"] == "numbers: 30 / 60"
    assert (vetoed["asked"], vetoed["similarity"]) == ("(not recorded)", 0.93)
    assert str(vetoed["trace"]).startswith("traces?trace=")
    lost = thresholds.pair_rows(view, thresholds.move(view, 0.96).lost)
    assert {"asked": "asked", "candidate": "stored", "verification": "passed"}.items() <= lost[0].items()


@pytest.mark.parametrize("recorded", ["", "{", "7", '{"a": 1}', '["x", [1]]', "[[]]"])
def test_unreadable_verdicts_break_nothing(recorded: str) -> None:
    assert thresholds.verdicts(recorded) in {"", "not readable"}


def test_sampled_lookups_are_told_to_be_part_of_all(wired: Wiring) -> None:
    _fill(wired, ("semantic_hit", {"similarity": 0.95, "sampler": "ratio", "kept_ratio": 0.1}), ("miss", {"similarity": 0.9}))
    assert thresholds.notes(_load(wired))[0].startswith("Telemetry is sampled: 1 lookup came through a sampler. Counts are of what came")
    assert not any("sampled" in note for note in thresholds.notes(_load(wired, namespace="other")))


def test_notes_say_what_the_numbers_hide(wired: Wiring) -> None:
    _fill(wired, *MIXED)
    view = _load(wired, Engine(policy=Policy(threshold=0.92, version=1)))
    notes = thresholds.notes(view)
    assert notes[0].startswith("5 of these lookups were judged by another threshold")
    assert notes[1].startswith("1 held-out")
    assert "below 0.8500" in notes[2]
    assert thresholds.notes(replace(view, from_ms=START_MS))[0].startswith(
        f"The newest are read: lookups from before {words.instant(START_MS)[:16]} UTC"
    )


def test_no_gateway_is_not_no_threshold(wired: Wiring) -> None:
    _fill(wired, *MIXED)
    view = _load(wired, Engine(state=replace(STATE, embedder={}, via=Via.STORE)))
    assert "the threshold in force is not known, because no gateway answers" in view.sentence
    assert view.effective is not None
    assert view.effective.value is None
    without = _load(wired, Engine(state=replace(STATE, embedder={"default_threshold": None})))
    assert "because no embedder is at work" in without.sentence


def test_history_and_what_a_restore_means(wired: Wiring) -> None:
    _fill(wired, *MIXED)
    support.fill(wired.config, "faq", 1)
    ctx = support.admin(wired)
    assert admin_acts.set_threshold(ctx, "faq", 0.94, support.operation(), 0).ok
    view = _load(wired)
    assert [(row["version"], row["threshold"]) for row in thresholds.history_rows(view)] == [(1, "0.9400")]
    fields, consequence = thresholds.restored(view, 1)
    assert fields.startswith("Threshold 0.9400, verification hard, time to live 1 d")
    assert consequence.startswith("At 0.9400: 1 semantic hits instead of 3, 0 gained and 2 lost")
    assert thresholds.restored(view, 0)[0].startswith("Threshold the embedder's default")


def test_failing_sources_are_named(wired: Wiring) -> None:
    def no_store() -> NoReturn:
        raise StoreMissing("there is no telemetry database yet")

    def no_engine() -> NoReturn:
        raise EngineUnavailable("neither answered")

    scope = Scope(namespace="faq")
    view = thresholds.load(no_store, no_store, no_engine, window=WINDOW, scope=scope, window_name="the last hour")
    assert [failure.source for failure in view.failures] == list(thresholds.SOURCES)
    assert (view.sentence, view.bad) == ("No telemetry has been stored yet", True)


def test_without_a_namespace_there_is_a_choice(wired: Wiring) -> None:
    _fill(wired, *MIXED)
    view = _load(wired, namespace=None)
    assert view.sentence == "Choose a namespace: 1 had lookups in the last hour, 5 with a candidate"
    assert thresholds.count_rows(view)[0]["vetoed above the threshold"] == 1


def _label(wired: Wiring, number: int, similarity: float, *, serves: bool, by: str = "ann") -> None:
    label = Label("faq", f"p{number}", f"c{number}", similarity, serves, by, START_MS + number)
    with contextlib.closing(wired.ops()) as store:
        labels.put(store, label)


def test_labels_that_no_threshold_separates_say_so_and_the_antonym_comes_first(wired: Wiring) -> None:
    _fill(
        wired,
        (
            "miss",
            {"similarity": 0.823, "prompt_hash": "p1", "candidate_id": "c1", "prompt": "enable 2FA", "candidate_prompt": "disable 2FA"},
        ),
    )
    _label(wired, 0, 0.673, serves=True)
    _label(wired, 1, 0.823, serves=False)
    view = _load(wired, Engine(policy=Policy(threshold=0.8, version=1)))
    told = labelled.advice(view)
    assert told[0].startswith("Not separable: of 2 labelled pairs (1 right, 1 wrong)")
    assert told[1].startswith("At the threshold in force 1 of 1 labelled hit is wrong")
    assert told[2] == "Too few labels to set a threshold by (n = 2, 200 needed)."
    first, second = labelled.label_rows(view)
    assert (first["label"], first["asked"], first["candidate"]) == ("does not serve", "enable 2FA", "disable 2FA")
    assert (second["label"], second["asked"]) == ("serves", "(not recorded)")


def test_labels_that_a_threshold_separates_name_it(wired: Wiring) -> None:
    for number in range(30):
        _label(wired, number, 0.95 if number < 20 else 0.85, serves=number < 20)
    assert labelled.advice(_load(wired))[0].startswith(
        "By 30 labelled pairs (20 right, 10 wrong), similarity ≥ 0.9500 keeps 20 of the right ones; of its 20 hits 0 would be wrong"
    )


def test_a_pair_counts_once_however_many_people_said_a_word_on_it(wired: Wiring) -> None:
    _label(wired, 0, 0.95, serves=True)
    for by in ("ann", "bob", "eve"):
        _label(wired, 1, 0.96, serves=by == "eve", by=by)
    for by in ("ann", "bob"):
        _label(wired, 2, 0.97, serves=by == "bob", by=by)
    view = _load(wired, Engine(policy=Policy(threshold=0.9, version=1)))
    told = labelled.advice(view)
    assert told[0].startswith("Not separable: of 2 labelled pairs (1 right, 1 wrong)")
    assert told[1].startswith("At the threshold in force 1 of 2 labelled hits are wrong")
    assert told[2] == "Too few labels to set a threshold by (n = 2, 200 needed)."
    assert told[3] == "1 pair is left out, on which people are evenly divided."
    assert [row["label"] for row in labelled.label_rows(view)] == ["evenly divided", "does not serve (2 of 3)", "serves"]


def test_without_labels_nothing_is_advised(wired: Wiring) -> None:
    assert labelled.advice(_load(wired)) == []
    assert labelled.label_rows(_load(wired)) == []


@pytest.mark.parametrize(("judging", "then"), [("else-miss", "every semantic hit becomes a miss"), ("else-serve", "by the rules alone")])
def test_a_policy_that_asks_a_judge_where_there_is_none_says_what_becomes_of_hits(wired: Wiring, judging: str, then: str) -> None:
    _fill(wired, *MIXED)
    asks = Policy(judge=Judging(judging))
    view = _load(wired, Engine(dataclasses.replace(STATE, judge=False), asks))
    assert any(note.startswith("No judge is configured") and then in note for note in thresholds.notes(view))
    for known in (True, None):
        view = _load(wired, Engine(dataclasses.replace(STATE, judge=known), asks))
        assert not any("No judge" in note for note in thresholds.notes(view))

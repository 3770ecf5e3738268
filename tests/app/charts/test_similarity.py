"""The similarity histogram: what is in which bar, and where the lines stand."""

from urllib.parse import parse_qs, urlsplit

import pytest

from app.charts import similarity
from storage.reads.thresholds import CandidateRow

ROW = CandidateRow(1, b"\1" * 16, 0, "semantic_hit", "acme", 0.95, 0.9, True, False, "", "h", "c", "asked", "candidate")
ROWS = [
    ROW,
    ROW._replace(id=2, similarity=1.0000001),
    ROW._replace(id=3, outcome="miss", similarity=0.88),
    ROW._replace(id=4, outcome="miss", similarity=0.93, passed=False),
]


def _bars(rows: list[CandidateRow], in_force: float | None = 0.9, moved: float | None = 0.9) -> dict[str, int]:
    made = similarity.histogram(rows, {}, in_force=in_force, moved=moved)
    return {bar.name: int(sum(bar.y)) for bar in made.figure.data}


def test_every_lookup_is_in_exactly_one_bar() -> None:
    assert _bars(ROWS) == {"served": 2, "passed, not served": 1, "vetoed by verification": 1}


def test_held_out_lookups_have_a_bar_of_their_own() -> None:
    assert _bars([ROW._replace(outcome="miss", held_out=True)])["held out"] == 1


@pytest.mark.parametrize("rows", [[], [ROW._replace(similarity=1.0)], [ROW._replace(similarity=-0.2)]])
def test_any_window_can_be_drawn(rows: list[CandidateRow]) -> None:
    assert sum(_bars(rows, in_force=None, moved=None).values()) == len(rows)


def test_two_lines_only_when_the_threshold_was_moved() -> None:
    texts = [
        [note.text for note in similarity.histogram(ROWS, {}, in_force=0.9, moved=moved).figure.layout.annotations] for moved in (0.9, 0.92)
    ]
    assert texts == [["in force 0.9000"], ["in force 0.9000", "moved 0.9200"]]


def test_a_bar_leads_to_its_lookups() -> None:
    served, *_ = similarity.histogram(ROWS, {"namespace": "faq"}, in_force=0.9, moved=None).figure.data
    led = [parse_qs(urlsplit(row[-1]).query) for row, n in zip(served.customdata, served.y, strict=True) if n]
    assert [(one["namespace"], one["outcome"]) for one in led] == [(["faq"], ["semantic hit"])] * 2
    assert [float(one["similarity_from"][0]) <= at for one, at in zip(led, (0.95, 1.0), strict=True)] == [True, True]
    assert ["similarity_to" in one for one in led] == [True, False]  # 1.0000001 is in the last
    nearest = parse_qs(urlsplit(similarity.nearest(ROWS, {}, in_force=0.9, moved=None)).query)
    assert float(nearest["similarity_from"][0]) <= 0.93 <= float(nearest["similarity_to"][0])
    assert similarity.nearest(ROWS[:2], {}, in_force=0.9, moved=None) == ""


def test_table_twin_counts_the_same_lookups() -> None:
    rows = similarity.table(ROWS)
    assert sum(int(str(row["n"])) for row in rows) == len(ROWS)
    assert rows[-1] == {
        "similarity from": "0.88",
        "served": 0,
        "passed, not served": 1,
        "vetoed by verification": 0,
        "held out": 0,
        "n": 1,
    }

"""Two windows side by side."""

from app.analysis.entropy import entropy
from app.charts import drift
from app.views.drift import Side
from storage.reads.window import Window

NOW = Side(Window(600_000, 1_200_000), (3, 1), entropy([3, 1]), None, 0.8, None, (0.9, 1.0000001))
BEFORE = Side(Window(0, 600_000), (1,), entropy([1]), None, 0.0, None, (0.8,))
NOTHING = Side(Window(0, 600_000), (), None, None, None, None, ())


def test_ranks_are_shares_of_each_window_by_rank() -> None:
    made = {trace.name: list(trace.y) for trace in drift.ranks(NOW, BEFORE).figure.data}
    assert made == {"before, n = 1": [100.0], "now, n = 4": [75.0, 25.0]}
    assert drift.rank_rows(NOW, BEFORE) == [
        {"rank": 1, "now": "75.00 %", "before": "100.00 %"},
        {"rank": 2, "now": "25.00 %", "before": ""},
    ]


def test_similarities_add_up_to_all_of_each_window() -> None:
    assert [round(sum(trace.y), 6) for trace in drift.similarities(NOW, BEFORE).figure.data] == [100.0, 100.0]
    assert [row["n"] for row in drift.similarity_rows(NOW, BEFORE)] == [2, 1]


def test_window_without_data_has_no_line() -> None:
    assert [trace.name for trace in drift.ranks(NOW, NOTHING).figure.data] == ["now, n = 4"]
    assert [trace.name for trace in drift.similarities(NOW, NOTHING).figure.data] == ["now, n = 2"]
    assert not drift.similarities(NOTHING, NOTHING).figure.data

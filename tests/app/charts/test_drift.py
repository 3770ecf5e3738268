"""Two windows side by side."""

from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

from app.analysis.entropy import entropy
from app.charts import drift
from app.views.drift import Side
from storage.reads.window import Window

NOW = Side(Window(600_000, 1_200_000), (3, 1), entropy([3, 1]), None, 0.8, None, (0.9, 1.0000001))
BEFORE = Side(Window(0, 600_000), (1,), entropy([1]), None, 0.0, None, (0.8,))
NOTHING = Side(Window(0, 600_000), (), None, None, None, None, ())


def test_ranks_are_shares_of_each_window_by_rank() -> None:
    made = {trace.name: list(trace.y) for trace in drift.ranks(NOW, BEFORE, {}).figure.data}
    assert made == {"before, n = 1": [100.0], "now, n = 4": [75.0, 25.0]}
    assert drift.rank_rows(NOW, BEFORE) == [
        {"rank": 1, "now %": 75.0, "lookups now": 3, "n now": 4, "before %": 100.0, "lookups before": 1, "n before": 1},
        {"rank": 2, "now %": 25.0, "lookups now": 1, "n now": 4, "before %": None, "lookups before": None, "n before": 1},
    ]


def test_similarities_add_up_to_all_of_each_window() -> None:
    assert [round(sum(trace.y), 6) for trace in drift.similarities(NOW, BEFORE, {}).figure.data] == [100.0, 100.0]
    rows = drift.similarity_rows(NOW, BEFORE)
    drawn = {trace.name[:3]: list(trace.y) for trace in drift.similarities(NOW, BEFORE, {}).figure.data}
    assert len(rows) == 30
    assert [row["now %"] for row in rows] == drawn["now"]
    assert [row["before %"] for row in rows] == drawn["bef"]
    assert {(row["n now"], row["n before"]) for row in rows} == {(2, 1)}
    assert drift.similarity_rows(NOTHING, NOTHING) == []


def test_each_point_leads_to_the_lookups_of_its_own_window() -> None:
    now, before = replace(NOW, prompts=("a1", "b2")), replace(BEFORE, prompts=("c3",))
    then, mine = ([row[-1] for row in trace.customdata] for trace in drift.ranks(now, before, {"range": "1h"}).figure.data)
    assert mine == ["/traces?range=1h&q=a1", "/traces?range=1h&q=b2"]
    assert [parse_qs(urlsplit(address).query) for address in then] == [
        {"range": ["custom"], "q": ["c3"], "from": ["1970-01-01T00:00"], "to": ["1970-01-01T00:10"]}
    ]
    assert [row[-1] for row in drift.ranks(NOW, NOTHING, {}).figure.data[0].customdata] == ["", ""]  # computed by an earlier version
    mine = drift.similarities(NOW, NOTHING, {}).figure.data[0]
    led = [parse_qs(urlsplit(row[-1]).query) for row, share in zip(mine.customdata, mine.y, strict=True) if share]
    assert [set(one) for one in led] == [{"similarity_from", "similarity_to"}, {"similarity_from"}]
    assert float(led[0]["similarity_from"][0]) <= 0.9 <= float(led[0]["similarity_to"][0])
    assert drift.nearest(NOTHING, NOTHING, {}) == drift.most_frequent(NOTHING, {}) == ""


def test_window_without_data_has_no_line() -> None:
    assert [trace.name for trace in drift.ranks(NOW, NOTHING, {}).figure.data] == ["now, n = 4"]
    assert [trace.name for trace in drift.similarities(NOW, NOTHING, {}).figure.data] == ["now, n = 2"]
    assert not drift.similarities(NOTHING, NOTHING, {}).figure.data

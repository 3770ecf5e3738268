"""A page of metrics: every line that can be read is kept, and one that cannot names itself."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from collectors.prometheus.parse import OPENMETRICS, TEXT, Exemplar, Page, Sample, parse

B12 = 'h_bucket{le="1"} 3 #  5.9060365 1.69714178e+09\n'
THREE = """# TYPE a counter
a_total 1
# TYPE h histogram
{}h_bucket{{le="+Inf"}} 4 # {{trace_id="x # y"}} 5.9 1.6e+09
h_count 4
# TYPE c gauge
c{{v="a # b"}} 5
"""


def values(page: Page) -> list[tuple[str, float]]:
    return [(sample.name, sample.value) for sample in page.samples]


@pytest.mark.parametrize("form", [TEXT, OPENMETRICS])
def test_case_b12_an_exemplar_without_braces_names_its_line_and_loses_no_family(form: str) -> None:
    page = parse(THREE.format(B12) + "# EOF\n", form=form)
    assert values(page) == [("a_total", 1), ("h_bucket", 3), ("h_bucket", 4), ("h_count", 4), ("c", 5)]
    assert page.errors == ["line 4: the exemplar was skipped: expected # {labels} value"]
    assert page.samples[1].exemplar is None
    assert page.samples[2].exemplar == Exemplar({"trace_id": "x # y"}, 5.9, 1.6e9)
    assert page.kinds == {"a": "counter", "h": "histogram", "c": "gauge"}


def test_exemplars_inside_the_text_format_are_read() -> None:
    page = parse('a_total{m="x"} 3 1700000000000 # {trace_id="0af7"} 1\nb 2# {} 4\n')
    assert page.errors == []
    assert page.samples[0] == Sample("a_total", {"m": "x"}, 3.0, 1_700_000_000_000.0, Exemplar({"trace_id": "0af7"}, 1.0, None))
    assert page.samples[1].exemplar == Exemplar({}, 4.0, None)


@pytest.mark.parametrize(
    "line",
    [
        "this is {no sample",
        'a{b="c"} x',
        "a",
        "a ",
        'a{b="c"',
        'a{b="c}',
        "a{b} 1",
        'a{b="1",b="2"} 1',
        "{} 1",
        '{"x","y"} 1',
        "a 0x1",
        "a 1_0",
        "a 1 nan",
        "1a 2",
        'a{b="c"}1',
        "é 1",
        "a" * 70_000 + " 1",
    ],
)
def test_a_bad_line_costs_itself_alone(line: str) -> None:
    page = parse(f"# TYPE x gauge\nx 1\n{line}\ny 2\n")
    assert values(page) == [("x", 1), ("y", 2)]
    (error,) = page.errors
    assert error.startswith("line 3: ")
    assert len(error) < 200


def test_only_so_many_errors_are_told_and_all_are_counted() -> None:
    page = parse("?\n" * 500 + "ok 1\n")
    assert (len(page.errors), page.bad_lines, values(page)) == (20, 500, [("ok", 1)])


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a NaN", math.nan),
        ("a +Inf", math.inf),
        ("a -Inf", -math.inf),
        ("a inf", math.inf),
        ("a 1e3", 1000.0),
        ("a .5", 0.5),
        ("a 5.", 5.0),
        ("a -0", -0.0),
        ("a\t7", 7.0),
        ("  a   8  ", 8.0),
        ("a{} 9", 9.0),
        ("a { } 10", 10.0),
        ("a 11 1700000000000", 11.0),
        ("a 12\r", 12.0),
    ],
)
def test_numbers_and_white_space_as_exporters_write_them(line: str, expected: float) -> None:
    page = parse(line + "\n")
    assert page.errors == []
    assert str(page.samples[0].value) == str(expected)


def test_labels_are_unescaped_and_names_may_be_any_text_in_quotes() -> None:
    page = parse(
        r'a{p="c:\\dir\\",q="say \"hi\"",n="x\ny",u="缓存\t",e="",} 1' + '\n{"my.metric","label.名"="v",b="c"} 2\n{__name__="m",c="d"} 3\n'
    )
    assert page.errors == []
    assert page.samples[0].labels == {"p": "c:\\dir\\", "q": 'say "hi"', "n": "x\ny", "u": "缓存\\t", "e": ""}
    assert page.samples[1] == Sample("my.metric", {"label.名": "v", "b": "c"}, 2.0)
    assert page.samples[2] == Sample("m", {"c": "d"}, 3.0)


def test_native_histograms_are_skipped_with_a_count() -> None:
    native = "{count:24,sum:100,schema:0,zero_threshold:0.001,zero_count:4,positive_spans:[0:2],positive_deltas:[2,1]}"
    page = parse(f'# TYPE n histogram\nn {native}\nn{{a="b"}} {native}\nn_count 24\nn {{le="1"}} 3\n# EOF\n', form=OPENMETRICS)
    assert page.native == 2
    assert values(page) == [("n_count", 24), ("n", 3)]
    assert page.errors == []


def test_created_is_a_time_and_never_a_count() -> None:
    page = parse("# TYPE q counter\nq_total 32\nq_created 1.7537e+09\n")
    assert page.kind("q_total") == "counter"
    assert page.kind("q_created") == "gauge"
    assert page.kind("nobody_told") == "unknown"


def test_an_openmetrics_page_without_its_end_was_cut_short() -> None:
    assert parse("# TYPE a gauge\na 1\n", form=OPENMETRICS).truncated
    assert not parse("# TYPE a gauge\na 1\n# EOF\n", form=OPENMETRICS).truncated
    assert not parse("a 1\n").truncated


def test_rules_that_a_page_breaks_cost_no_sample() -> None:
    page = parse("# TYPE a gauge\na 1\n# TYPE b gauge\nb 1\na 2\n# EOF\n", form=OPENMETRICS)
    assert values(page) == [("a", 1), ("b", 1), ("a", 2)]
    assert page.errors == []
    assert page.bad_rules == 1
    assert page.breaches == ["line 5: 'a' stands outside its family"]


LABELS = st.dictionaries(st.sampled_from(["a", "b", "c_d"]), st.text(st.characters(exclude_categories=["Cs"]), max_size=12), max_size=3)
SAMPLES = st.lists(st.tuples(LABELS, st.floats(allow_nan=False, min_value=0)), min_size=1, max_size=6)


@settings(deadline=None, max_examples=60)
@given(SAMPLES, st.sampled_from([TEXT, OPENMETRICS]))
def test_what_the_client_library_writes_is_read_as_it_was(samples: list[tuple[dict[str, str], float]], form: str) -> None:
    registry = CollectorRegistry()
    counter = Counter("hits", 'help with \\ and "', ("a", "b", "c_d"), registry=registry)
    gauge = Gauge("level", "help", ("a", "b", "c_d"), registry=registry)
    expected: dict[tuple[str, ...], float] = {}
    for labels, value in samples:
        key = tuple(labels.get(name, "") for name in ("a", "b", "c_d"))
        counter.labels(*key).inc(value)
        gauge.labels(*key).set(value)
        expected[key] = value
    text = (generate_latest if form == TEXT else generate_openmetrics)(registry).decode()
    page = parse(text, form=form)
    assert (page.errors, page.breaches, page.truncated) == ([], [], False)
    read = {tuple(one.labels[name] for name in ("a", "b", "c_d")): one.value for one in page.samples if one.name == "level"}
    assert read == expected
    if form == TEXT:
        theirs = [one for family in text_string_to_metric_families(text) for one in family.samples]
        assert sorted((one.name, sorted(one.labels.items()), one.value) for one in theirs) == sorted(
            (one.name, sorted(one.labels.items()), one.value) for one in page.samples
        )


@settings(deadline=None, max_examples=60)
@given(st.text(max_size=200), st.sampled_from([TEXT, OPENMETRICS]))
def test_no_text_at_all_makes_it_raise(text: str, form: str) -> None:
    page = parse(text, form=form)
    assert len(page.samples) + page.bad_lines + page.native <= 2 * len(text.split("\n"))


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.sampled_from(["a{", "}", '"', "\\", "=", ",", " ", "#", "1", "NaN", 'b="c"', "\n", "{count:1,", "# TYPE a counter\n"]),
        max_size=30,
    )
)
def test_pieces_of_the_grammar_in_any_order_make_nothing_raise(pieces: list[str]) -> None:
    for form in (TEXT, OPENMETRICS):
        parse("".join(pieces), form=form)

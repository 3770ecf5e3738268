"""Real pages of metrics: each gives the right samples or the right error. Refresh with REFRESH_GOLDEN=1 and read the difference.

`captured` pages were captured for this project from the real programs they name; of `public` ones only counts and digests are kept here.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as strict_openmetrics

from collectors.prometheus.families import load
from collectors.prometheus.keep import sort
from collectors.prometheus.parse import OPENMETRICS, TEXT, Page, parse
from tests.conftest import SHARED

pytestmark = pytest.mark.shared_data

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "exposition"
CAPTURED = SHARED / "data" / "captured" / "exposition"
PUBLIC = SHARED / "data" / "public" / "metrics"
CASES = PUBLIC / "openmetrics_testcases" / "testdata" / "parsers"
# Verdicts of ours on the OpenMetrics project's cases that differ from theirs, each with its reason. There is none.
DIFFERENCES: dict[str, str] = {}


def read(file: Path) -> str:
    return file.read_bytes().decode("utf-8", "replace")


def digest(page: Page) -> str:
    text = json.dumps([[one.name, sorted(one.labels.items()), repr(one.value), one.timestamp, one.exemplar] for one in page.samples])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def form_of(file: Path) -> str:
    ends = file.name.endswith((".om.txt", "openmetrics-roundtrip-test.prom", "openmetrics-test.prom"))
    return OPENMETRICS if ends else TEXT


def facts(file: Path) -> dict[str, Any]:
    page = parse(read(file), form=form_of(file))
    return {
        "samples": len(page.samples),
        "families": len(page.kinds),
        "exemplars": sum(one.exemplar is not None for one in page.samples),
        "native": page.native,
        "bad lines": page.bad_lines,
        "first errors": page.errors[:2],
        "broken rules": page.bad_rules,
        "truncated": page.truncated,
        "digest": digest(page),
    }


def meaning(file: Path) -> dict[str, Any]:
    """What would be stored of a page: per counter the number of series and the sum of values, whether its start is known."""
    scrape = sort(parse(read(file), form=form_of(file)), load(), at_ms=1_795_955_856_000)
    found: dict[str, Any] = {}
    for one in scrape.counters:
        row = found.setdefault(one.name, {"series": 0, "sum": 0.0, "starts": []})
        row["series"] += 1
        row["sum"] += one.value
        if one.start_ms is not None and one.start_ms not in row["starts"]:
            row["starts"].append(one.start_ms)
    for row in found.values():
        row["starts"] = len(row["starts"])
    gauges = Counter(row.name for row in scrape.samples)
    return {"counters": found, "gauges": dict(gauges), "dropped": scrape.dropped}


def check(name: str, found: dict[str, Any]) -> None:
    file = GOLDEN / f"{name}.json"
    if os.environ.get("REFRESH_GOLDEN"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    assert json.loads(json.dumps(found)) == json.loads(file.read_text())


def test_captured_pages() -> None:
    files = sorted(CAPTURED.glob("*"))
    assert len(files) == 10
    check("captured", {file.name: {**facts(file), **meaning(file)} for file in files})


def test_public_pages() -> None:
    files = sorted([*PUBLIC.glob("*.txt"), *PUBLIC.glob("*.prom"), *(PUBLIC / "llmd_epp").glob("*.txt")])
    assert len(files) == 40
    check("public", {file.relative_to(PUBLIC).as_posix(): facts(file) for file in files})


def test_pages_of_real_exporters_have_no_bad_line() -> None:
    for file in CAPTURED.glob("*.txt"):
        page = parse(read(file), form=form_of(file))
        if "noauth" in file.name:  # the body of a refusal, no page of metrics
            assert page.samples == []
            assert page.errors[0].startswith("line 1: ")
        else:
            lines = [line for line in read(file).splitlines() if line.strip() and not line.startswith("#")]
            assert (page.errors, len(page.samples)) == ([], len(lines)), file.name


def test_a_strict_reader_refuses_what_real_exporters_send_and_this_one_says_so() -> None:
    for name in ("redis_exporter_1.45.0.om.txt", "prometheus_2.42_self.om.txt"):
        text = read(CAPTURED / name)
        with pytest.raises(ValueError, match="Clashing name"):
            list(strict_openmetrics(text))
        page = parse(text, form=OPENMETRICS)
        assert page.errors == []
        assert page.bad_rules > 0


def verdict(name: str) -> bool:
    page = parse(read(CASES / name / "metrics"), form=OPENMETRICS)
    return not (page.errors or page.breaches)


def test_the_openmetrics_cases() -> None:
    wanted = {case.name: json.loads((case / "test.json").read_text())["shouldParse"] for case in sorted(CASES.iterdir())}
    assert len(wanted) == 211
    assert {name: should for name, should in wanted.items() if verdict(name) != should} == DIFFERENCES
    # The client library drops samples whose timestamps differ by less than it can hold; these are kept here.
    good = [name for name, should in wanted.items() if should and not name.startswith("duplicate_timestamps")]
    for name in good:
        text = read(CASES / name / "metrics")
        theirs = [sample for family in strict_openmetrics(text) for sample in family.samples]
        assert len(parse(text, form=OPENMETRICS).samples) == len(theirs), name

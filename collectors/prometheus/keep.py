"""From a page's samples to what is stored of it: our own families whole, and of all others what has a meaning for a cache.

Everything else is counted and dropped: exporters put keys and even cached answers into labels.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from collectors.prometheus.families import Families
from collectors.prometheus.parse import MOST_NOTES, Page, Sample
from storage.metrics import labels_text
from storage.rows import CounterReading, SampleRow, Scrape

OWN: Final = "cachescope_"
_MOST_GAUGES: Final = 500
_TOLD_NOTES: Final = 3


def sort(page: Page, families: Families, *, at_ms: int) -> Scrape:
    """Return what a page gives to the store. at_ms: when it came; the page's own timestamps are not used."""
    samples: list[SampleRow] = []
    counters: list[Sample] = []
    created: dict[tuple[str, str], int] = {}
    clocks: dict[str, list[Sample]] = {}
    dropped = gauges = 0
    for one in page.samples:
        if one.name.startswith(OWN):
            samples.append(SampleRow(one.name, labels_text(one.labels), page.kind(one.name), at_ms, one.value))
        elif one.name in families.labels:
            counters.append(one)
        elif one.name in families.gauges and gauges < _MOST_GAUGES:
            gauges += 1
            samples.append(SampleRow(one.name, labels_text(one.labels), "gauge", at_ms, one.value))
        elif one.name.endswith("_created"):
            created[one.name, labels_text(one.labels)] = round(one.value * 1000) if 0 < one.value < 1e12 else 0
        elif one.name not in families.clocks:
            dropped += 1
        if one.name in families.clocks:
            clocks.setdefault(one.name, []).append(one)
    readings = []
    for one in counters:
        labels = labels_text(one.labels)
        born_ms = created.get((created_name(one.name), labels))
        start_ms = born_ms or _started(one, families, clocks, at_ms)
        folded = labels_text(families.folded(one.name, one.labels))
        readings.append(CounterReading(one.name, labels, at_ms, one.value, start_ms, folded, bool(born_ms)))
    told = {
        "samples": len(page.samples),
        "kept": len(samples) + len(readings),
        "exemplars": sum(one.exemplar is not None for one in page.samples),
        "native_histograms": page.native,
        "bad_lines": page.bad_lines,
        "bad_rules": page.bad_rules,
        "breaches": page.breaches,
    }
    return Scrape(at_ms, samples, readings, dropped, error=faults(page), snapshots={"page": json.dumps(told)})


def created_name(name: str) -> str:
    """Return the name under which a counter's creation time is told."""
    for suffix in ("_total", "_count", "_sum"):
        if name.endswith(suffix):
            return f"{name.removesuffix(suffix)}_created"
    return f"{name}_created"


def _started(one: Sample, families: Families, clocks: Mapping[str, Sequence[Sample]], at_ms: int) -> int | None:
    """Return when the process behind a counter began: by its start time, or by how long it has been up."""
    start, uptime = families.starts[one.name]
    if (found := _of_same_target(clocks.get(start, ()), one.labels)) is not None and 0 < found < 1e12:
        return round(found * 1000)
    if (up := _of_same_target(clocks.get(uptime, ()), one.labels)) is not None and 0 <= up < 1e12:
        return at_ms - round(up * 1000)
    return None


def _of_same_target(clocks: Sequence[Sample], labels: Mapping[str, str]) -> float | None:
    """Return the one clock of a counter's target: the only one there is, or the only one with its job and instance."""
    if len(clocks) > 1:
        clocks = [one for one in clocks if all(one.labels.get(name) == labels.get(name) for name in ("job", "instance"))]
    return clocks[0].value if len(clocks) == 1 else None


def faults(page: Page) -> str:
    """Return what of a page could not be read, '' when all was."""
    told = list(page.errors[:_TOLD_NOTES])
    if page.bad_lines > len(told):
        more = page.bad_lines - len(told)
        told.append(f"and {more} more" if page.bad_lines <= MOST_NOTES else f"and {more} more lines")
    if page.truncated:
        told.append("no # EOF at the end: the page was cut short")
    return "; ".join(told)

"""Prometheus text to samples. A bad line costs itself alone: its error names the line, and no later family is lost.

Targets are asked for the text format 0.0.4. OpenMetrics pages are read with the same tolerance: strict readers refuse
what well-known exporters send ("Clashing name").
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import orjson
from prometheus_client.parser import text_string_to_metric_families

from storage.rows import SampleRow

_TYPE = re.compile(r"#\s*TYPE\s+(\S+)\s+(\S+)\s*$")
_KINDS = {"counter": "counter", "gauge": "gauge", "histogram": "histogram", "summary": "summary"}
# A sample ends before ' # '; what follows is an exemplar: {labels} value [timestamp].
_SAMPLE = re.compile(r'(?P<sample>[^{"#]*(?:\{(?:[^"}]|"(?:[^"\\]|\\.)*")*\})?[^#"]*?)\s#\s*(?P<exemplar>.*)$')
_EXEMPLAR = re.compile(r'\{(?:[^"}]|"(?:[^"\\]|\\.)*")*\}\s+\S+(?:\s+\S+)?\s*$')
_MAX_ERRORS = 20
_MAX_LINE = 64 * 1024
_OWN = "cachescope_"


@dataclass(frozen=True, slots=True)
class Page:
    """samples: what was read. errors: 'line N: …', the first twenty. left_out: samples above the bound."""

    samples: list[SampleRow]
    errors: list[str]
    left_out: int


def parse(text: str, *, now_ms: int, max_others: int) -> Page:
    """Return the page's samples: all of our own families, and at most max_others of the rest."""
    kinds: dict[str, str] = {}
    samples: list[SampleRow] = []
    errors: list[str] = []
    others = left_out = 0
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.strip()
        if not line:
            continue
        if line.startswith("#"):
            if found := _TYPE.match(line):
                kinds[found[1]] = _KINDS.get(found[2].lower(), "unknown")
            continue
        if not line.startswith(_OWN):
            if others >= max_others:
                left_out += 1
                continue
            others += 1
        try:
            line = _without_exemplar(line)
            samples.append(_sample(line, kinds, now_ms))
        except ValueError as error:
            errors.append(f"line {number}: {error}")
            if isinstance(error, _BadExemplar):
                samples.append(_sample(error.sample, kinds, now_ms))
    return Page(samples, errors[:_MAX_ERRORS], left_out)


class _BadExemplar(ValueError):
    def __init__(self, sample: str) -> None:
        super().__init__("an exemplar without {labels} was skipped")
        self.sample = sample


def _without_exemplar(line: str) -> str:
    if len(line) > _MAX_LINE:
        raise ValueError(f"longer than {_MAX_LINE} characters")
    if " #" not in line:
        return line
    found = _SAMPLE.match(line)
    if not found:
        return line
    if not _EXEMPLAR.match(found["exemplar"]):
        raise _BadExemplar(found["sample"])
    return found["sample"]


def _sample(line: str, kinds: dict[str, str], now_ms: int) -> SampleRow:
    try:
        sample = next(iter(text_string_to_metric_families(line + "\n"))).samples[0]
    except (ValueError, StopIteration, IndexError, KeyError) as error:
        raise ValueError(f"no sample ({str(error)[:80] or 'empty'})") from error
    labels = orjson.dumps(sample.labels, option=orjson.OPT_SORT_KEYS).decode()
    return SampleRow(sample.name, labels, _kind(sample.name, kinds), now_ms, float(sample.value))


def _kind(name: str, kinds: dict[str, str]) -> str:
    """Return the kind of a sample's family. `_created` is a time, never a count."""
    if name in kinds:
        return kinds[name]
    for suffix in ("_total", "_bucket", "_sum", "_count"):
        if name.endswith(suffix) and (kind := kinds.get(name.removesuffix(suffix))):
            return kind
    if name.endswith("_created") and name.removesuffix("_created") in kinds:
        return "gauge"
    return "unknown"

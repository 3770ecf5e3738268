"""A page of metrics to samples: the text format 0.0.4 and OpenMetrics 1.0, with quoted (UTF-8) names in both.

Every line that can be read is kept; one that cannot costs itself alone, and its error names it. So no family is lost to the fault of
another. What an OpenMetrics page breaks beyond single lines (`openmetrics.Rules`) is reported beside its samples and costs none:
well-known exporters break the rules on every page.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from collectors.prometheus.openmetrics import Rules

TEXT, OPENMETRICS = "text", "openmetrics"
MOST_NOTES: Final = 20  # errors and breaches that are told; all are counted
_MAX_LINE: Final = 64 * 1024
_MAX_LABELS: Final = 128
_NAME: Final = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_QUOTED: Final = r'"(?:[^"\\]|\\.)*"'
_START: Final = re.compile(rf"({_NAME})?(?:[ \t]*(\{{))?")
_NATIVE: Final = re.compile(r"[ \t]*\{[ \t]*[a-z_]+:")  # {count:5,sum:2.1,schema:0,…} where a number would stand
_PAIR: Final = re.compile(rf"[ \t]*(?:({_NAME})|({_QUOTED}))[ \t]*(?:=[ \t]*({_QUOTED}))?[ \t]*(,|(?=\}}))", re.DOTALL)
_CLOSE: Final = re.compile(r"[ \t]*\}")
_REST: Final = re.compile(r"[ \t]*([^ \t#{]+)(?:[ \t]+([^ \t#{]+))?[ \t]*(#.*)?$", re.DOTALL)
_NUMBER: Final = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf(?:inity)?|nan)$", re.IGNORECASE)
_META: Final = re.compile(rf"#[ \t]+(TYPE|HELP|UNIT)[ \t]+({_NAME}|{_QUOTED})(?:[ \t]+(.*))?$", re.DOTALL)
_ESCAPE: Final = re.compile(r'\\([\\"n])')
_KINDS: Final = {"counter", "gauge", "histogram", "gaugehistogram", "summary", "info", "stateset"}
_SUFFIXES: Final = ("_total", "_bucket", "_sum", "_count", "_created", "_gcount", "_gsum", "_info")


class Exemplar(NamedTuple):
    """What a sample points at, usually a trace. timestamp_s: Unix seconds."""

    labels: dict[str, str]
    value: float
    timestamp_s: float | None


class Sample(NamedTuple):
    """One line. timestamp: as written, seconds in OpenMetrics and milliseconds in the text format; None in most pages."""

    name: str
    labels: dict[str, str]
    value: float
    timestamp: float | None = None
    exemplar: Exemplar | None = None


@dataclass(slots=True)
class Page:
    """samples: what was read, in order. kinds: family -> declared type, lower case; other words are 'unknown'.

    errors: 'line N: …', lines or exemplars that could not be read. breaches: rules of OpenMetrics that the page breaks and that cost no
    sample. Both hold the first twenty; bad_lines and bad_rules count all. native: native histograms, which are skipped.
    truncated: an OpenMetrics page without its last line `# EOF`.
    """

    samples: list[Sample] = field(default_factory=list)
    kinds: dict[str, str] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    breaches: list[str] = field(default_factory=list)
    bad_lines: int = 0
    bad_rules: int = 0
    native: int = 0
    truncated: bool = False

    def error(self, line: int, what: str) -> None:
        self.bad_lines += 1
        if len(self.errors) < MOST_NOTES:
            self.errors.append(f"line {line}: {what}")

    def kind(self, name: str) -> str:
        """Return the type of a sample's family: of its own name, else of the name without its suffix."""
        if name in self.kinds:
            return self.kinds[name]
        for suffix in _SUFFIXES:
            if name.endswith(suffix) and (kind := self.kinds.get(name.removesuffix(suffix))):
                # `_created` is a time, never a count.
                return "gauge" if suffix == "_created" else kind
        return "unknown"


def parse(text: str, *, form: str = TEXT) -> Page:
    """Return the page's samples. form: TEXT or OPENMETRICS, by the answer's Content-Type. Never raises for a text."""
    page = Page()
    rules = Rules() if form == OPENMETRICS else None
    lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    for number, raw in enumerate(lines, start=1):
        line = raw.strip(" \t\r") if rules is None else raw
        if rules is not None:
            rules.line(number, line)
            line = line.strip(" \t\r")
        if not line:
            continue
        if line.startswith("#"):
            _metadata(line, page)
            continue
        try:
            sample, fault = _sample(line)
        except ValueError as error:
            page.error(number, str(error))
            continue
        if sample is None:
            page.native += 1
            continue
        if fault:
            page.error(number, fault)
        page.samples.append(sample)
        if rules is not None:
            has = sample.exemplar is not None
            rules.sample(number, sample.name, sample.labels, value=sample.value, timestamp=sample.timestamp, exemplar=has)
    if rules is not None:
        rules.end(len(lines))
        page.truncated = not rules.ended
        page.breaches = [f"line {line}: {what}" for line, what in rules.breaches[:MOST_NOTES]]
        page.bad_rules = len(rules.breaches)
    return page


def _metadata(line: str, page: Page) -> None:
    found = _META.match(line)
    if found and found[1] == "TYPE" and found[3]:
        kind = found[3].strip().lower()
        page.kinds[_plain(found[2])] = kind if kind in _KINDS else "unknown"


def _plain(name: str) -> str:
    return unquoted(name) if name.startswith('"') else name


def unquoted(text: str) -> str:
    """Return a quoted string's value. An unknown escape stays as it was written."""
    inner = text[1:-1]
    return _ESCAPE.sub(lambda found: "\n" if found[1] == "n" else found[1], inner) if "\\" in inner else inner


def _sample(line: str) -> tuple[Sample | None, str]:
    """Return the sample and what is wrong with its exemplar; None for a native histogram. Raises ValueError for anything else."""
    if len(line) > _MAX_LINE:
        raise ValueError(f"longer than {_MAX_LINE} characters")
    start = _START.match(line)
    name = (start[1] or "") if start else ""
    at = start.end() if start else 0
    labels: dict[str, str] = {}
    if start and start[2]:
        if name and _NATIVE.match(line, at - 1):
            return None, ""
        within, labels, at = _labels(line, at)
        if within and name:
            raise ValueError("the metric has two names")
        name = name or within
    if not name:
        raise ValueError("no metric name")
    if _NATIVE.match(line, at):
        return None, ""
    found = _REST.match(line, at)
    if not found or line[at] not in " \t":
        raise ValueError("no value after the name and labels")
    value, timestamp = number(found[1], "value"), None
    if found[2]:
        timestamp = number(found[2], "timestamp", finite=True)
    if not found[3]:
        return Sample(name, labels, value, timestamp), ""
    try:
        return Sample(name, labels, value, timestamp, _exemplar(found[3])), ""
    except ValueError as error:
        return Sample(name, labels, value, timestamp), f"the exemplar was skipped: {error}"


def _labels(line: str, at: int) -> tuple[str, dict[str, str], int]:
    """Return the name that stands inside the braces, the labels, and where the braces end."""
    labels: dict[str, str] = {}
    name = ""
    while not (closed := _CLOSE.match(line, at)):
        pair = _PAIR.match(line, at)
        if not pair:
            raise ValueError('labels cannot be read; expected name="value" pairs in braces')
        key, value = _plain(pair[1] or pair[2]), pair[3]
        if value is None:
            if pair[1] or name:
                raise ValueError(f"label {key[:40]!r} has no value")
            name = key
        elif key == "__name__" and not name:
            name = unquoted(value)
        elif not key or key in labels:
            raise ValueError(f"label {key[:40]!r} is there twice" if key else "a label without a name")
        else:
            labels[key] = unquoted(value)
        if len(labels) > _MAX_LABELS:
            raise ValueError(f"more than {_MAX_LABELS} labels")
        at = pair.end()
    return name, labels, closed.end()


def number(text: str, what: str, *, finite: bool = False) -> float:
    """Return a number of either format. Raises ValueError: hexadecimal, underscores and words are none."""
    if not _NUMBER.match(text):
        raise ValueError(f"{what} {text[:40]!r} is no number")
    value = float(text)
    if finite and not math.isfinite(value):
        raise ValueError(f"{what} {text[:40]!r} is not finite")
    return value


def _exemplar(text: str) -> Exemplar:
    """Read '# {labels} value [timestamp]'."""
    body = text[1:].lstrip(" \t")
    if not body.startswith("{"):
        raise ValueError("expected # {labels} value")
    _, labels, at = _labels(body, 1)
    parts = body[at:].split()
    if not 1 <= len(parts) <= 2:
        raise ValueError("expected # {labels} value [timestamp]")
    timestamp = number(parts[1], "timestamp", finite=True) if len(parts) == 2 else None
    return Exemplar(labels, number(parts[0], "value"), timestamp)

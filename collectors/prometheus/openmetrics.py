"""The rules of OpenMetrics 1.0 that a whole page must keep: what a strict reader would refuse.

They cost no sample. A page that breaks one is read all the same; how often, and the first lines, are told.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

_NAME: Final = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_QUOTED: Final = r'"(?:[^"\\]|\\.)*"'
_PAIR: Final = rf"(?:[a-zA-Z_][a-zA-Z0-9_]*|{_QUOTED})={_QUOTED}"
_LABELS: Final = rf"\{{(?:{_PAIR}(?:,{_PAIR})*)?\}}"
_UTF8: Final = rf"\{{{_QUOTED}(?:,{_PAIR})*\}}"
_REAL: Final = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_VALUE: Final = rf"(?:{_REAL}|[+-]?[Ii][Nn][Ff](?:[Ii][Nn][Ii][Tt][Yy])?|[Nn][Aa][Nn])"
_SAMPLE: Final = re.compile(
    rf"(?:{_NAME}(?:{_LABELS})?|{_UTF8}) {_VALUE}(?: {_REAL})?(?: # (?P<exemplar>{_LABELS}) {_VALUE}(?: {_REAL})?)?", re.DOTALL
)
_META: Final = re.compile(rf"# (TYPE|HELP|UNIT) ({_NAME}|{_QUOTED}) (.*)", re.DOTALL)
_TEXTS: Final = re.compile(rf"({_NAME}|{_QUOTED})=({_QUOTED})", re.DOTALL)
_NATIVE: Final = re.compile(r" \{[^\"]*schema:")
_MOST_EXEMPLAR_CHARS: Final = 128
_BUCKET: Final = {"histogram": "_bucket", "gaugehistogram": "_bucket"}
_SUFFIXES: Final[dict[str, tuple[str, ...]]] = {
    "counter": ("_total", "_created"),
    "gauge": ("",),
    "histogram": ("_bucket", "_count", "_sum", "_created"),
    "gaugehistogram": ("_bucket", "_gcount", "_gsum"),
    "info": ("_info",),
    "stateset": ("",),
    "summary": ("", "_count", "_sum", "_created"),
    "unknown": ("",),
}
_NOT_NEGATIVE: Final = {
    "counter": ("_total",),
    "histogram": ("_bucket", "_count", "_sum"),
    "gaugehistogram": ("_bucket", "_gcount", "_gsum"),
    "summary": ("_count", "_sum"),
}
_MOST_BREACHES: Final = 1_000
Labels = frozenset[tuple[str, str]]


@dataclass(slots=True)
class _Group:
    """The samples of one family with one set of labels, bucket and quantile labels aside."""

    buckets: list[tuple[float, float]] = field(default_factory=list)  # (le, value), as they come
    count: float | None = None
    sum: float | None = None


@dataclass(slots=True)
class _Family:
    name: str
    kind: str = "unknown"
    unit: str = ""
    told: set[str] = field(default_factory=set)  # which metadata came
    groups: dict[Labels, _Group] = field(default_factory=dict)
    group: Labels | None = None  # the one under way
    last: dict[tuple[str, Labels], float | None] = field(default_factory=dict)  # sample -> its timestamp


class Rules:
    """Fed the lines in order, then `end`. breaches: (line, what), at most a thousand."""

    def __init__(self) -> None:
        self.breaches: list[tuple[int, str]] = []
        self.ended = False
        self._family: _Family | None = None
        self._claimed: dict[str, str] = {}  # sample name -> family

    def _breach(self, line: int, what: str) -> None:
        if len(self.breaches) < _MOST_BREACHES:
            self.breaches.append((line, what))

    def line(self, number: int, line: str) -> None:
        """Check how the line is written, and take its metadata."""
        if self.ended:
            self._breach(number, "text after # EOF")
        elif line == "# EOF":
            self.ended = True
        elif not line:
            self._breach(number, "a blank line")
        elif line.startswith("#"):
            self._metadata(number, line)
        elif _NATIVE.search(line):
            return
        elif not (found := _SAMPLE.fullmatch(line)):
            self._breach(number, "not written as OpenMetrics writes a sample")
        elif found["exemplar"]:
            length = sum(len(name) + len(value) - 2 for name, value in _TEXTS.findall(found["exemplar"]))
            if length > _MOST_EXEMPLAR_CHARS:
                self._breach(number, f"an exemplar's labels are longer than {_MOST_EXEMPLAR_CHARS} characters")

    def _metadata(self, number: int, line: str) -> None:
        found = _META.fullmatch(line)
        if not found:
            self._breach(number, "a comment that is none of TYPE, HELP, UNIT and EOF, or one without its value")
            return
        what, name, text = found[1], found[2].strip('"'), found[3]
        if self._family is None or self._family.name != name:
            self._begin(number, name)
        family = self._family
        if family is None:
            return
        if family.last:
            self._breach(number, f"{what} after the samples of {name[:60]!r}")
        if what in family.told:
            self._breach(number, f"a second {what} of {name[:60]!r}")
        family.told.add(what)
        if what == "TYPE":
            if text not in _SUFFIXES:
                self._breach(number, f"unknown type {text[:20]!r}")
            else:
                family.kind = text
                self._claim(number, family)
        elif what == "UNIT":
            family.unit = text
            if text and not name.endswith(f"_{text}"):
                self._breach(number, f"the name {name[:60]!r} does not end with its unit")

    def _begin(self, number: int, name: str) -> None:
        self._close(number)
        self._family = _Family(name)
        if name in self._claimed.values():
            self._breach(number, f"{name[:60]!r} stands outside its family")

    def _claim(self, number: int, family: _Family) -> None:
        for suffix in {*_SUFFIXES[family.kind], ""}:
            owner = self._claimed.setdefault(family.name + suffix, family.name)
            if owner != family.name:
                self._breach(number, f"the name {family.name + suffix!r} clashes with the family {owner[:60]!r}")

    def sample(self, number: int, name: str, labels: Mapping[str, str], *, value: float, timestamp: float | None, exemplar: bool) -> None:
        """Check a sample against its family."""
        family = self._family
        if family is None or not self._belongs(family, name):
            self._begin(number, name)
            family = self._family
            if family is None:
                return
            self._claim(number, family)
        suffix = name.removeprefix(family.name)
        self._check_labels(number, family, suffix, labels)
        self._check_value(number, family, suffix, value, labels)
        if exemplar and (family.kind, suffix) not in {("counter", "_total"), *_BUCKET.items()}:
            self._breach(number, "an exemplar where none may be")
        self._order(number, family, name, labels, timestamp)
        self._collect(family, suffix, labels, value)

    def _belongs(self, family: _Family, name: str) -> bool:
        return any(name == family.name + suffix for suffix in _SUFFIXES[family.kind])

    def _check_labels(self, number: int, family: _Family, suffix: str, labels: Mapping[str, str]) -> None:
        if family.kind == "summary" and not suffix:
            quantile = _real(labels.get("quantile", ""))
            if quantile is None or not 0 <= quantile <= 1:
                self._breach(number, "a summary's quantile is missing or not within 0…1")
        elif suffix == _BUCKET.get(family.kind):
            bound = _real(labels.get("le", ""))
            if bound is None or math.isnan(bound) or (math.isinf(bound) and labels["le"] not in {"+Inf", "-Inf"}):
                self._breach(number, "a bucket's `le` is missing or no number")
        elif family.kind == "stateset" and family.name not in labels:
            self._breach(number, "a state set's sample lacks the label of its name")

    def _check_value(self, number: int, family: _Family, suffix: str, value: float, labels: Mapping[str, str]) -> None:
        if suffix in _NOT_NEGATIVE.get(family.kind, ()):
            # A gauge histogram's sum may be negative when it has buckets below zero.
            below = suffix == "_gsum" and any(bound < 0 for group in family.groups.values() for bound, _ in group.buckets)
            if math.isnan(value) or (value < 0 and not below):
                self._breach(number, "a count that is negative or no number")
        elif family.kind == "summary" and not suffix and value < 0:
            self._breach(number, "a negative quantile")
        elif (family.kind == "info" and value != 1) or (family.kind == "stateset" and value not in {0, 1}):
            self._breach(number, f"the value of {'an info' if family.kind == 'info' else 'a state set'} is out of place")

    def _order(self, number: int, family: _Family, name: str, labels: Mapping[str, str], timestamp: float | None) -> None:
        key = _group_key(family, labels)
        if key != family.group and key in family.groups:
            self._breach(number, "samples of one set of labels do not stand together")
        family.group = key
        family.groups.setdefault(key, _Group())
        place = (name, frozenset(labels.items()))
        if place in family.last:
            before = family.last[place]
            if before is None or timestamp is None or timestamp < before:
                self._breach(number, "the same series again, without a later timestamp")
        family.last[place] = timestamp

    def _collect(self, family: _Family, suffix: str, labels: Mapping[str, str], value: float) -> None:
        if family.kind not in _BUCKET:
            return
        group = family.groups[_group_key(family, labels)]
        if suffix == "_bucket":
            group.buckets.append((_real(labels.get("le", "")) or 0.0, value))
        elif suffix in {"_count", "_gcount"}:
            group.count = value
        elif suffix in {"_sum", "_gsum"}:
            group.sum = value

    def end(self, lines: int) -> None:
        """Check what only the whole page can tell."""
        self._close(lines)
        if not self.ended:
            self._breach(lines, "no # EOF at the end: the page may be cut short")

    def _close(self, number: int) -> None:
        family = self._family
        if family is None:
            return
        if family.unit and family.kind in {"info", "stateset"}:
            self._breach(number, f"a {family.kind} has no unit")
        if family.kind not in _BUCKET:
            return
        for group in family.groups.values():
            if fault := _histogram_fault(family.kind, group):
                self._breach(number, f"{family.name[:60]!r}: {fault}")


def _group_key(family: _Family, labels: Mapping[str, str]) -> Labels:
    aside = {"summary": "quantile", "histogram": "le", "gaugehistogram": "le", "stateset": family.name}.get(family.kind)
    return frozenset() if family.kind == "info" else frozenset(item for item in labels.items() if item[0] != aside)


def _histogram_fault(kind: str, group: _Group) -> str:
    bounds = [bound for bound, _ in group.buckets]
    counts = [value for _, value in group.buckets]
    negative = bool(bounds) and bounds[0] < 0
    checks = {
        "no +Inf bucket at the end": not bounds or bounds[-1] != math.inf,
        "buckets out of order": bounds != sorted(set(bounds)),
        "bucket counts that fall": counts != sorted(counts),
        "the count differs from the +Inf bucket": bool(counts) and group.count is not None and group.count != counts[-1],
        "a sum beside buckets below zero": kind == "histogram" and negative and group.sum is not None,
        "count and sum must come together": (group.count is None) != (group.sum is None) and not (kind == "histogram" and negative),
    }
    return next((fault for fault, broken in checks.items() if broken), "")


def _real(text: str) -> float | None:
    try:
        return float(text) if "_" not in text else None
    except ValueError:
        return None

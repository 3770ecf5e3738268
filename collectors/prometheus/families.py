"""What scraped counters mean, as data: the table shipped beside this module, extended by a file of the user's.

A pure reading of two TOML files; nothing here knows of targets or stores.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from collectors.errors import BadFamilies

Kind = Literal["response", "provider_prompt", "kv_prefix", "embedding", "store", "inference"]
Unit = Literal["requests", "tokens", "keys", "blocks", "items", "bytes", "usd"]

PROCESS_START: Final = "process_start_time_seconds"
OVERFLOW: Final = "cachescope_overflow"  # the label of the series that stands for those above a target's bound
_SHIPPED: Final = Path(__file__).with_name("families.toml")
_MOST_SYSTEMS: Final = 200


Seen = Collection[tuple[str, Mapping[str, str]]]  # counters of a source: names and labels


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Series(_Row):
    """Counters of one name. with: label -> the values that are meant, '' for a missing label; case does not matter."""

    name: str = Field(min_length=1)
    with_: dict[str, tuple[str, ...]] = Field(default={}, alias="with")

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(labels.get(label, "").casefold() in {value.casefold() for value in values} for label, values in self.with_.items())

    def has(self, seen: Seen) -> bool:
        return any(self.name == name and self.matches(labels) for name, labels in seen)


def _series(value: object) -> object:
    return {"name": value} if isinstance(value, str) else value


OneSeries = Annotated[Series, BeforeValidator(_series)]


class Pair(_Row):
    """One generation of names of a hit rate's counters. versions: which have it, in words."""

    versions: str = ""
    hits: tuple[OneSeries, ...] = Field(min_length=1)
    queries: tuple[OneSeries, ...] = ()
    misses: tuple[OneSeries, ...] = ()

    @model_validator(mode="after")
    def _one_denominator(self) -> Pair:
        if bool(self.queries) == bool(self.misses):
            raise ValueError("expected either queries or misses")
        return self

    @property
    def asked(self) -> tuple[Series, ...]:
        """The series of the denominator beside the hits: all queries, or the misses."""
        return self.queries or self.misses

    def known_by(self, seen: Seen) -> int:
        """Return how well a source with these counters has this pair: 2 = numerator and denominator, 1 = the denominator, 0 = not.

        A labelled counter is not there before its first event: hits alone are a denominator where it is hits and misses.
        """
        hits = any(series.has(seen) for series in self.hits)
        asked = any(series.has(seen) for series in self.asked)
        return 1 + hits if asked else int(hits and bool(self.misses))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(series.name for series in (*self.hits, *self.asked)))


class Ratio(_Row):
    """A hit rate. pairs: the same counters under successive names; the first that a source has is used.

    by: a label by which it is split. mean: the counters hold a sum of ratios and their number, so it is a mean, weighted by nothing.
    needs_hits: a source without the series of hits does not tell of hits at all; otherwise it has had none yet.
    """

    id: str
    title: str
    kind: Kind
    unit: Unit
    by: str = ""
    note: str = ""
    mean: bool = False
    needs_hits: bool = False
    pairs: tuple[Pair, ...] = Field(min_length=1)

    def pair(self, seen: Seen) -> Pair | None:
        """Return the pair that a source with these counters has best, of equals the first; None when it has none."""
        best = max(self.pairs, key=lambda pair: pair.known_by(seen))
        return best if best.known_by(seen) else None

    def told_by(self, seen: Seen) -> bool:
        """Return whether a source that ever had these counters tells of this rate."""
        return max(pair.known_by(seen) for pair in self.pairs) >= (2 if self.needs_hits else 1)


class Count(_Row):
    """A counter that makes no rate. series: alternatives, each a list to be summed; the first that a source has is used."""

    id: str
    title: str
    unit: Unit
    by: str = ""
    note: str = ""
    series: tuple[tuple[OneSeries, ...], ...] = Field(min_length=1)

    def chosen(self, seen: Seen) -> tuple[Series, ...]:
        """Return the first alternative that a source with these counters has; empty when it has none."""
        return next((several for several in self.series if any(one.has(seen) for one in several)), ())


class Gauge(_Row):
    """A value shown as it is. misleads: why it is no hit rate; '' = it does not."""

    names: tuple[str, ...] = Field(min_length=1)
    title: str
    misleads: str = ""


class System(_Row):
    """One product that exposes counters. start: the gauge that tells when the counted process began; uptime: how long ago, in seconds."""

    id: str = Field(min_length=1)
    title: str = Field(min_length=1)
    start: str = PROCESS_START
    uptime: str = ""
    ratio: tuple[Ratio, ...] = ()
    count: tuple[Count, ...] = ()
    gauge: tuple[Gauge, ...] = ()

    def counters(self) -> Iterable[tuple[Series, str]]:
        """Yield every series of counters with the label by which it is split."""
        for ratio in self.ratio:
            for pair in ratio.pairs:
                for series in (*pair.hits, *pair.asked):
                    yield series, ratio.by
        for count in self.count:
            for several in count.series:
                for series in several:
                    yield series, count.by


class Families(_Row):
    """The whole table."""

    system: tuple[System, ...] = Field(default=(), max_length=_MOST_SYSTEMS)

    @cached_property
    def starts(self) -> Mapping[str, tuple[str, str]]:
        """Counter's name -> the gauges that tell when its process began and how long it has been up; '' = none."""
        return {series.name: (system.start, system.uptime) for system in self.system for series, _ in system.counters()}

    @cached_property
    def clocks(self) -> frozenset[str]:
        """The names of all those gauges."""
        return frozenset(name for pair in self.starts.values() for name in pair if name)

    @cached_property
    def gauges(self) -> frozenset[str]:
        return frozenset(name for system in self.system for gauge in system.gauge for name in gauge.names)

    @cached_property
    def labels(self) -> Mapping[str, Mapping[str, frozenset[str]]]:
        """Counter's name -> the labels that its meaning hangs on -> the values that are told apart."""
        found: dict[str, dict[str, frozenset[str]]] = {}
        for system in self.system:
            for series, _ in system.counters():
                mine = found.setdefault(series.name, {})
                for label, values in series.with_.items():
                    mine[label] = mine.get(label, frozenset()) | {value.casefold() for value in values}
        return found

    @cached_property
    def told_apart(self) -> Mapping[str, frozenset[str]]:
        """Counter's name -> the labels by which its series are told apart when shown; all others are summed over."""
        found: dict[str, set[str]] = {}
        for system in self.system:
            for series, by in system.counters():
                found.setdefault(series.name, {OVERFLOW}).update([*series.with_, *([by] if by else [])])
        return {name: frozenset(labels) for name, labels in found.items()}

    def folded(self, name: str, labels: Mapping[str, str]) -> dict[str, str]:
        """Return the labels of the overflow series that takes this one in: its meaning stays, the rest is given up."""
        kept = {
            label: labels.get(label, "")
            for label, values in self.labels.get(name, {}).items()
            if labels.get(label, "").casefold() in values
        }
        return {**{label: value for label, value in kept.items() if value}, OVERFLOW: "true"}


def load(extension: Path | None = None) -> Families:
    """Return the shipped table, extended by a user's file: a system with a known id replaces it, others come after.

    Raises BadFamilies with the file, the place and what was expected.
    """
    table = {system.id: system for system in _read(_SHIPPED).system}
    if extension is not None:
        table.update({system.id: system for system in _read(extension).system})
    return Families(system=tuple(table.values()))


def _read(file: Path) -> Families:
    try:
        values: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadFamilies(f"cannot read the families file {file}: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadFamilies(f"the families file {file} is not valid TOML: {error}") from error
    try:
        found = Families.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise BadFamilies(f"the families file {file}, {place}: {first['msg'].removeprefix('Value error, ')}") from error
    ids = [system.id for system in found.system]
    if twice := next((one for one in ids if ids.count(one) > 1), ""):
        raise BadFamilies(f"the families file {file} has two systems with the id {twice!r}; expected each once")
    return found

"""What a metric of OTLP is called on a page of Prometheus's: the name under which the families table knows it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from collectors.prometheus.families import Families

_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_:]")
_NO_LABEL: Final = re.compile(r"[^A-Za-z0-9_]")
_ENDS: Final = ("_total", "_sum", "_count")
# As Prometheus writes UCUM units at the end of a name.
_UNITS: Final = {"By": "bytes", "s": "seconds", "ms": "milliseconds", "us": "microseconds", "1": "ratio", "%": "percent"}


class Names:
    """Of one families table. A name is looked for as it is, with its unit at the end, and a total also without `_total`.

    Source: OpenTelemetry, "Prometheus and OpenMetrics Compatibility".
    """

    def __init__(self, families: Families) -> None:
        self.families = families
        self.counter = lru_cache(4096)(self._counter)
        self.gauge = lru_cache(4096)(self._gauge)
        self.knows = lru_cache(4096)(self._knows)

    def _counter(self, name: str, unit: str) -> str:
        """Return the known counter that a sample's name stands for, '' when there is none."""
        return next((one for one in _spellings(name, unit) if one in self.families.labels), "")

    def _gauge(self, name: str, unit: str) -> str:
        """Return the known gauge likewise."""
        return next((one for one in _spellings(name, unit) if one in self.families.gauges), "")

    def _knows(self, name: str, unit: str) -> bool:
        """Return whether a metric of this name can be a known counter or gauge, whatever its kind is."""
        return bool(self._gauge(name, unit)) or any(self._counter(name + end, unit) for end in ("", *_ENDS))


def label_names(labels: Mapping[str, str]) -> Mapping[str, str]:
    """Return the labels as Prometheus would name them, the very same where nothing changes."""
    if not any(_NO_LABEL.search(name) for name in labels):
        return labels
    return {_NO_LABEL.sub("_", name): value for name, value in labels.items()}


def _spellings(name: str, unit: str) -> list[str]:
    plain = _NO_NAME.sub("_", name)
    end = next((end for end in _ENDS if plain.endswith(end)), "")
    stem = plain.removesuffix(end)
    found = [plain]
    if unit in _UNITS:
        found.append(f"{stem}_{_UNITS[unit]}{end}")
    if end == "_total":
        found.append(stem)
    return found

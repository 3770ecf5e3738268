"""What a span tells of the sampling that it outlived: by whom, and the probability with which it was kept.

A span without any sign of it counts as one; whether its sender samples in silence cannot be seen here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

# The OpenTelemetry Collector's tail sampler names its policy so, on the scope; what it keeps is no random part.
_TAIL: Final = "tailsampling."
_RATIOS: Final = ("sampling.ratio", "sampling.probability")
_ONE_IN: Final = ("SampleRate", "sampleRate")  # Honeycomb's: one of so many was kept
_TYPE, _PARAM = "sampler.type", "sampler.param"  # Jaeger's
_SIGNS: Final = frozenset({*_RATIOS, *_ONE_IN, _TYPE, "tailsampling.policy", "tailsampling.composite_policy"})
_WHOLE: Final = 1 << 56


class Sampling(NamedTuple):
    """sampler: threshold | ratio | tail | other; '' = no sign of any. kept_ratio: 0 < p <= 1; None = not told."""

    sampler: str = ""
    kept_ratio: float | None = None


NONE: Final = Sampling()


def read(trace_state: str, attributes: Mapping[str, Any], scope: Mapping[str, Any]) -> Sampling:
    """Return what the span tells. A tail sampler's choice hides every ratio that came before it. scope: the instrumentation scope's.

    Source: OpenTelemetry, TraceState: Probability Sampling: `ot=th:` holds the first digits of a rejection threshold of 56 bits.
    """
    if scope and any(name.startswith(_TAIL) for name in scope):
        return Sampling("tail")
    if not trace_state and _SIGNS.isdisjoint(attributes):
        return NONE
    if any(name.startswith(_TAIL) for name in attributes):
        return Sampling("tail")
    kept = _threshold(trace_state)
    if kept is not None:
        return Sampling("threshold", kept) if kept < 1 else NONE
    return _of_attributes(attributes)


def _of_attributes(attributes: Mapping[str, Any]) -> Sampling:
    ratios = [_number(attributes[name]) for name in _RATIOS if name in attributes]
    ratios += [1 / many if many else None for many in (_number(attributes[name]) for name in _ONE_IN if name in attributes)]
    kind = attributes.get(_TYPE)
    if kind == "probabilistic":
        ratios.append(_number(attributes.get(_PARAM)))
    elif kind is not None and kind != "const":
        return Sampling("other")
    return _told(ratios[0]) if ratios else NONE


def _told(ratio: float | None) -> Sampling:
    if ratio is None or not 0 < ratio <= 1:
        return Sampling("other")
    return Sampling("ratio", ratio) if ratio < 1 else NONE


def _threshold(trace_state: str) -> float | None:
    """Return the probability of `ot=…;th:<hex>;…`; None where there is none, or none that can be read."""
    for member in trace_state.split(","):
        vendor, _, value = member.strip().partition("=")
        if vendor != "ot":
            continue
        for part in value.split(";"):
            name, _, digits = part.partition(":")
            if name == "th" and 0 < len(digits) <= 14 and all(digit in "0123456789abcdef" for digit in digits):
                return 1 - int(digits.ljust(14, "0"), 16) / _WHOLE
    return None


def _number(value: object) -> float | None:
    """Return a finite number, also one that was written as text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None

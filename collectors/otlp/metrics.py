"""OTLP metrics to samples: sums, gauges, histograms, exponential histograms and summaries, totals and increases.

Samples have the shape of scraped ones, so that one reader reads both: a monotonic sum ends in `_total`, a histogram is `_bucket` with
`le`, `_sum` and `_count`. An increase (delta temporality) stays an increase: its kind ends in `_delta`, and its start is beside it.
What the families table knows as a counter is a reading of it as well, like one on a scraped page; a gauge has the name that it has there.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import orjson

from collectors.dialects.base import text
from collectors.dialects.prompts import NOT_RECORDED, digest_of_lost, without_prompts, without_prose
from collectors.otlp import cache_metrics
from collectors.otlp.bounds import Bounds
from collectors.otlp.buckets import Unusable, exponential_bounds
from collectors.otlp.decode import Decoded, source_key
from collectors.otlp.messages import METRICS, scopes
from collectors.otlp.naming import Names, label_names
from collectors.otlp.series import SeenSeries
from collectors.otlp.wire import Attributes, pb_attributes
from collectors.prometheus.families import Families
from collectors.settings import CollectorSettings
from storage.metrics import labels_text
from storage.rows import CounterReading, ExemplarRow, MetricBatch, PointRows, SampleRow, SourceKey

NOT_STORED = "not_stored"
DELTA, CUMULATIVE = 1, 2  # AggregationTemporality
_NO_VALUE = 1  # DataPointFlags: the series ended
_MAX_LABELS = 64
_MAX_NAME = 256
_MAX_SERIES_LABELS = 8_192  # a series of a known counter is kept for years
_MAX_UNIT = 16  # a longer one changes no name
_MAX_EXEMPLARS = 64  # of one point; SDKs keep one a bucket
_MAX_BUCKETS = 512  # of one point, or quantiles; SDKs have up to 160 on each side of zero
# Each sample carries its labels: a few large points could become gigabytes of them.
_MAX_REQUEST_SAMPLES = 200_000
_MAX_REQUEST_LABEL_BYTES = 64 * 1024 * 1024
_MAX_LE_BYTES = 48  # `"le":"…",`
_INT64_MS = 2**63 // 1_000_000
# What tells two senders of one service apart, when they do not say it themselves.
_COMMON = frozenset({"service.name", "service.version", "service.namespace", "deployment.environment", "deployment.environment.name"})


class Refused(Exception):
    """A point that contradicts itself. The text is the reason under which it is counted."""


class _Point(NamedTuple):
    """What is the same for all samples of a point."""

    name: str
    labels: _Labels
    at_ms: int
    start_ms: int | None
    unit: str
    names: Names

    def sample(self, suffix: str, kind: str, value: float, labels: str = "") -> SampleRow:
        if math.isnan(value):
            raise Refused("not_a_number")
        return SampleRow(self.name + suffix, labels or self.labels.own, kind, self.at_ms, value, self.start_ms)

    def level(self, kind: str, value: float) -> SampleRow:
        """Return the sample of a gauge, under the name by which it is known. What a level changed by is none."""
        sample = self.sample("", kind, value)
        if kind != "gauge":
            return sample
        known = self.names.gauge(self.name, self.unit)
        return sample._replace(name=known) if known else sample

    def readings(self, samples: Sequence[SampleRow], *, began: bool) -> Iterator[CounterReading]:
        """Yield those of the samples that are known counters. began: the point's start says when its counting began."""
        for one in samples:
            if one.name.endswith("_bucket") or one.kind == "gauge_delta":
                continue
            known = self.names.counter(one.name, self.unit)
            if known:
                if len(self.labels.named_text) > _MAX_SERIES_LABELS:
                    raise Refused("labels_too_long")
                delta = one.kind.endswith("_delta")
                # Senders of totals above the bound are left out: what they send may come in parts, and the sum of a part means nothing.
                folded = labels_text(self.names.families.folded(known, self.labels.named)) if delta else ""
                start_ms = self.start_ms if began else None
                yield CounterReading(known, self.labels.named_text, self.at_ms, one.value, start_ms, folded, delta=delta)


class _Labels:
    """A point's labels as JSON, its keys in order, written once. A bucket's bound is put where it belongs among them."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        self._held = labels
        self._around: dict[str, tuple[str, str]] = {}
        self.own = labels_text(labels)
        self.bytes = len(self.own) * (1 if self.own.isascii() else 4)  # in memory, at most

    @cached_property
    def named(self) -> Mapping[str, str]:
        """With the names that they have on a page."""
        return label_names(self._held)

    @cached_property
    def named_text(self) -> str:
        return self.own if self.named is self._held else labels_text(self.named)

    def plus(self, name: str, value: str) -> str:
        """Return them with one more, which wins over one of that name."""
        if name not in self._around:
            before = labels_text({key: held for key, held in self._held.items() if key < name})[:-1]
            after = labels_text({key: held for key, held in self._held.items() if key > name})[1:]
            self._around[name] = (f'{before}{"," if len(before) > 1 else ""}"{name}":"', f'"{"," if len(after) > 1 else ""}{after}')
        before, after = self._around[name]
        return f"{before}{value}{after}"


@dataclass(slots=True)
class _Room:
    """What of a request may still become samples."""

    samples: int = _MAX_REQUEST_SAMPLES
    label_bytes: int = _MAX_REQUEST_LABEL_BYTES

    def take(self, samples: int, label_bytes: int) -> None:
        """Take it before the samples are made. Raises Refused."""
        if samples > self.samples or label_bytes > self.label_bytes:
            raise Refused("too_many_points")
        self.samples -= samples
        self.label_bytes -= label_bytes


@dataclass(slots=True)
class _Sender:
    points: list[PointRows] = field(default_factory=list)
    rejects: Counter[str] = field(default_factory=Counter)
    dropped: int = 0


class MetricsDecoder:
    """Bytes to rows. Remembers which series it has seen of late: above the bound new ones are refused, and counted as such."""

    def __init__(self, settings: CollectorSettings, families: Families) -> None:
        self._settings = settings
        self._names = Names(families)
        self._series = SeenSeries(settings.max_series)

    def decode(self, body: bytes, content_type: str) -> Decoded:
        """Return the points to be stored; those of no cache as dropped, the malformed ones as refused by reason. Raises Undecodable."""
        bounds = Bounds(self._settings.max_attribute_chars, self._settings.max_attributes)
        senders: dict[SourceKey, _Sender] = {}
        room = _Room()
        for scope in scopes(body, content_type, METRICS, bounds):
            source = _source(scope.resource, scope.name, scope.version)
            sender = senders.setdefault(source, _Sender())
            sender.rejects["malformed_metric"] += sum(_points_in(metric) for metric in scope.unreadable)
            for metric in scope.items:
                self._metric(metric, source, sender, bounds, room)
        return _decoded(senders)

    def _metric(self, metric: Any, source: SourceKey, sender: _Sender, bounds: Bounds, room: _Room) -> None:
        kind = metric.WhichOneof("data")
        if kind is None:
            return
        data = getattr(metric, kind)
        name = text(metric.name)
        if not name or len(name) > _MAX_NAME or not (self._settings.record_prompts or name == without_prose(name)):
            sender.rejects["invalid_name"] += len(data.data_points)
            return
        if kind not in {"gauge", "summary"} and data.aggregation_temporality not in {DELTA, CUMULATIVE}:
            sender.rejects["unspecified_temporality"] += len(data.data_points)
            return
        known = cache_metrics.of_name(name) or self._names.knows(name, _unit(metric))
        for given in data.data_points:
            attributes = self._kept(pb_attributes(given.attributes, bounds))
            if not (known or cache_metrics.of_attributes(attributes)):
                sender.dropped += 1
                continue
            try:
                rows = _rows(kind, metric, given, attributes, room=room, names=self._names)
                if rows and not self._settings.record_prompts:
                    rows = rows._replace(exemplars=tuple(map(_without_prompts, rows.exemplars)))
            except Refused as reason:
                sender.rejects[str(reason)] += 1
                continue
            if rows is None:
                sender.dropped += 1
            elif not self._series.has_room(source, rows.samples[0]):
                sender.rejects["too_many_series"] += 1
            else:
                sender.points.append(rows)

    def _kept(self, attributes: Attributes) -> Attributes:
        """Return the labels to be kept. Where a text is not kept, a digest of it tells its series from others."""
        if self._settings.record_prompts:
            return attributes
        kept = without_prompts(attributes)
        lost = digest_of_lost(attributes, kept, secret=self._settings.secret.encode())
        return kept | {NOT_RECORDED: lost} if lost else kept


def _source(resource: Attributes, scope: str, version: str) -> SourceKey:
    """Return who sent it. Without an instance id, the rest of the resource tells two instances apart: their totals must not be mixed."""
    source = source_key(resource, scope, version, kind="otlp_metrics")
    rest = {name: value for name, value in resource.items() if name not in _COMMON and not name.startswith(("telemetry.", "cachescope."))}
    if source.instance or not rest:
        return source
    digest = hashlib.blake2b(orjson.dumps(rest, option=orjson.OPT_SORT_KEYS), digest_size=4).hexdigest()
    return source._replace(instance=f"resource-{digest}")


def _points_in(metric: dict[str, Any]) -> int:
    """Return how many points a JSON metric that cannot be read has, at least 1."""
    lists = [data.get("dataPoints") for data in metric.values() if isinstance(data, dict)]
    return max(1, sum(len(points) for points in lists if isinstance(points, list)))


def _decoded(senders: dict[SourceKey, _Sender]) -> Decoded:
    rejects: Counter[str] = Counter()
    batches = []
    for source, sender in senders.items():
        own = {reason: count for reason, count in sender.rejects.items() if count}
        batches.append(MetricBatch(source, sender.points, own, sender.dropped))
        rejects.update(own)
        rejects[NOT_STORED] += sender.dropped
    return Decoded(batches, 0, {reason: count for reason, count in rejects.items() if count})


def _rows(kind: str, metric: Any, given: Any, attributes: Attributes, *, room: _Room, names: Names) -> PointRows | None:
    """Return a point's rows, None for one without a value. Raises Refused."""
    if given.flags & _NO_VALUE:
        return None
    if not 0 < given.time_unix_nano // 1_000_000 < _INT64_MS:
        raise Refused("time_out_of_range")
    if len(attributes) > _MAX_LABELS:
        raise Refused("too_many_labels")
    buckets, most = _SIZES[kind](given)
    if buckets > _MAX_BUCKETS:
        raise Refused("too_many_buckets")
    labels = _Labels({key[:_MAX_NAME].replace("\0", "\ufffd"): _label(value) for key, value in attributes.items()})
    room.take(most, (most + 1) * (labels.bytes + _MAX_LE_BYTES))
    start_ms = given.start_time_unix_nano // 1_000_000 or None
    start_ms = None if start_ms is None or start_ms >= _INT64_MS else start_ms
    point = _Point(text(metric.name), labels, given.time_unix_nano // 1_000_000, start_ms, _unit(metric), names)
    data = getattr(metric, kind)
    suffix = "_delta" if kind not in {"gauge", "summary"} and data.aggregation_temporality == DELTA else ""
    samples = tuple(_SAMPLES[kind](point, data, given, suffix))
    exemplars = () if kind == "summary" else tuple(_exemplars(point, samples[0].name, given))
    # A point that lasts no time and holds something goes on with a count whose start nobody knows (data model, "unknown start time").
    began = given.start_time_unix_nano < given.time_unix_nano
    return PointRows(samples, exemplars, tuple(point.readings(samples, began=began)))


def _unit(metric: Any) -> str:
    return metric.unit if len(metric.unit) <= _MAX_UNIT else ""


def _number(given: Any) -> float:
    kind = given.WhichOneof("value")
    if kind is None:
        raise Refused("no_value")
    return float(getattr(given, kind))


def _gauge(point: _Point, _data: Any, given: Any, _suffix: str) -> Iterator[SampleRow]:
    yield point.level("gauge", _number(given))


def _sum(point: _Point, data: Any, given: Any, suffix: str) -> Iterator[SampleRow]:
    value = _number(given)
    if not data.is_monotonic:
        # A total that may fall is a level. Increases of one cannot be added up from any point on: they stay increases.
        yield point.level(f"gauge{suffix}", value)
        return
    if value < 0:
        raise Refused("negative_count")
    yield point.sample("" if point.name.endswith("_total") else "_total", f"counter{suffix}", value)


def _histogram(point: _Point, _data: Any, given: Any, suffix: str) -> Iterator[SampleRow]:
    bounds, buckets = given.explicit_bounds, given.bucket_counts
    if buckets or bounds:
        if len(buckets) != len(bounds) + 1 or sum(buckets) != given.count:
            raise Refused("invalid_buckets")
        if any(not low < high for low, high in pairwise(bounds)) or any(map(math.isnan, bounds)):
            raise Refused("invalid_bounds")
    below = 0
    for bound, count in zip(bounds, buckets, strict=False):
        below += count
        if not math.isinf(bound):
            yield point.sample("_bucket", f"histogram{suffix}", float(below), point.labels.plus("le", repr(bound)))
    yield from _whole(point, given, suffix)


def _exponential(point: _Point, _data: Any, given: Any, suffix: str) -> Iterator[SampleRow]:
    counted = given.zero_count + sum(given.positive.bucket_counts) + sum(given.negative.bucket_counts)
    if counted != given.count:
        raise Refused("invalid_buckets")
    try:
        bounds = exponential_bounds(
            given.scale,
            given.zero_threshold,
            given.zero_count,
            (given.positive.offset, given.positive.bucket_counts),
            (given.negative.offset, given.negative.bucket_counts),
        )
    except Unusable:
        raise Refused("invalid_buckets") from None
    for bound, below in bounds:
        yield point.sample("_bucket", f"histogram{suffix}", float(below), point.labels.plus("le", repr(bound)))
    yield from _whole(point, given, suffix)


def _whole(point: _Point, given: Any, suffix: str) -> Iterator[SampleRow]:
    kind = f"histogram{suffix}"
    yield point.sample("_bucket", kind, float(given.count), point.labels.plus("le", "+Inf"))
    if given.HasField("sum"):
        yield point.sample("_sum", kind, given.sum)
    yield point.sample("_count", kind, float(given.count))


def _summary(point: _Point, _data: Any, given: Any, _suffix: str) -> Iterator[SampleRow]:
    for one in given.quantile_values:
        if not math.isnan(one.value):  # nothing was observed in the window
            yield point.sample("", "summary", one.value, point.labels.plus("quantile", repr(one.quantile)))
    yield point.sample("_sum", "summary", given.sum)
    yield point.sample("_count", "summary", float(given.count))


_SAMPLES = {"gauge": _gauge, "sum": _sum, "histogram": _histogram, "exponential_histogram": _exponential, "summary": _summary}


def _of_number(_given: Any) -> tuple[int, int]:
    return 0, 1


def _of_histogram(given: Any) -> tuple[int, int]:
    buckets = max(len(given.explicit_bounds), len(given.bucket_counts))
    return buckets, buckets + 3


def _of_exponential(given: Any) -> tuple[int, int]:
    buckets = len(given.positive.bucket_counts) + len(given.negative.bucket_counts)
    return buckets, 2 * buckets + 5  # a bucket that stands alone has a bound on either side


def _of_summary(given: Any) -> tuple[int, int]:
    quantiles = len(given.quantile_values)
    return quantiles, quantiles + 2


# How many buckets a point has, and how many samples it may become: told before any is made.
_SIZES: dict[str, Callable[[Any], tuple[int, int]]] = {
    "gauge": _of_number,
    "sum": _of_number,
    "histogram": _of_histogram,
    "exponential_histogram": _of_exponential,
    "summary": _of_summary,
}


def _exemplars(point: _Point, name: str, given: Any) -> Iterator[ExemplarRow]:
    for one in given.exemplars[-_MAX_EXEMPLARS:]:
        kind = one.WhichOneof("value")
        value = math.nan if kind is None else float(getattr(one, kind))
        at_ms = one.time_unix_nano // 1_000_000
        if math.isnan(value) or at_ms >= _INT64_MS:
            continue
        left_out = pb_attributes(one.filtered_attributes, Bounds(512, _MAX_LABELS))
        yield ExemplarRow(
            name,
            point.labels.own,
            at_ms or point.at_ms,
            value,
            one.trace_id if len(one.trace_id) == 16 and any(one.trace_id) else None,
            one.span_id if len(one.span_id) == 8 and any(one.span_id) else None,
            labels_text({text(key): _label(held) for key, held in left_out.items()}),
        )


def _without_prompts(row: ExemplarRow) -> ExemplarRow:
    return row._replace(attributes=labels_text(without_prompts(orjson.loads(row.attributes))))


def _label(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return text(value)
    return text(orjson.dumps(value).decode())

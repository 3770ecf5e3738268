"""The collector's own counters, each defined here, on the HTTP port's /metrics."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class CollectorMetrics:
    """One per process; nothing is global."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "cachescope_collector_requests",
            "Requests answered, by protocol, signal and status class",
            ("protocol", "signal", "status"),
            registry=self.registry,
        )
        self.received_bytes = Counter(
            "cachescope_collector_received_bytes",
            "Bytes of bodies after decompression",
            ("protocol",),
            registry=self.registry,
        )
        self.received_spans = Counter("cachescope_collector_received_spans", "Spans decoded, refused ones included", registry=self.registry)
        self.rejected = Counter(
            "cachescope_collector_rejected", "Spans, points and records refused", ("signal", "reason"), registry=self.registry
        )
        self.committed_spans = Counter("cachescope_collector_committed_spans", "New spans committed to the store", registry=self.registry)
        self.duplicate_spans = Counter(
            "cachescope_collector_duplicate_spans", "Spans that were already in the store", registry=self.registry
        )
        self.committed_points = Counter(
            "cachescope_collector_committed_points", "New data points of metrics committed to the store", registry=self.registry
        )
        self.duplicate_points = Counter(
            "cachescope_collector_duplicate_points", "Data points that were already in the store", registry=self.registry
        )
        self.commits = Counter("cachescope_collector_commits", "Transactions, by result", ("result",), registry=self.registry)
        self.commit_seconds = Histogram("cachescope_collector_commit_seconds", "Duration of a group commit", registry=self.registry)
        self.failures = Counter(
            "cachescope_collector_failures", "What went wrong, by place and reason", ("place", "reason"), registry=self.registry
        )
        self.queue_bytes = Gauge("cachescope_collector_queue_bytes", "Bytes accepted and not yet committed", registry=self.registry)
        self.removed_rows = Counter(
            "cachescope_collector_removed_rows", "Rows that retention removed, by kind", ("kind",), registry=self.registry
        )
        self.scrapes = Counter("cachescope_collector_scrapes", "Scrapes, by result", ("result",), registry=self.registry)

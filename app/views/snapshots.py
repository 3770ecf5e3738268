"""What there is of sources beside their counters: what pages held, dead targets, slow commands, keyspaces, and traces behind counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from app.analysis.intervals import wilson
from app.views import words
from app.views.counters import Counters
from storage.reads.counters import Snapshot

Row = dict[str, object]


def _of(view: Counters, topic: str) -> Iterator[tuple[str, Snapshot, Mapping[str, Any]]]:
    for source, shot in view.snapshots:
        if shot.topic == topic:
            yield words.name(source, 60), shot, shot.body


def _first(told: object) -> str:
    return str(told[0]) if isinstance(told, list) and told else ""


def page_rows(view: Counters) -> list[Row]:
    """Return what the newest pages of scrape targets held."""
    return [
        {
            "source": source,
            "read": f"{words.age(view.now_ms - shot.at_ms)} ago",
            "samples": body.get("samples"),
            "with a meaning here": body.get("kept"),
            "exemplars": body.get("exemplars"),
            "native histograms skipped": body.get("native_histograms"),
            "lines not read": body.get("bad_lines"),
            "rules broken": body.get("bad_rules"),
            "first": words.one_line(_first(body.get("breaches")), 160),
        }
        for source, shot, body in _of(view, "page")
    ]


def target_rows(view: Counters) -> list[Row]:
    """Return how many targets each Prometheus server scrapes, and which did not answer it."""
    return [
        {
            "server": source,
            "read": f"{words.age(view.now_ms - shot.at_ms)} ago",
            "targets": body.get("targets"),
            "not answering": body.get("down"),
            "which": words.one_line(", ".join(body.get("first_down", [])), 300),
        }
        for source, shot, body in _of(view, "targets")
    ]


def server_rows(view: Counters) -> list[Row]:
    """Return what each Redis or Valkey server is."""
    return [
        {
            "server": source,
            "read": f"{words.age(view.now_ms - shot.at_ms)} ago",
            "version": words.one_line(str(body.get("valkey_version") or body.get("redis_version") or ""), 40),
            "mode": words.one_line(str(body.get("redis_mode") or body.get("server_mode") or ""), 20),
            "role": words.one_line(str(body.get("role", "")), 20),
            "up": words.age(float(body["uptime_in_seconds"]) * 1000) if "uptime_in_seconds" in body else "",
            "memory": body.get("used_memory"),
            "memory limit": words.size(int(body["maxmemory"])) if body.get("maxmemory") else "none",
            "when it is full": words.one_line(str(body.get("maxmemory_policy", "")), 30),
            "clients": body.get("connected_clients"),
        }
        for source, shot, body in _of(view, "server")
    ]


def slow_rows(view: Counters) -> list[Row]:
    """Return the newest slow commands, the slowest first. Their arguments are never read."""
    return [
        {
            "server": source,
            "at (UTC)": words.instant(entry["at_s"] * 1000),
            "command": words.one_line(str(entry["command"]), 40),
            "took": words.duration_ms(entry["duration_us"] / 1000),
            "arguments": entry["arguments"],
        }
        for source, _, body in _of(view, "slowlog")
        for entry in sorted(body.get("entries", []), key=lambda entry: -entry["duration_us"])
    ]


def keyspace_rows(view: Counters) -> list[Row]:
    """Return what each keyspace is made of, by shape and type, with intervals where it is a sample."""
    rows: list[Row] = []
    for source, _, body in _of(view, "keyspace"):
        looked_at = int(body.get("looked_at", 0))
        for group in body.get("groups", []):
            share = wilson(group["keys"], looked_at)
            lifetimes = sorted(group["lifetimes"].items(), key=lambda item: -item[1])
            rows.append(
                {
                    "server": source,
                    "shape": words.one_line(str(group["shape"]), 80),
                    "type": words.one_line(str(group["type"]), 20),
                    "share": None if share is None else share.ratio * 100,
                    "95 %": "every key was looked at" if body.get("whole") else words.interval(share),
                    "looked at": group["keys"],
                    "of": looked_at,
                    "keys in all": body.get("keys"),
                    "mean bytes": round(group["size_bytes"] / group["sized"]) if group["sized"] else None,
                    "expire in": ", ".join(f"{name}: {100 * keys / group['keys']:.0f} %" for name, keys in lifetimes),
                }
            )
    return rows


def exemplar_rows(view: Counters) -> list[Row]:
    """Return the newest measurements that senders gave as examples, with the traces in which they were taken."""
    return [
        {
            "time (UTC)": words.instant(one.at_ms),
            "trace": f"/traces?{urlencode({'trace': one.trace_id.hex()})}" if one.stored else None,
            "source": words.name(source, 60),
            "metric": words.one_line(one.name, 80),
            "value": round(one.value, 6),
            "labels": words.one_line(", ".join(f"{name}={value}" for name, value in sorted(one.labels.items())), 160),
            "trace id": one.trace_id.hex(),
        }
        for source, one in view.exemplars
    ]

"""The state of sources that is no counter, as rows: from what is stored to what is read."""

from __future__ import annotations

import json

from app.views import counters as view
from app.views import snapshots
from app.views.counters import Counters
from collectors.keyspace import Sample
from collectors.prometheus.families import load
from storage import counters
from storage.reads.window import Window
from storage.rows import Scrape, SourceKey
from storage.store import Store

AT = 1_795_953_600_000
TABLE = load()


def shown(store: Store, **topics: object) -> Counters:
    scrape = Scrape(AT, snapshots={topic: json.dumps(body) for topic, body in topics.items()})
    counters.write_scrape(store, SourceKey("redis", "redis://cache:6379"), scrape, now_ms=AT, max_series=10)
    return view.load(lambda: store, lambda: TABLE, window=Window.of(AT, AT + 60_000), now_ms=AT + 5_000)


def test_a_keyspace_has_intervals_where_it_is_a_sample_and_none_where_it_is_whole(store: Store) -> None:
    sample = Sample()
    for number in range(10):
        sample.add(f"shop:entry:{number}".encode(), "hash", ttl_ms=-1 if number < 5 else 9_000, size_bytes=100)
    (row,) = snapshots.keyspace_rows(shown(store, keyspace=sample.told(keys=1_000)))
    assert (row["shape"], row["type"], row["share"], row["looked at"], row["keys in all"]) == (
        "shop:entry:<number>",
        "hash",
        100,
        10,
        1_000,
    )
    assert row["95 %"] == "72.2–100.0 %"
    assert row["mean bytes"] == 100
    assert row["expire in"] == "none: 50 %, < 1 min: 50 %"
    sample.whole()
    (row,) = snapshots.keyspace_rows(shown(store, keyspace=sample.told(keys=10)))
    assert row["95 %"] == "every key was looked at"


def test_slow_commands_come_slowest_first(store: Store) -> None:
    entries = [
        {"id": n, "at_s": AT // 1000, "duration_us": took, "command": "KEYS", "arguments": 1} for n, took in enumerate([20_000, 1_500_000])
    ]
    rows = snapshots.slow_rows(shown(store, slowlog={"length": 2, "entries": entries}))
    assert [row["took"] for row in rows] == ["1.50 s", "20 ms"]
    assert rows[0]["at (UTC)"] == "2026-11-29 12:00:00"


def test_servers_targets_and_pages(store: Store) -> None:
    page = {"samples": 9, "kept": 2, "exemplars": 1, "native_histograms": 3, "bad_lines": 0, "bad_rules": 1, "breaches": ["line 5: x"]}
    found = shown(
        store,
        server={"redis_version": "7.0.15", "redis_mode": "standalone", "role": "master", "uptime_in_seconds": 65, "maxmemory": 0},
        targets={"targets": 3, "down": 1, "first_down": ["vllm <b>a</b>:1"]},
        page=page,
    )
    (server,) = snapshots.server_rows(found)
    assert (server["version"], server["up"], server["memory limit"], server["read"]) == ("7.0.15", "1 min 5 s", "none", "5 s ago")
    (targets,) = snapshots.target_rows(found)
    assert (targets["targets"], targets["not answering"], targets["which"]) == (3, 1, "vllm <b>a</b>:1")
    (row,) = snapshots.page_rows(found)
    assert (row["native histograms skipped"], row["rules broken"], row["first"]) == (3, 1, "line 5: x")

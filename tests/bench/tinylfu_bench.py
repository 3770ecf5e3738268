"""Why our W-TinyLFU and libCacheSim's differ: `python -m tests.bench.tinylfu_bench [blocks]`, on Mooncake's trace or, without it, Zipf's.

Two plain replays, which share no code with ours, count exactly. `streams.tinylfu` follows the paper and Caffeine's simulator: every
request is counted, what leaves the window meets the probation part's oldest, counts are halved every ten times the capacity. `library`
follows libCacheSim's rules, each of which can be put right on its own:
- fill: until the cache is full everything stays in the window; then the oldest fill the probation part and the rest the protected
  one, though nothing asked for it twice. (Paper: what leaves the window of 1 % goes to the probation part from the start.)
- window: a hit in the window is not counted. (Paper: every request is.)
- leaving: what leaves the window is counted once more.
- aging: counts are halved after 32 times the capacity, of hits in the main part alone. (Paper: ten times, of all requests.)
Prints each replay's miss ratio by capacity, and libCacheSim's own.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

from app.analysis.policies import Stream, replay, stream
from tests.app.analysis import oracle
from tests.app.analysis.streams import Part, promote, tinylfu, zipf
from tests.conftest import SHARED

MOONCAKE = SHARED / "data" / "public" / "traces" / "mooncake_conversation_trace.jsonl"
RULES = ("fill", "window", "leaving", "aging")


def library(ids: list[int], capacity: int, right: frozenset[str] = frozenset()) -> int:
    """Return the misses by libCacheSim's rules, those of `right` put right."""
    counts: Counter[int] = Counter()
    window, probation, protected = Part(), Part(), Part()
    window_most = max(1, int(capacity * 0.01))
    main = capacity - window_most
    most = (int(main / 5), int(main * 4 / 5))
    seen = misses = 0

    def evict() -> None:
        while window:
            y = next(iter(window))
            del window[y]
            room = len(probation) + len(protected) < main
            if room:
                part = probation if len(probation) < most[0] or "fill" in right else protected
                part[y] = None
            elif counts[y] > counts[next(iter(probation or protected))]:
                (probation or protected).popitem(last=False)
                probation[y] = None
            if "leaving" not in right:
                counts[y] += 1
            if not room or "fill" in right:
                return

    for x in ids:
        in_main = x in probation or x in protected
        held = in_main or x in window
        if (not held) or in_main or "window" in right:
            counts[x] = min(15, counts[x] + 1) if "aging" in right else counts[x] + 1
        seen += 1 if "aging" in right or in_main else 0
        if seen >= (10 * capacity if "aging" in right else 32 * main):
            seen = seen // 2 if "aging" in right else 0
            counts = Counter({key: n // 2 for key, n in counts.items() if n > 1})
        if x in window:
            window.move_to_end(x)
        elif x in protected:
            protected.move_to_end(x)
        elif x in probation:
            promote(x, probation, protected, most[1])
        else:
            misses += 1
            full = len(window) >= window_most if "fill" in right else len(window) + len(probation) + len(protected) >= capacity
            if full:
                evict()
            window[x] = None
    return misses


def given(blocks: int) -> Stream:
    if not MOONCAKE.exists():
        return zipf(10_000, blocks)
    return stream([block for line in MOONCAKE.open(encoding="utf-8") for block in json.loads(line)["hash_ids"]][:blocks])


def main(blocks: int) -> None:
    requests = given(blocks)
    ids = requests.ids.tolist()
    sizes = (1_000, 3_000, 10_000, 30_000)
    with tempfile.TemporaryDirectory() as folder:
        theirs = oracle.misses([(requests, size, ("wtinylfu",)) for size in sizes], Path(folder))
    rows = {
        "ours": [requests.n - int(replay("wtinylfu", requests, size).sum()) for size in sizes],
        "the paper's rules": [tinylfu(ids, size) for size in sizes],
        "libCacheSim": [found["wtinylfu"] for found in theirs],
        "libCacheSim's rules": [library(ids, size) for size in sizes],
        **{f"… {rule} put right": [library(ids, size, frozenset({rule})) for size in sizes] for rule in RULES},
        "… all put right": [library(ids, size, frozenset(RULES)) for size in sizes],
    }
    print(f"{'misses of ' + f'{requests.n:,}' + ' requests, %':34}" + "".join(f"{size:>10,}" for size in sizes))
    for name, row in rows.items():
        print(f"{name:34}" + "".join(f"{missed / requests.n * 100:10.2f}" for missed in row))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)

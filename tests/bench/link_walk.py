"""Links that no page wrote, and every page opened by them: `python -m tests.bench.link_walk [page …]`.

The telemetry behind them is sound; the addresses are not. What is looked for is that of `page_walk`. Exit code 1 when anything is found.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from pathlib import Path

from tests.app import support
from tests.bench.page_walk import PAGES, Place, analyse, fill, look

NAMES = (
    "",
    " ",
    "\0",
    "\0" * 300,
    "%00",
    "x" * 10_000,
    "\u202eevil",
    "👩‍👩‍👧‍👦",
    "\ufffd",
    "<script>alert(1)</script>",
    "(not recorded)",
    "None",
    "=1+1",
    "a\nb",
    "'; DROP TABLE lookups; --",
    "*",
    "\\",
    "[x](javascript:1)",
    "\ufffe\uffff",
    "\U0010ffff",
)
TIMES = (
    "",
    "0001-01-01T00:00",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59",
    "9999-12-31T23:59:59.999999-14:00",
    "1970-01-01T00:00",
    "1969-12-31T23:59",
    "2100-01-01T00:00",
    "2262-04-12T00:00",
    "2263-01-01T00:00",
    "2026-13-45",
    "junk",
    "nan",
    "1e99",
    "-1",
    "9" * 400,
    "2026-11-30",
    "20261130T10",
    "2026-W01-1",
    "\0",
    "٢٠٢٦-01-01T00:00",
)
NUMBERS = ("", "nan", "inf", "-inf", "-1", "1e308", "1e999", "0x10", "9" * 30, "9" * 5_000, "1_000", "٣", "null", "true", "0", "1.5", "\0")


def addresses(page: str) -> list[dict[str, str]]:
    """Return the queries to try on a page."""
    found: list[dict[str, str]] = [{name: value} for name in ("namespace", "tenant", "model", "source", "tier") for value in NAMES]
    found += [{"namespace": value, "range": value, "compare": value, "live": value, "drag": value, "horizon": value} for value in NAMES]
    found += [{"since": one} for one in TIMES]
    found += [{"range": "custom", "from": one, "to": other} for one, other in zip(TIMES, reversed(TIMES), strict=True)]
    found += [{"range": "custom", "from": one, "to": one, "compare": "vs week before"} for one in TIMES]
    found += [{"range": "custom", "from": one} for one in TIMES] + [{"range": "custom", "to": one} for one in TIMES]
    found += [{"range": "15m", "compare": "vs chosen time", "compare_from": one} for one in TIMES]
    found += [{"range": "custom", "from": "0001-01-01T00:00", "to": "9999-12-31T23:59", "since": one} for one in TIMES[:6]]
    found += [{"unknown": "1", "tab": "none", "range": "custom"}]
    if page == "traces":
        found += [{"trace": one} for one in (*NAMES, "zz" * 16, "00" * 16, "f" * 32, "F" * 32, "a" * 31, "٣" * 32)]
        found += [{"q": one} for one in NAMES] + [{"outcome": one, "reason": one} for one in NAMES]
        found += [{"min_ms": one, "similarity_from": one, "similarity_to": one} for one in NUMBERS]
    if page == "audit":
        found += [{"before": one} for one in NUMBERS] + [{"act": one, "kind": one} for one in NAMES]
    if page in {"warmup", "regret"}:
        found += [{"hours": one, "limit": one, "horizon": one, "space": one, "lifetime": one} for one in NUMBERS]
    if page in {"audit", "purge", "warmup", "sources", "regret"}:  # without a bar, or with little of one
        found = [one for one in found if not {"tenant", "model", "source", "tier", "since", "compare_from"} & one.keys()]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", default=list(PAGES))
    parser.add_argument("--every", type=int, default=1, help="try one address in so many")
    asked = parser.parse_args()
    logging.disable(logging.WARNING)
    faults = 0
    with tempfile.TemporaryDirectory(prefix="cachescope-links-") as scratch:
        place = Place(Path(scratch), support.environ(Path(scratch)))
        with place.console() as config:
            fill(config, "two namespaces")
            analyse()
            for page in asked.pages:
                begun, tried = time.perf_counter(), addresses(page)[:: asked.every]
                for query in tried:
                    for line in look(page, known=False, allowed=("None", "nan", "inf", "null"), **query):
                        if line.startswith("a 0 %"):
                            continue
                        faults += 1
                        shown = {name: value[:40] for name, value in query.items()}
                        print(f"!! {page} {shown!r} | {line}", flush=True)
                print(f"{page}: {len(tried)} addresses, {time.perf_counter() - begun:.0f} s", flush=True)
    return min(1, faults)


if __name__ == "__main__":
    sys.exit(main())

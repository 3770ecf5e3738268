"""Any OpenAI-compatible `/v1/embeddings`: float or base64 answers, batches, the dimension checked on every vector."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

import httpx
import numpy as np
import orjson
from numpy.typing import NDArray

from engine import loopback
from engine.embedders.batching import Batches, TextRefused
from engine.embedders.memo import VectorMemo
from engine.errors import EmbedderMismatch, EmbedderUnavailable

MAX_BATCH = 64  # texts in one request; every known server takes at least this many
_OF_A_TEXT = (400, 413, 422)
_MOST_ASKING = 4  # requests at a time: what comes meanwhile goes together

# Unknown models: high enough that only near-identical texts pass. A namespace's own threshold replaces it.
DEFAULT_THRESHOLD = 0.95
CANDIDATE_FLOOR = 0.75


def embeddings_url(base: str) -> str:
    """Return the URL to post to; `base` may end in /v1, or not."""
    base = base.rstrip("/")
    if base.endswith("/embeddings"):
        return base
    return f"{base}/embeddings" if base.endswith("/v1") else f"{base}/v1/embeddings"


def request_body(model: str, texts: Sequence[str], *, encoding: str) -> bytes:
    clean = [text.encode("utf-8", "replace").decode() for text in texts]
    return orjson.dumps({"model": model, "input": clean, "encoding_format": encoding})


def decode(answer: Any, *, count: int, dimension: int) -> NDArray[np.float32]:
    """Return the L2-normalised vectors of an embeddings answer in the order asked, shape (count, dimension), float32.

    dimension: 0 = take the answer's own. Raises EmbedderMismatch on another count, dimension, a zero or non-finite vector.
    """
    data = answer.get("data") if isinstance(answer, Mapping) else None
    if not isinstance(data, list) or len(data) != count or not all(isinstance(item, Mapping) for item in data):
        found = len(data) if isinstance(data, list) else "no list"
        raise EmbedderMismatch(f"the embedder's answer has {found} embeddings; {count} were asked for")
    order = [item.get("index", place) for place, item in enumerate(data)]
    if sorted(order, key=str) != sorted(range(count), key=str):
        raise EmbedderMismatch(f"the embedder's answer does not index its {count} embeddings 0 to {count - 1}")
    out = np.empty((count, dimension or _vector(data[0].get("embedding")).shape[0]), dtype=np.float32)
    for place, item in zip(order, data, strict=True):
        vector = _vector(item.get("embedding"))
        if vector.shape[0] != out.shape[1]:
            raise EmbedderMismatch(f"the embedder answered {vector.shape[0]} dimensions; {out.shape[1]} were expected")
        norm = float(np.linalg.norm(vector))
        if not np.isfinite(norm) or norm == 0.0:
            raise EmbedderMismatch("the embedder answered a vector of length zero or with a value that is not finite")
        out[place] = vector / norm
    return out


def _vector(value: Any) -> NDArray[np.float64]:
    try:
        if isinstance(value, str):
            return np.frombuffer(base64.b64decode(value, validate=True), dtype="<f4").astype(np.float64)
        if isinstance(value, list) and value:
            vector = np.asarray(value, dtype=np.float64)
            if vector.ndim == 1:
                return vector
    except (ValueError, TypeError, binascii.Error) as error:
        raise EmbedderMismatch("the embedder answered an embedding that is neither numbers nor base64 of float32") from error
    raise EmbedderMismatch("the embedder answered an embedding that is neither numbers nor base64 of float32")


def probe(url: str, model: str, *, api_key: str = "", timeout_s: float = 5.0) -> int:
    """Return the dimension that the server answers for one word. Blocks. Raises EmbedderUnavailable, EmbedderMismatch."""
    headers = _headers(api_key)
    try:
        with httpx.Client(timeout=timeout_s, mounts=loopback.direct()) as client:
            response = client.post(embeddings_url(url), content=request_body(model, ["dimension"], encoding="float"), headers=headers)
    except httpx.HTTPError as error:
        raise EmbedderUnavailable(f"the embedder at {_host(url)} did not answer: {type(error).__name__}") from error
    return int(decode(_json(response, url), count=1, dimension=0).shape[1])


def _headers(api_key: str) -> dict[str, str]:
    headers = {"Content-Type": "application/json"}
    if api_key:
        headers["Authorization"] = f"Bearer {api_key}"
    return headers


def _host(url: str) -> str:
    parsed = httpx.URL(url)
    return f"{parsed.host}:{parsed.port}" if parsed.port else parsed.host


def _json(response: httpx.Response, url: str) -> Any:
    if response.status_code != 200:
        kind = TextRefused if response.status_code in _OF_A_TEXT else EmbedderUnavailable
        raise kind(f"the embedder at {_host(url)} answered status {response.status_code}; 200 was expected")
    try:
        return orjson.loads(response.content)
    except orjson.JSONDecodeError as error:
        raise EmbedderUnavailable(f"the embedder at {_host(url)} answered something that is not JSON") from error


class HttpEmbedder:
    """An OpenAI-compatible embeddings server. Asks for base64 and falls back to floats where the server refuses it."""

    def __init__(
        self,
        *,
        url: str,
        model: str,
        dimension: int,
        api_key: str = "",
        timeout_s: float = 2.0,
        memo_bytes: int = 32 * 1024 * 1024,
    ) -> None:
        self.id = f"{model}@{_host(url)}/{dimension}"
        self.dimension = dimension
        self.default_threshold = DEFAULT_THRESHOLD
        self.candidate_floor = CANDIDATE_FLOOR
        self.memo = VectorMemo(memo_bytes)
        self._url = url
        self._model = model
        self._timeout_s = timeout_s
        self._client = httpx.AsyncClient(timeout=timeout_s, headers=_headers(api_key), mounts=loopback.direct())
        self._batches = Batches(self._ask, self.memo, most_texts=MAX_BATCH, most_asking=_MOST_ASKING, most_waiting=_MOST_ASKING * MAX_BATCH)
        self._encoding = "base64"

    async def warm(self) -> None:
        """Ask once, so that a wrong setting shows at the start. Raises EmbedderUnavailable, EmbedderMismatch."""
        await self.embed(["warm"])

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return L2-normalised vectors, shape (len(texts), dimension), float32. Raises EmbedderUnavailable, EmbedderMismatch."""
        out = np.empty((len(texts), self.dimension), dtype=np.float32)
        await self._batches.embed(texts, out)
        return out

    async def _ask(self, texts: list[str]) -> NDArray[np.float32]:
        response = await self._post(texts)
        return decode(_json(response, self._url), count=len(texts), dimension=self.dimension)

    async def _post(self, texts: list[str]) -> httpx.Response:
        url = embeddings_url(self._url)
        try:
            response = await self._client.post(url, content=request_body(self._model, texts, encoding=self._encoding))
            if response.status_code in {400, 422} and self._encoding == "base64":
                # Some servers know floats only, and say so with one of these; what they answer now decides for good.
                response = await self._client.post(url, content=request_body(self._model, texts, encoding="float"))
                if response.status_code == 200:
                    self._encoding = "float"
        except httpx.TimeoutException as error:
            raise EmbedderUnavailable(f"the embedder at {_host(self._url)} did not answer within {self._timeout_s} s") from error
        except httpx.HTTPError as error:
            raise EmbedderUnavailable(f"the embedder at {_host(self._url)} did not answer: {type(error).__name__}") from error
        return response

    async def close(self) -> None:
        await self._batches.close()
        await self._client.aclose()

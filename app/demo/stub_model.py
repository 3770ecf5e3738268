"""A stand-in for a model: an OpenAI-shaped server with a realistic latency, for the demo and the tests of it. It invents nothing.

Its answers quote a digest of the question, so that the same question always gets the same answer and another question another.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import AsyncIterator
from typing import Any

import orjson
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

MODELS = ("demo-small", "demo-large")
_FIRST_TOKEN_S = {"demo-small": 0.18, "demo-large": 0.45}
_TOKEN_S = {"demo-small": 0.004, "demo-large": 0.010}
_EPOCH = 1_767_225_600  # a fixed `created`: answers are the same in every run


def create_app(*, speed: float = 1.0) -> Starlette:
    """Return the stub. speed: how many times faster than life, > 0."""

    async def chat(request: Request) -> Response:
        try:
            body = orjson.loads(await request.body())
            model, question = str(body["model"]), _question(body["messages"])
        except (orjson.JSONDecodeError, KeyError, TypeError, IndexError):
            return _error(400, "the body is not a chat request")
        if model not in MODELS:
            return _error(404, f"the model {model[:64]!r} does not exist; this stub has {', '.join(MODELS)}")
        words = _answer(model, question)
        usage = {"prompt_tokens": _tokens(str(body["messages"])), "completion_tokens": len(words)}
        usage["total_tokens"] = usage["prompt_tokens"] + usage["completion_tokens"]
        first_s, token_s = _FIRST_TOKEN_S[model] * _spread(question) / speed, _TOKEN_S[model] / speed
        answer_id = "chatcmpl-" + hashlib.sha256(f"{model}\0{question}".encode(errors="replace")).hexdigest()[:24]
        if body.get("stream"):
            with_usage = bool((body.get("stream_options") or {}).get("include_usage"))
            chunks = _chunks(answer_id, model, words, usage if with_usage else None, first_s=first_s, token_s=token_s)
            return StreamingResponse(chunks, media_type="text/event-stream")
        await asyncio.sleep(first_s + token_s * len(words))
        message = {"role": "assistant", "content": "".join(words)}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
        head = {"id": answer_id, "object": "chat.completion", "created": _EPOCH, "model": model}
        return JSONResponse({**head, "choices": [choice], "usage": usage})

    async def models(_: Request) -> Response:
        data = [{"id": name, "object": "model", "created": _EPOCH, "owned_by": "cachescope-demo"} for name in MODELS]
        return JSONResponse({"object": "list", "data": data})

    async def health(_: Request) -> Response:
        return Response("ok", media_type="text/plain")

    return Starlette(
        routes=[
            Route("/v1/chat/completions", chat, methods=["POST"]),
            Route("/v1/models", models),
            Route("/healthz", health),
        ]
    )


async def _chunks(
    answer_id: str, model: str, words: list[str], usage: dict[str, int] | None, *, first_s: float, token_s: float
) -> AsyncIterator[bytes]:
    head = {"id": answer_id, "object": "chat.completion.chunk", "created": _EPOCH, "model": model}

    def event(delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return b"data: " + orjson.dumps({**head, "choices": [choice]}) + b"\n\n"

    await asyncio.sleep(first_s)
    yield event({"role": "assistant", "content": ""})
    for word in words:
        yield event({"content": word})
        await asyncio.sleep(token_s)
    yield event({}, "stop")
    if usage is not None:
        yield b"data: " + orjson.dumps({**head, "choices": [], "usage": usage}) + b"\n\n"
    yield b"data: [DONE]\n\n"


def _question(messages: list[dict[str, Any]]) -> str:
    content = messages[-1]["content"]
    if isinstance(content, list):
        return " ".join(str(part.get("text", "")) for part in content)
    return str(content)


def _answer(model: str, question: str) -> list[str]:
    """Return the answer's tokens: one sentence for the small model, three for the large one."""
    digest = hashlib.sha256(question.encode(errors="replace")).hexdigest()
    chinese = any("一" <= letter <= "鿿" for letter in question)
    sentences = (
        [f"这是演示模型对问题 {digest[:8]} 的回答。", "请按照页面上的步骤操作。", "如果还有疑问，请联系支持团队。"]
        if chinese
        else [
            f"This is the demo model's answer to question {digest[:8]}.",
            " Follow the steps that the page shows, from the top to the bottom.",
            " If something stays unclear, the support team will help you further.",
        ]
    )
    text = "".join(sentences[: 1 if model == "demo-small" else 3])
    return list(text) if chinese else [word if i == 0 else f" {word}" for i, word in enumerate(text.split(" "))]


def _spread(question: str) -> float:
    """Return a factor around 1 with a long tail (log-normal, sigma 0.35), fixed by the question."""
    digest = hashlib.sha256(b"latency" + question.encode(errors="replace")).digest()
    u, v = (int.from_bytes(digest[i : i + 6], "big") / 2**48 for i in (0, 6))
    normal = math.sqrt(-2 * math.log(max(u, 1e-12))) * math.cos(2 * math.pi * v)
    return math.exp(0.35 * min(normal, 3.0))


def _tokens(text: str) -> int:
    """Return a rough count: four letters of an alphabet, or one of Chinese, a token."""
    wide = sum("一" <= letter <= "鿿" for letter in text)
    return max(1, wide + (len(text) - wide) // 4)


def _error(status: int, message: str) -> Response:
    return JSONResponse({"error": {"message": message, "type": "invalid_request_error", "code": None}}, status_code=status)

# ruff: noqa: T201 - an example prints
"""Ask the gateway through the `openai` client: twice the same, then a stream, then with a namespace, and see what the cache said.

    pip install openai
    python examples/openai_client.py "How do I reset my password?"

Environment: OPENAI_BASE_URL (default http://127.0.0.1:8080/v1), OPENAI_API_KEY (a tenant key, or the upstream's own key),
MODEL (default demo-small, a model of the demo).
"""

from __future__ import annotations

import os
import sys
import time

from openai import APIStatusError, OpenAI

client = OpenAI(
    base_url=os.environ.get("OPENAI_BASE_URL", "http://127.0.0.1:8080/v1"),
    api_key=os.environ.get("OPENAI_API_KEY", "unset"),
    default_headers={"Cachescope-Namespace": "examples"},
)
model = os.environ.get("MODEL", "demo-small")


def ask(question: str) -> None:
    """Ask, and print what the cache did with it."""
    began = time.perf_counter()
    raw = client.chat.completions.with_raw_response.create(model=model, messages=[{"role": "user", "content": question}])
    took_ms = (time.perf_counter() - began) * 1000
    answer = raw.parse().choices[0].message.content or ""
    print(f"{raw.headers.get('cache-status')}  ({took_ms:.0f} ms)\n  {answer[:100]}")


def stream(question: str) -> None:
    """Ask for a stream; the headers come before the first piece."""
    messages = [{"role": "user", "content": question}]
    with client.chat.completions.with_streaming_response.create(model=model, messages=messages, stream=True) as raw:
        print(f"{raw.headers.get('cache-status')}  (streamed)")
        pieces = [chunk.choices[0].delta.content or "" for chunk in raw.parse() if chunk.choices]
    print(f"  {''.join(pieces)[:100]}")


question = sys.argv[1] if len(sys.argv) > 1 else "How do I reset my password?"
try:
    ask(question)
    ask(question)
    stream(question)
except APIStatusError as error:
    sys.exit(f"{error.status_code}: {error.message}")

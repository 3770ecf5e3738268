"""What a request's headers are to the cache: without effect on the answer, a credential, or a part of the key.

All but those of the connection go upstream, where a header may choose the provider, the model or the account. So what is not known
to have no effect is in the key: a lost hit is only money.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from engine.gateway.errors import RawHeaders
from engine.lookup import ADAPTER, RETRIEVAL_VERSION

NO_HEADERS: frozenset[bytes] = frozenset()
NAMED = (ADAPTER, RETRIEVAL_VERSION)  # our own vocabulary: for the key alone, none of it goes upstream

# What a client may say who it is with, beside its bearer: it parts tenants, and it never travels with a key of ours.
_CREDENTIALS = frozenset({b"api-key", b"x-api-key", b"cookie", b"openai-organization", b"openai-project"})
_LIKE_A_CREDENTIAL = re.compile(rb"api-?key|authorization|cookie|credential|password|secret|token")
# The first is the bearer, which has its own rules; the second ends at the first proxy.
_NO_OTHERS = frozenset({b"authorization", b"proxy-authorization"})

_WITHOUT_EFFECT = frozenset(
    {
        *(
            b"b3",
            b"baggage",
            b"sentry-trace",
            b"traceparent",
            b"tracestate",
            b"uber-trace-id",
            b"x-amzn-trace-id",
            b"x-cloud-trace-context",
        ),
        *(b"correlation-id", b"idempotency-key", b"request-id", b"x-client-request-id", b"x-correlation-id", b"x-request-id"),
        *(b"cdn-loop", b"forwarded", b"true-client-ip", b"via", b"x-client-ip", b"x-real-ip", b"x-request-start"),
        *(b"cf-connecting-ip", b"cf-ew-via", b"cf-ipcountry", b"cf-ray", b"cf-visitor", b"cf-worker"),
        # Not all of them: `x-forwarded-user` and its like say who asks.
        *(b"x-forwarded-by", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-port", b"x-forwarded-prefix", b"x-forwarded-proto"),
        *(b"x-forwarded-scheme", b"x-forwarded-server", b"x-forwarded-ssl"),
        *(b"elastic-apm-traceparent", b"grpc-trace-bin", b"langsmith-trace", b"newrelic", b"x-span-id", b"x-trace-id", b"x-vercel-id"),
        *(b"cache-control", b"date", b"dnt", b"origin", b"pragma", b"priority", b"referer", b"user-agent", b"x-requested-with"),
        # These do not go upstream.
        *(b"authorization", b"connection", b"expect", b"host", b"keep-alive", b"proxy-authenticate", b"proxy-authorization"),
        *(b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade", b"upgrade-insecure-requests"),
    }
)
_WITHOUT_EFFECT_BEGIN = (
    *(b"accept", b"cachescope-", b"content-", b"sec-"),
    *(b"x-b3-", b"x-datadog-", b"x-envoy-", b"x-instana-", b"x-stainless-"),
)


class _Plan(NamedTuple):
    credentials: frozenset[bytes]
    keyed: frozenset[bytes]


class Read(NamedTuple):
    """credentials: as they came. keyed: what is in the key, by name; the values of one name in their order."""

    credentials: RawHeaders
    keyed: tuple[tuple[bytes, bytes], ...]


_NOTHING = Read([], ())


@lru_cache(maxsize=1_024)
def is_credential(name: bytes) -> bool:
    """Return whether a header of this lower-case name says who the client is."""
    return name in _CREDENTIALS or (name not in _NO_OTHERS and _LIKE_A_CREDENTIAL.search(name) is not None)


# Clients come with a few sets of headers, each in its own order.
@lru_cache(maxsize=1_024)
def _plan(names: tuple[bytes, ...], ignored: frozenset[bytes]) -> _Plan | None:
    """Return which of these headers matter, None = none does."""
    credentials = frozenset(filter(is_credential, names))
    keyed = frozenset(
        name
        for name in names
        if not (name in credentials or name in ignored or name in _WITHOUT_EFFECT or name.startswith(_WITHOUT_EFFECT_BEGIN))
    )
    return _Plan(credentials, keyed) if credentials or keyed else None


def read(raw: RawHeaders, by_name: Mapping[bytes, bytes], *, ignored: frozenset[bytes] = NO_HEADERS) -> Read:
    """Return what of a request's headers matters. raw: with lower-case names; by_name: the same. ignored: not for the key."""
    plan = _plan(tuple(by_name), ignored)
    if plan is None:
        return _NOTHING
    credentials = [pair for pair in raw if pair[0] in plan.credentials]
    # Sorted by name alone: of several lines with one name the first may be the one that counts.
    keyed = sorted((pair for pair in raw if pair[0] in plan.keyed), key=lambda pair: pair[0])
    return Read(credentials, tuple((name, value) for name, value in keyed))


def withheld(headers: Iterable[tuple[bytes, bytes]]) -> frozenset[bytes]:
    """Return the names of the credentials among these headers."""
    return frozenset(name for name, _ in headers if is_credential(name))

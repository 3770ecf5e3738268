"""CollectorError
├── permanent
│   ├── Undecodable         the bytes are not what their content type says (400, INVALID_ARGUMENT)
│   ├── UnsupportedMedia    a content type or encoding that is not spoken here (415)
│   ├── TooLarge            larger than the limit, before or after decompression (413, RESOURCE_EXHAUSTED)
│   ├── Unauthenticated     no token, or a wrong one (401, UNAUTHENTICATED)
│   ├── DecodeFailed        our decoder failed on them (500, INTERNAL)
│   ├── WriteFailed         this request's rows cannot be written, and never will be (500, INTERNAL)
│   ├── UnsafeBind          an address open to others, without a token
│   ├── BindFailed          the address is taken, or not ours
│   ├── BadFamilies         the file that says what counters mean cannot be used
│   ├── TlsUnusable         the certificate or its key cannot be used
│   └── ScrapeFailed        the target did not give a page of metrics
└── retryable
    ├── Overloaded          the queue is full (503, UNAVAILABLE with RetryInfo)
    ├── SlowSender          the body did not come in time (408, ABORTED)
    └── StoreUnavailable    the store did not commit (503, UNAVAILABLE with RetryInfo)
"""

from __future__ import annotations


class CollectorError(Exception):
    """Base of all the collectors' errors. Messages never hold prompts, tokens or passwords."""

    retryable = False


class Undecodable(CollectorError):
    """The bytes are not what their content type says."""


class DecodeFailed(CollectorError):
    """Our own decoder failed; sending the same again would not help."""


class UnsupportedMedia(CollectorError):
    """A content type or a content encoding that is not spoken here."""


class TooLarge(CollectorError):
    """Larger than the limit, before or after decompression."""


class Unauthenticated(CollectorError):
    """No token, or a wrong one."""


class WriteFailed(CollectorError):
    """The rows of this request cannot be written; sending them again would not help."""


class UnsafeBind(CollectorError):
    """An address that others can reach, without a token to keep them out."""


class BindFailed(CollectorError):
    """The address is taken, or is not one of this machine's."""


class BadFamilies(CollectorError):
    """The file that says what counters mean cannot be read, or is not what it should be."""


class TlsUnusable(CollectorError):
    """The receivers' certificate or its key cannot be read, or do not belong together."""


class ScrapeFailed(CollectorError):
    """The target did not give a page of metrics."""


class Overloaded(CollectorError):
    """More is waiting to be committed than the queue may hold."""

    retryable = True


class SlowSender(CollectorError):
    """The body did not come in time."""

    retryable = True


class StoreUnavailable(CollectorError):
    """The store did not commit. Nothing was acknowledged, so sending again loses nothing."""

    retryable = True

"""EngineError
├── permanent
│   ├── InvalidRequest      the client's request cannot be understood (400)
│   ├── InvalidSetting      a setting's value cannot work
│   ├── StoreCorrupt        the store's file is not what it should be
│   ├── EmbedderMismatch    a vector of another space or dimension
│   └── Conflict            the record changed since it was read (409)
└── retryable
    ├── TierUnavailable     a tier did not answer; the request goes on without it
    ├── EmbedderUnavailable the embedder did not answer
    ├── JudgeUnavailable    the judge did not answer
    └── UpstreamUnavailable the upstream did not answer (502, 504)
"""

from __future__ import annotations


class EngineError(Exception):
    """Base of all the engine's errors. Messages never hold prompts, keys or passwords."""

    retryable = False


class InvalidRequest(EngineError):
    """status: the HTTP status to answer, 400 unless told otherwise."""

    def __init__(self, message: str, *, status: int = 400, code: str = "invalid_request") -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class InvalidSetting(EngineError):
    """A setting whose value cannot work; the message names the setting and what is expected."""


class StoreCorrupt(EngineError):
    """The store's file cannot be read as a Cachescope cache."""


class EmbedderMismatch(EngineError):
    """A vector whose dimension or space is not the expected one."""


class Conflict(EngineError):
    """The record changed since it was read."""


class TierUnavailable(EngineError):
    """A tier did not answer in time."""

    retryable = True


class EmbedderUnavailable(EngineError):
    """The embedder did not answer."""

    retryable = True


class JudgeUnavailable(EngineError):
    """The judge did not answer, or with no chat completion."""

    retryable = True


class UpstreamUnavailable(EngineError):
    """The upstream did not answer, or not as it may. status: 502 or 504. code: '' = the one that belongs to the status."""

    retryable = True

    def __init__(self, message: str, *, status: int = 502, code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code

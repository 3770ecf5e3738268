"""AppError
├── permanent
│   ├── ConfigError        a setting that cannot work (exit 3)
│   ├── CannotStart        a port taken, a folder not writable, a service that died (exit 3)
│   ├── NothingDone        a job ended, and all that it tried had failed (exit 1)
│   └── Refused            not allowed, unknown, wrong name typed, preview expired or overtaken (exit 4)
│       ├── InvalidValue   a value that none of its kind has (exit 2)
│       └── EngineRefused  the gateway or the store answered no (exit 4; 2 for an invalid value, 1 for a fault of its own)
│           └── EngineConflict  the record changed since it was read
└── retryable
    ├── EngineUnavailable  neither a gateway nor the store answered (exit 1)
    └── ActFailed          an act was begun and did not succeed (exit 1)
"""

from __future__ import annotations


class AppError(Exception):
    """Base of the console's and the CLI's own errors: one line, what to do next in it, no secrets, no prompts."""

    retryable = False
    exit_code = 1


class ConfigError(AppError):
    """A setting that cannot work; the message names it, its value unless secret, and what is expected."""

    exit_code = 3


class CannotStart(AppError):
    """A service that cannot start here and now."""

    exit_code = 3


class Refused(AppError):
    """An act that is not allowed, or not as it was asked for. Nothing was changed."""

    exit_code = 4


class InvalidValue(Refused):
    """A value that none of its kind has: out of its range, or not written as it must be."""

    exit_code = 2


class EngineRefused(Refused):
    """The engine answered, and the answer is no. code: the control API's error code. status: its HTTP status, or what it would be."""

    def __init__(self, message: str, *, code: str, status: int) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        if status >= 500:
            self.exit_code = 1
        elif status in {400, 413, 422}:
            self.exit_code = InvalidValue.exit_code


class EngineConflict(EngineRefused):
    """The record changed since it was read; read it again and repeat."""


class NothingDone(AppError):
    """A job came to its end and nothing of it had succeeded: the same again would only cost the same again."""


class EngineUnavailable(AppError):
    """Neither a gateway nor the store itself answered, or the gateway could not do it now. code: the control API's."""

    retryable = True

    def __init__(self, message: str, *, code: str = "unavailable") -> None:
        super().__init__(message)
        self.code = code


class ActFailed(AppError):
    """An act that was begun and did not succeed; it stands in the audit as failed."""

    retryable = True

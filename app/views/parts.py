"""A page stays up when one of its sources fails: each read is a part, which has a value or says what failed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from app.errors import AppError
from storage.errors import StorageError, StoreGone, StoreMissing

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Failure:
    """A source that did not answer. hides: what cannot be shown without it."""

    source: str
    message: str
    hides: str = ""
    missing: bool = False  # not made yet, rather than broken


@dataclass(frozen=True, slots=True)
class Part(Generic[T]):
    """value is None exactly when failure is not."""

    value: T | None
    failure: Failure | None = None


def attempt(source: str, read: Callable[[], T], *, hides: str = "") -> Part[T]:
    """Return what `read` returns, or the failure of its storage or engine. Anything else is a bug and raises."""
    try:
        return Part(read())
    except (StorageError, AppError) as error:
        missing = isinstance(error, StoreMissing) and not isinstance(error, StoreGone)
        return Part(None, Failure(source, str(error), hides, missing))

"""What of a request is in the cache's keys, as far as it is the installation's to say."""

from __future__ import annotations

import re

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # a field name, RFC 9110 section 5.1
_MOST_NAMES = 100


class KeyingSettings(BaseSettings):
    key_ignored_headers: str = Field(
        default="",
        description="Names of headers, with commas between, that have no effect on answers: an id that differs at each request, "
        "for example. They still go upstream. Headers that look like credentials part tenants all the same.",
    )

    @field_validator("key_ignored_headers")
    @classmethod
    def _header_names(cls, value: str) -> str:
        names = header_names(value)
        if len(names) > _MOST_NAMES or not all(_TOKEN.fullmatch(name) for name in names):
            raise ValueError(f"expected at most {_MOST_NAMES} names of headers with commas between, x-session-id,x-trace for example")
        return value


def header_names(value: str) -> tuple[str, ...]:
    """Return the names in lower case."""
    return tuple(name.strip().lower() for name in value.split(",") if name.strip())

"""OpenTelemetry's Redis instrumentations: commands, not lookups. Whether a GET found anything is not in their spans."""

from __future__ import annotations

from dataclasses import dataclass

from collectors.dialects.base import NOTHING, Attributes, Dialect, Reading, first, text

_COMMANDS = ("db.operation.name", "db.operation", "db.statement", "db.query.text")


@dataclass(frozen=True, slots=True)
class Redis(Dialect):
    """The operation is the command's first word, in capitals."""

    def read(self, attributes: Attributes, *, scope: str) -> Reading:
        words = text(first(attributes, _COMMANDS)).split(maxsplit=1)
        return Reading(operation=words[0].upper()[:40], provider="redis") if words else NOTHING


REDIS = Redis(
    name="redis",
    scopes=("opentelemetry.instrumentation.redis", "@opentelemetry/instrumentation-redis", "@opentelemetry/instrumentation-ioredis"),
    marks=("db.redis.",),
)

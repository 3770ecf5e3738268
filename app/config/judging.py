"""The settings of the judge."""

from __future__ import annotations

from typing import Any

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings

from app.config.addresses import web_url


class JudgeSettings(BaseSettings):
    """Where the judge is, and how long and how often it is asked. Which namespaces ask it is said by their policies."""

    judge_url: str = Field(
        default="",
        description="Base URL of an OpenAI-compatible chat API whose model judges semantic hits, with or without /v1. Empty: no judge. "
        "It is sent the prompts of both sides.",
    )
    judge_model: str = Field(default="", description="Model name sent to the judge.")
    judge_api_key: SecretStr = Field(default=SecretStr(""), description="Key sent to the judge.")
    judge_timeout_s: float = Field(
        default=2.0, gt=0, le=60, description="Seconds to wait for the judge; past them the namespace's policy says what happens."
    )
    judge_remembered: int = Field(
        default=10_000, ge=0, le=10_000_000, description="Most opinions of the judge that a gateway remembers, some 200 bytes each."
    )

    @field_validator("judge_url")
    @classmethod
    def _judge(cls, value: str) -> str:
        return web_url(value) if value else value

    def judging(self, *, demo: bool) -> dict[str, Any]:
        """Return what the engine is told that is not told as it stands. The demo asks nobody."""
        return {"judge_url": "" if demo else self.judge_url, "judge_api_key": "" if demo else self.judge_api_key.get_secret_value()}

"""The settings of what checks hits: the judge and the holdout."""

from __future__ import annotations

from typing import Any

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings

from app.config.addresses import web_url

DEMO_HOLDOUT = 0.01


class JudgeSettings(BaseSettings):
    """Where the judge is, and how long it is asked; and how much is held out. Which namespaces do so is said by their policies."""

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

    holdout_ratio: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Share of would-be hits sent upstream at random, to learn the truth; 0…1. In the demo 0.01 unless it is set.",
    )

    @field_validator("judge_url")
    @classmethod
    def _judge(cls, value: str) -> str:
        return web_url(value) if value else value

    def judging(self, *, demo: bool) -> dict[str, Any]:
        """Return what the engine is told that is not told as it stands. The demo asks nobody, and holds a little out."""
        unset = "holdout_ratio" not in self.model_fields_set
        return {
            "judge_url": "" if demo else self.judge_url,
            "judge_api_key": "" if demo else self.judge_api_key.get_secret_value(),
            "holdout_ratio": DEMO_HOLDOUT if demo and unset else self.holdout_ratio,
        }

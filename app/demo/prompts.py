"""The demo's prompts: groups of a prompt, its paraphrases and its near-misses, in English and Chinese."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources


@dataclass(frozen=True, slots=True)
class PromptGroup:
    """paraphrases want the same answer as the prompt; near_misses look alike and want another."""

    namespace: str
    language: str
    prompt: str
    paraphrases: tuple[str, ...]
    near_misses: tuple[str, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.prompt, *self.paraphrases, *self.near_misses)


def load() -> list[PromptGroup]:
    """Return all groups in the order of the file."""
    text = resources.files("app.demo").joinpath("prompts.txt").read_text(encoding="utf-8")
    return [_group(line) for line in text.splitlines() if line and not line.startswith("#")]


def _group(line: str) -> PromptGroup:
    namespace, language, prompt, *others = (part.strip() for part in line.split(" | "))
    return PromptGroup(
        namespace=namespace,
        language=language,
        prompt=prompt,
        paraphrases=tuple(other[2:] for other in others if other.startswith("~ ")),
        near_misses=tuple(other[2:] for other in others if other.startswith("! ")),
    )

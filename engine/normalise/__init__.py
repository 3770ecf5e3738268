"""Normalisers: spellings of one request that share a key, by a namespace's policy. A lost hit costs money, a wrong one an answer.

A normaliser names only what it can tell to be the same; everything else it leaves as it was sent. Each has a version, which
parts the entries made with it from all others.
"""

from __future__ import annotations

import importlib
from functools import lru_cache

from engine.normalise.base import Normal, Rule
from engine.types import Normaliser

__all__ = ["Normal", "Rule", "rule_of"]


@lru_cache(maxsize=len(Normaliser))
def rule_of(kind: Normaliser) -> Rule:
    """Return the rule of a normaliser; its libraries are imported the first time, so that nobody else pays for them."""
    module = importlib.import_module(f"engine.normalise.{kind.value}")
    rule: Rule = module.rule()
    return rule

"""May a candidate's answer serve this prompt? Rules over two parses; no model, no I/O."""

from __future__ import annotations

from engine.verify.parse import is_current, parse
from engine.verify.rules import may_go_on, verify

__all__ = ["is_current", "may_go_on", "parse", "verify"]

"""Which names a namespace, a tenant or a model version can have."""

from __future__ import annotations

import re

MAX_NAME_CHARS = 200
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def fault(name: str) -> str:
    """Return what is wrong with a name, as the end of a sentence about it; '' when nothing is."""
    if len(name) > MAX_NAME_CHARS:
        return f"has {len(name)} characters; at most {MAX_NAME_CHARS} are allowed"
    return "holds control characters" if _CONTROL.search(name) else ""

"""Prompt templates: the Jinja source that a request brings for its conversation (`chat_template` of vLLM and SGLang).

Templates share a form when Jinja reads the same tree from them, whichever of its blank-trimming options the server has set:
comments and the blanks inside `{{ }}` vanish, every blank of the output stays. The template is not run here. The values that it
is given stay beside it in the key, with their types.
"""

from __future__ import annotations

from functools import lru_cache

import jinja2
from jinja2 import nodes
from jinja2.ext import loopcontrols

from engine.normalise.base import Rule

VERSION = f"template/2/{jinja2.__version__}"
MAX_TEMPLATE_CHARS = 16_384
_REMEMBERED = 64
_LINE_ENDS = ("\n", "\r")

# Servers render with both options on, Jinja's own default is off; a comment's line end depends on it. Either leaves out a line end
# at the source's very end, unless it is told to keep it: what a comment hides from that is printed.
_READINGS = {
    keep: tuple(
        jinja2.Environment(  # noqa: S701 - nothing is rendered
            trim_blocks=trim, lstrip_blocks=trim, keep_trailing_newline=keep, extensions=[loopcontrols]
        )
        for trim in (False, True)
    )
    for keep in (True, False)
}


@lru_cache(maxsize=_REMEMBERED)
def form(source: str) -> str | None:
    """Return the template's trees as a text, None when Jinja cannot read it."""
    if len(source) > MAX_TEMPLATE_CHARS:
        return None
    try:
        kept = _read(source, keep=True)
        # Without a line end at the end the two readings are one.
        return f"{kept}\n{_read(source, keep=False) if source.endswith(_LINE_ENDS) else kept}"
    except (jinja2.TemplateError, RecursionError, ValueError, OverflowError):
        return None


def _read(source: str, *, keep: bool) -> str:
    return "\n".join(repr(_joined(reading.parse(source))) for reading in _READINGS[keep])


def _joined(tree: nodes.Template) -> nodes.Template:
    """Return the tree with texts that a comment parted in one piece again."""
    for output in tree.find_all(nodes.Output):
        whole: list[nodes.Expr] = []
        for node in output.nodes:
            last = whole[-1] if whole else None
            if isinstance(node, nodes.TemplateData) and isinstance(last, nodes.TemplateData):
                whole[-1] = nodes.TemplateData(last.data + node.data)
            else:
                whole.append(node)
        output.nodes = whole
    return tree


def rule() -> Rule:
    return Rule(VERSION, template=form)

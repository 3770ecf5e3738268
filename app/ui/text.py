"""Text for Streamlit's Markdown: everything is literal unless a page writes the markup itself."""

from __future__ import annotations

import re

_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")


def literal(text: str) -> str:
    """Return Markdown that shows the text as it is: every ASCII punctuation mark is escaped, line ends become spaces.

    Covers HTML, links and bare URLs, emphasis, LaTeX (`$`), and Streamlit's own `:red[…]` and `:material/…:`.
    """
    return _PUNCTUATION.sub(r"\\\1", " ".join(text.split()))

"""Text for Streamlit's Markdown: everything is literal unless a page writes the markup itself."""

from __future__ import annotations

import re

_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")
# Addresses become links after the text was parsed, when its escapes are gone already: a word joiner, which is not seen, keeps them text.
_ADDRESS = re.compile(r"(?<=http)(?=s?://)|(?<=www)(?=\.)|(?<=\w)(?=@\w)", re.IGNORECASE)


def literal(text: str) -> str:
    """Return Markdown that shows the text as it is: every ASCII punctuation mark is escaped, line ends become spaces.

    Covers HTML, links and bare URLs, emphasis, LaTeX (`$`), and Streamlit's own `:red[…]` and `:material/…:`.
    """
    return _PUNCTUATION.sub(r"\\\1", _ADDRESS.sub("\u2060", " ".join(text.split())))

"""Numbers in words, and text that cannot act."""

import re

from app.analysis.intervals import wilson
from app.ui.text import literal
from app.views import words


def test_no_data_is_said_and_small_shares_do_not_vanish() -> None:
    assert words.percent(None) == "no data"
    assert words.percent(wilson(1, 10_000)) == "< 0.1 %"
    assert words.percent(wilson(9_999, 10_000)) == "> 99.9 %"
    assert words.percent(wilson(0, 10)) == "0.0 %"


def test_times_are_utc_text() -> None:
    assert words.instant(1_586_822_400_000) == "2020-04-14 00:00:00"
    assert words.span(1_586_822_400_000, 1_586_826_000_000) == "2020-04-14 00:00 to 01:00 UTC"


def test_ages_and_durations() -> None:
    assert [words.age(ms) for ms in (0, 61_000, 3_600_000, 90_000_000)] == ["0 s", "1 min 1 s", "1 h", "1 d 1 h"]
    assert [words.duration_ms(ms) for ms in (0.42, 12, 1_234, -5)] == ["0.42 ms", "12 ms", "1.23 s", "−5.00 ms"]


def test_lists_are_read_as_one_sentence() -> None:
    told = [words.listed("abcde"[:n], most=3) for n in range(6)]
    assert told == ["", "a", "a and b", "a, b and c", "a, b, c and 1 more", "a, b, c and 2 more"]


def test_control_characters_are_written_out() -> None:
    assert words.readable("a\u202eb\x00c\n") == "a⟨U+202E⟩b⟨U+0000⟩c\n"
    assert words.readable("👩\u200d🚀") == "👩\u200d🚀"
    assert words.one_line("a\n b" * 100, 10).endswith("…")


def test_literal_text_escapes_every_mark() -> None:
    assert literal("<b> [x](y) $a$ :red[z]") == "\\<b\\> \\[x\\]\\(y\\) \\$a\\$ \\:red\\[z\\]"


def test_addresses_stay_text_after_the_escapes_are_gone() -> None:
    """Streamlit links bare addresses in the parsed text: there must be none to be found."""
    read = literal("see https://evil.example, http://a.b, www.evil.example or me@evil.example").replace("\\", "")
    assert not re.search(r"https?://|www\.|\w@\w", read)
    assert read.replace("\u2060", "") == "see https://evil.example, http://a.b, www.evil.example or me@evil.example"

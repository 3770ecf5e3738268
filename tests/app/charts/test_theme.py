"""Colours stand out from both themes' backgrounds: computed as WCAG 2 does, from the colours themselves."""

import tomllib
from pathlib import Path

import pytest

from app.charts import counters, theme, waterfall

THEMES = tomllib.loads((Path(__file__).parents[3] / ".streamlit" / "config.toml").read_text())["theme"]
CAPTION = 0.6  # the library draws captions at this opacity
TEXT, MARK = 4.5, 3.0  # WCAG AA of text, and of what a figure is read by


def _rgb(colour: str) -> tuple[float, ...]:
    return tuple(int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))


def _luminance(rgb: tuple[float, ...]) -> float:
    red, green, blue = (value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in rgb)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(front: str, back: str, opacity: float = 1.0) -> float:
    behind = _rgb(back)
    drawn = tuple(one * opacity + other * (1 - opacity) for one, other in zip(_rgb(front), behind, strict=True))
    low, high = sorted((_luminance(drawn), _luminance(behind)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("name", ["light", "dark"])
def test_text_can_be_read_captions_too(name: str) -> None:
    colours = THEMES[name]
    backgrounds = (colours["backgroundColor"], colours["secondaryBackgroundColor"], colours["sidebar"]["backgroundColor"])
    for back in backgrounds:
        assert contrast(colours["textColor"], back, CAPTION) >= TEXT
        assert contrast(colours["linkColor"], back) >= TEXT
        assert contrast(theme.AXIS_TEXT[name], back) >= TEXT
    assert contrast(colours["dataframeHeaderTextColor"], colours["dataframeHeaderBackgroundColor"]) >= TEXT
    assert contrast(colours["codeTextColor"], colours["codeBackgroundColor"]) >= TEXT


@pytest.mark.parametrize("name", ["light", "dark"])
def test_marks_stand_out(name: str) -> None:
    back = THEMES[name]["backgroundColor"]
    drawn = {**theme.OUTCOME_COLOURS, "neutral": theme.NEUTRAL, "accent": theme.ACCENT, "span": waterfall.SPAN, "step": waterfall.STEP}
    assert {what: round(contrast(colour, back), 2) for what, colour in drawn.items() if contrast(colour, back) < MARK} == {}
    assert set(counters.COLOURS) <= set(theme.OUTCOME_COLOURS.values())

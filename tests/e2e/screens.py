"""Screenshots of the console's pages: `shoot(base_url, page, path, width, theme)`.

Also a program: `python -m tests.e2e.screens URL FOLDER [page…]`. A page may carry a query, and after a bar the name of a button to
press first: `'purge?namespace=faq|Preview a purge'`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    from playwright.sync_api import Browser, sync_playwright
except ImportError:
    sys.exit("pictures need what the tests need: run `make test` once, then .venv/bin/python -m tests.e2e.screens")

CHROMIUM = "/usr/bin/chromium"
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-quic",
)
HEIGHTS = {390: 844}
_TRIES, _TALLEST = 6, 8_000
_PATIENCE_MS = 180_000  # a machine that does other work draws slowly
DRAWN = """!document.querySelector('[data-testid=stSkeleton]')
    && [...document.querySelectorAll('[data-testid=stPlotlyChart]')].every((chart) => chart.querySelector('.main-svg'))"""
SETTLED = "document.querySelector('[data-testid=stApp]').dataset.testScriptState === 'notRunning'"


@contextmanager
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield opened
        opened.close()


def _shoot(  # noqa: PLR0917 - one caller
    opened: Browser, base_url: str, page: str, path: Path, width: int, theme: str
) -> list[str]:
    context = opened.new_context(
        viewport={"width": width, "height": HEIGHTS.get(width, 900)}, color_scheme=theme, timezone_id="Asia/Shanghai"
    )  # type: ignore[arg-type]
    context.set_default_timeout(_PATIENCE_MS)
    tab = context.new_page()
    faults: list[str] = []
    tab.on("pageerror", lambda error: faults.append(str(error)))
    address, _, button = page.partition("|")
    tab.goto(f"{base_url}/{address}")
    tab.get_by_test_id("stApp").wait_for()
    tab.locator("h1").first.wait_for()
    tab.wait_for_function(SETTLED)
    if button:
        tab.get_by_role("button", name=button).first.click()
        tab.wait_for_timeout(300)  # the click has to reach the server before the page can be busy
        tab.wait_for_function(SETTLED)
    tab.wait_for_timeout(1_200)  # figures fade in
    tall = 0
    for _ in range(_TRIES):
        # The page scrolls inside a container: a tall viewport shows it whole. What comes into sight by that draws itself, and grows.
        found = int(tab.evaluate("Math.max(...[...document.querySelectorAll('[data-testid=stMain]')].map(e => e.scrollHeight), 600)"))
        if found <= tall:
            break
        tall = min(found + 8, _TALLEST)
        tab.set_viewport_size({"width": width, "height": tall})
        tab.wait_for_function(DRAWN)
        tab.wait_for_timeout(2_500)
    else:
        faults.append(f"the page is still growing at {tall} px")
    wide = tab.evaluate("(() => { const e = document.querySelector('[data-testid=stMain]'); return e.scrollWidth - e.clientWidth })()")
    if wide > 1:
        faults.append(f"the page is {wide} px wider than {width}")
    path.parent.mkdir(parents=True, exist_ok=True)
    tab.wait_for_function(SETTLED)  # a page that reads again is pale
    tab.screenshot(path=str(path))
    context.close()
    return faults


def shoot(base_url: str, page: str, path: Path, width: int = 1440, theme: str = "light") -> list[str]:
    """Write a picture of the whole page and return script errors and overflow. page: '' is the overview."""
    with browser() as opened:
        return _shoot(opened, base_url, page, path, width, theme)


def shoot_all(
    base_url: str,
    pages: list[str],
    folder: Path,
    *,
    widths: tuple[int, ...] = (1440, 390),
    themes: tuple[str, ...] = ("light", "dark"),
) -> list[str]:
    """Shoot every page at every width and theme with one browser; return what went wrong."""
    faults = []
    with browser() as opened:
        for page in pages:
            for width in widths:
                for theme in themes:
                    name = page.split("|")[0].split("?")[0] or "overview"
                    found = _shoot(opened, base_url, page, folder / f"{name}-{width}-{theme}.png", width, theme)
                    faults += [f"{name} {width} {theme}: {fault}" for fault in found]
    return faults


if __name__ == "__main__":
    for line in shoot_all(sys.argv[1], sys.argv[3:] or ["", "hit_rate", "traces", "sources"], Path(sys.argv[2])):
        print(line)

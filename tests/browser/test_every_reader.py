"""Every page, as anybody may have it, offline and without JavaScript.

Narrow or wide, light, dark, in colours of the reader's own, on paper, by keyboard, by ear.
"""

from pathlib import Path
from typing import Final, Literal, NamedTuple

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, expect

from tests.browser.chromium import Scheme, opened
from tests.browser.pages import PAGES

pytestmark = pytest.mark.browser


class View(NamedTuple):
    """One way to look at a page; ``forced``: the reader's system has its own few colours."""

    width: int
    scheme: Scheme = "light"
    media: Literal["screen", "print"] = "screen"
    forced: Literal["active", "none"] = "none"


VIEWS: Final = (
    View(1600),
    View(380),
    View(768, scheme="dark"),
    View(1600, scheme="dark", forced="active"),
    View(1280, forced="active"),
)
PAPER: Final = {"upright": 703, "across": 1032}
"""CSS pixels between the margins of A4, by how a page is laid."""
WCAG: Final = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22a", "wcag22aa")
AT_NIGHT: Final = ("divergence", "valid", "cut-short", "forked", "two-releases")
"""Pages of a kind that others are, too."""
BY_DAY: Final = ("loss", "matrix", "index", "inspect")
"""Pages that axe, which takes seconds for each, looks at by day."""
NAMES: Final = [
    pytest.param(name, marks=[pytest.mark.nightly] if name in AT_NIGHT else [], id=name)
    for name in PAGES
]
every_page: Final = pytest.mark.parametrize("name", NAMES)

_WORDS: Final = "document.body.innerText.replace(/\\s+/g, '')"
_CUT_OFF: Final = """() => {
  const scrolls = e => e.closest('.scroll, .pair section, .sr, .quiet, .skip, .runs thead');
  const found = [], width = document.documentElement.clientWidth;
  for (const e of document.querySelectorAll('body *')) {
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
    const at = e.getBoundingClientRect(), drawing = e.closest('svg[role=img]');
    if (!at.width || e.matches('title, desc')) continue;
    const frame = drawing?.getBoundingClientRect();
    if (frame && (at.left < frame.left - 1 || at.right > frame.right + 1
        || at.top < frame.top - 2 || at.bottom > frame.bottom + 2)) found.push(e.textContent);
    if (!scrolls(e) && (at.left < -1 || at.right > width + 1)) found.push(e.textContent);
    const cell = e.closest('.sr') ? null : e.closest('td, th')?.getBoundingClientRect();
    for (const n of cell ? e.childNodes : []) {
      if (n.nodeType !== 3 || !n.data.trim()) continue;
      const range = document.createRange();
      range.selectNodeContents(n);
      const text = range.getBoundingClientRect();
      if (text.left < cell.left - 1 || text.right > cell.right + 1) found.push(n.data);
    }
  }
  return found;
}"""
"""Texts that the edge of the page, of a drawing or of a table's cell cuts off or does not hold."""

_STATUSES: Final = """() => [...document.querySelectorAll('.badge, .chip, .result, .cell')]
  .filter(e => e instanceof HTMLElement)
  .map(e => [e.className, e.innerText.replace(/\\s+/g, ' ').trim()])"""

_FOCUSABLE: Final = """() => [...document.querySelectorAll(
    'a[href], summary, [tabindex="0"], input[type=radio]:checked')]
  .filter(e => e.checkVisibility()).map((e, i) => e.dataset.order = String(i)).length"""
_FOCUSED: Final = """() => {
  const e = document.activeElement, at = e.getBoundingClientRect(), style = getComputedStyle(e);
  return [Number(e.dataset.order ?? -1), style.outlineStyle !== 'none'
    && parseFloat(style.outlineWidth) >= 2, at.right > 0 && at.left < innerWidth
    && at.bottom > 0 && at.top < innerHeight];
}"""


@every_page
def test_a_page_is_whole_however_it_is_looked_at(
    name: str, browser: Browser, pages: dict[str, Path]
) -> None:
    words = set()
    with opened(browser, pages[name], width=1280) as (page, sins):
        for view in VIEWS:
            page.set_viewport_size({"width": view.width, "height": 900})
            page.emulate_media(
                media=view.media, color_scheme=view.scheme, forced_colors=view.forced
            )
            expect(page.locator("h1")).to_be_visible()
            assert page.evaluate("document.documentElement.scrollWidth") <= view.width, view
            assert page.evaluate(_CUT_OFF) == [], view
            words.add(page.evaluate(_WORDS))
        assert sins == []
    assert len(words) == 1, "other words where the window or the colours are others"


@every_page
def test_a_page_fits_on_paper(name: str, browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages[name], width=1280, scheme="dark") as (page, _):
        page.emulate_media(media="print")
        across = page.locator("main.broad").count()
        width = PAPER["across" if across else "upright"]
        page.set_viewport_size({"width": width, "height": 900})
        # Chromium makes a page that is a little wider smaller.
        assert page.evaluate("document.documentElement.scrollWidth") <= width * 1.25
        assert page.evaluate("getComputedStyle(document.body).color") == "rgb(27, 35, 48)"
        assert page.pdf(prefer_css_page_size=True).startswith(b"%PDF")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in BY_DAY else [pytest.mark.nightly], id=name)
        for name in PAGES
    ],
)
def test_axe_finds_no_breach_of_the_accessibility_guidelines(
    name: str, browser: Browser, pages: dict[str, Path]
) -> None:
    """WCAG 2.2, levels A and AA. Of details beside one another the first is opened."""
    views = [View(380, scheme="light"), View(1280, scheme="dark")]
    with opened(browser, pages[name], width=1280, scripts=True) as (page, _):
        page.evaluate("document.querySelectorAll('details:not(details ~ details)')"
                      ".forEach(e => e.open = true)")  # fmt: skip
        for view in views:
            page.set_viewport_size({"width": view.width, "height": 900})
            page.emulate_media(color_scheme=view.scheme)
            found = Axe().run(page, options={"runOnly": list(WCAG), "resultTypes": ["violations"]})
            assert found.violations_count == 0, found.generate_report()


@every_page
def test_a_colour_says_nothing_that_words_do_not(
    name: str, browser: Browser, pages: dict[str, Path]
) -> None:
    with opened(browser, pages[name], width=1280) as (page, _):
        page.locator("details").evaluate_all("all => all.forEach(e => e.open = true)")
        colours: dict[str, set[str]] = {}
        for class_, words in page.evaluate(_STATUSES):
            assert any(letter.isalnum() for letter in words), class_
            colours.setdefault(f"{class_.split()[0]} {words}", set()).add(class_)
        assert {words: found for words, found in colours.items() if len(found) > 1} == {}


@every_page
def test_the_keyboard_reaches_everything_in_order_and_shows_where_it_is(
    name: str, browser: Browser, pages: dict[str, Path]
) -> None:
    with opened(browser, pages[name], width=1280) as (page, _):
        most = min(page.evaluate(_FOCUSABLE), 60)
        assert most >= 1
        for number in range(most):
            page.keyboard.press("Tab")
            assert page.evaluate(_FOCUSED) == [number, True, True]


def test_keys_have_the_colours_of_the_drawings_where_colours_are_forced(
    browser: Browser, pages: dict[str, Path]
) -> None:
    """Browsers leave a drawing's colours alone, and take those of all else."""
    with opened(browser, pages["loss"], width=1280) as (page, _):
        page.emulate_media(forced_colors="active")
        key = page.locator(".swatch.subject").first
        drawn = page.locator("svg .lane:not(.down) .cell.subject").first
        assert key.evaluate("e => getComputedStyle(e).backgroundColor") == drawn.evaluate(
            "e => getComputedStyle(e).fill"
        )

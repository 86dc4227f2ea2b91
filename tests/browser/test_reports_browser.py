"""What is where on the pages of reports, in a real browser."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from highwater.harness.releases.catalogue import CATALOGUE
from tests.browser.chromium import Scheme, opened

pytestmark = pytest.mark.browser


def test_the_schemes_differ(browser: Browser, pages: dict[str, Path]) -> None:
    found = []
    for scheme in ("light", "dark"):
        with opened(browser, pages["loss"], width=800, scheme=scheme) as (page, _):
            found.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert found[0] != found[1]


def test_the_headline_and_the_frames_are_seen(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["loss"], width=1280) as (page, _):
        expect(page.get_by_text("1 of 5 acknowledged records is lost").first).to_be_visible()
        expect(page.get_by_role("heading", name="Broker 3 truncates its log")).to_be_visible()
        assert page.locator(".strip svg").count() == 6
        expect(page.get_by_role("img", name="events-0 over the whole run")).to_be_visible()


def test_the_models_word_is_seen_in_the_colour_that_it_deserves(
    browser: Browser, pages: dict[str, Path]
) -> None:
    colour = "e => getComputedStyle(e).color"
    with opened(browser, pages["cut-short"], width=1280) as (page, _):
        section = page.locator("section[aria-labelledby=model]")
        word = section.locator(".badge")
        assert word.inner_text().lower() == "unexplained"
        broken = page.locator(".finding.unexplained .chip.lost-write").evaluate(colour)
        assert word.evaluate(colour) == broken
        assert section.locator(".finding").first.get_attribute("class") == "finding unexplained"
    with opened(browser, pages["divergence"], width=1280) as (page, _):
        section = page.locator("section[aria-labelledby=model]")
        assert section.locator(".badge").inner_text().lower() == "as predicted"
        ours, theirs = section.locator("table.logs").all()
        assert ours.inner_text().replace("model's", "brokers'") == theirs.inner_text()
        left, right = ours.bounding_box(), theirs.bounding_box()
        assert left
        assert right
        assert left["y"] == right["y"]


def test_a_counterexample_is_drawn_without_overlap_and_fits_a_phone(
    browser: Browser, pages: dict[str, Path]
) -> None:
    with opened(browser, pages["forked"], width=1280) as (page, _):
        expect(page.get_by_role("img", name="Step 1, A appends m1 at offset 0")).to_be_visible()
        assert page.locator(".strip .cell.other").count() == 1
        assert page.locator(".strip .frame").count() == 10
        assert page.evaluate(_TEXTS_OVERLAP) == []
    with opened(browser, pages["forked"], width=400) as (page, _):
        needed, given = page.locator(".strip").evaluate("e => [e.scrollWidth, e.clientWidth]")
        assert needed <= given


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_drawing_alone_opens_and_follows_the_scheme(
    scheme: Scheme, browser: Browser, pages: dict[str, Path]
) -> None:
    with opened(browser, pages["drawing"], width=1280, scheme=scheme) as (page, sins):
        paper = page.locator(".paper").evaluate("e => getComputedStyle(e).fill")
        assert paper == {"light": "rgb(252, 252, 250)", "dark": "rgb(18, 22, 28)"}[scheme]
        assert sins == []


def test_the_keyboard_reaches_the_finding_and_the_evidence(
    browser: Browser, pages: dict[str, Path]
) -> None:
    with opened(browser, pages["loss"], width=1280) as (page, _):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        assert page.evaluate("document.activeElement.getBoundingClientRect().left") >= 0
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.innerText") == "How to read this page"
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "here"
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.type") == "radio"
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
        page.keyboard.press("Enter")
        expect(page.get_by_role("table", name="Evidence about m3")).to_be_visible()


def test_arrow_keys_go_through_the_steps_and_print_shows_them_all(
    browser: Browser, pages: dict[str, Path]
) -> None:
    with opened(browser, pages["loss"], width=1280) as (page, _):
        shown = page.locator(".strip .drawing:visible")
        frames = page.locator(".strip .frame").count()
        assert shown.count() == frames > 2
        page.get_by_role("radio", name="All steps at once").focus()
        for number in range(1, frames + 1):
            page.keyboard.press("ArrowDown")
            assert shown.count() == 1
            assert page.locator(".frame:has(.drawing:visible) .n").inner_text() == str(number)
        page.emulate_media(media="print")
        assert shown.count() == frames


def test_a_matrix_of_every_release_fits_a_screen_and_scrolls_on_a_phone(
    browser: Browser, pages: dict[str, Path]
) -> None:
    sizes = "e => [e.scrollWidth, e.clientWidth]"
    with opened(browser, pages["releases"], width=1440) as (page, _):
        region = page.get_by_role("region", name="Matrix of releases")
        needed, given = region.evaluate(sizes)
        assert needed <= given
        assert region.locator("thead th").count() == len(CATALOGUE) + 1
        expect(page.get_by_role("link", name="invalid, 1").first).to_be_visible()
    with opened(browser, pages["releases"], width=400) as (page, _):
        region = page.get_by_role("region", name="Matrix of releases")
        needed, given = region.evaluate(sizes)
        assert needed > given
        name = region.locator("tbody th").first
        before = name.bounding_box()
        region.evaluate("e => e.scrollLeft = 500")
        assert name.bounding_box() == before


def test_the_trend_says_what_changed_and_how_to_repeat_it(
    browser: Browser, pages: dict[str, Path]
) -> None:
    with opened(browser, pages["trend"], width=1280) as (page, _):
        for name in ("New", "Ongoing"):
            table = page.get_by_role("region", name=name)
            assert table.locator("tbody tr").count() > 0
            assert table.locator("tbody svg").count() == table.locator("tbody tr").count()
        expect(page.locator("pre.command").first).to_be_hidden()
        page.get_by_text("Commands that repeat").first.click()
        assert page.locator("pre.command").first.inner_text().startswith("highwater run --kafka")
        expect(page.locator("svg:has(#nights-t)")).to_be_visible()


_TEXTS_OVERLAP = """() => {
  const found = [];
  for (const svg of document.querySelectorAll('.strip svg')) {
    const texts = [...svg.querySelectorAll('text')].map(e => [e, e.getBoundingClientRect()]);
    for (const [i, [a, p]] of texts.entries()) for (const [b, q] of texts.slice(i + 1))
      if (p.left < q.right - 1 && q.left < p.right - 1 && p.top < q.bottom - 4
          && q.top < p.bottom - 4) found.push([a.textContent, b.textContent]);
  }
  return found;
}"""

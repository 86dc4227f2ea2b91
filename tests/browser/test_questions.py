"""A new reader's questions about a lost record: each is answered on the page, in three clicks."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.chromium import opened

pytestmark = pytest.mark.browser

CLICKS_MOST: Final = 3


class Question(NamedTuple):
    """What a reader asks; where the answer is seen, and what has to be clicked before."""

    asks: str
    where: str
    answer: str
    clicks: tuple[str, ...] = ()


QUESTIONS: Final = (
    Question("How many records were lost, of how many?", "h1", "1 of 5 acknowledged records"),
    Question("Which record, and where did it stand?", ".record h3", "m3 events-0, offset 3"),
    Question("Which promise was broken?", ".promise >> nth=0", "acks=all with min.insync"),
    Question("Which broker acknowledged it?", ".strip", "Broker 1 acknowledged m3 at offset 3"),
    Question("Who had it when the leader died?", ".strip", "Broker 3 held offset 3 (LEO 4) above"),
    Question(
        "Which broker cut it away, and to where?", ".strip", "Broker 3 truncated its log: LEO 4"
    ),
    Question("Who leads now, and in which epoch?", ".strip", "Broker 3 became leader in epoch 2"),
    Question("What would have kept it?", ".reasons.valid", "Kafka 0.11.0.2 or later"),
    Question("What was done to the cluster?", "table:has(caption:text('Faults'))", "is killed"),
    Question("What stands at its place today?", "tr.subject", "fence-0"),
    Question("Do the rules of the release say the same?", ".promise.model", "as predicted"),
    Question(
        "What exactly does the log of evidence say?",
        "table.evidence",
        "Truncating to offset 3",
        ("All evidence, in order of time",),
    ),
    Question("Which jars was that?", "table.tiny:visible", "kafka", ("Jars, with SHA-256",)),
    Question("Did the faults do anything?", "table:has(caption:text('measured'))", "2 of 2 faults"),
    Question(
        "What bytes stand at its place?",
        "table:has(caption:text('The records in each'))",
        "format v1",
        ("Raw records at offset 3",),
    ),
    Question(
        "What did the broker log when it cut?",
        "table:has(caption:text('Lines about'))",
        "Truncating",
        ("What the brokers logged",),
    ),
    Question("How do I do it again?", "pre.command", "highwater run --kafka 0.10.2.2"),
)


@pytest.fixture(scope="module")
def page(browser: Browser, pages: dict[str, Path]) -> Iterator[Page]:
    with opened(browser, pages["loss"], width=1280) as (found, _):
        yield found


@pytest.mark.parametrize("one", QUESTIONS, ids=lambda one: one.asks)
def test_a_question_is_answered_on_the_page(page: Page, one: Question) -> None:
    assert len(one.clicks) <= CLICKS_MOST
    page.reload()
    for words in one.clicks:
        page.get_by_text(words).first.click()
    place = page.locator(one.where).first
    expect(place).to_be_visible()
    told = " ".join(place.inner_text().split())
    assert one.answer in told, told


def test_the_page_is_readable_without_its_drawings(page: Page) -> None:
    """A drawing says in words what it shows."""
    page.reload()
    for drawing in page.locator("svg[role=img]").all():
        said = drawing.locator("desc").first.text_content()
        assert said
        assert len(said) > 10

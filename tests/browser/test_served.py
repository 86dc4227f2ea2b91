"""``highwater serve`` as a person has it: a command, its address in the browser, pages, Ctrl-C."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from highwater.reports.pages.run import write
from tests.browser.samples import write_all

pytestmark = pytest.mark.browser

LIMIT_S = 60


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a store with two runs; the command that serves it ends by Ctrl-C without a word more."""
    store = tmp_path_factory.mktemp("served") / "store"
    for run in write_all(store, ("loss", "hostile")).values():
        write(run)
    words = [sys.executable, "-m", "highwater", "serve", "--store", str(store), "--port", "0"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        said = ""
        while "Ctrl-C" not in said:
            line = server.stderr.readline()
            assert line, said
            said += line
        found = re.search(r"http://127\.0\.0\.1:\d+/", said)
        assert found
        yield found[0]
        server.send_signal(signal.SIGINT)
        _, rest = server.communicate(timeout=LIMIT_S)
        assert "Traceback" not in rest
        assert server.returncode in {0, 130}


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[tuple[Page, list[str]]]:
    """A page without JavaScript, and its sins: what it asks of others, and messages."""
    sins: list[str] = []
    host = urlsplit(address).netloc
    with browser.new_context(java_script_enabled=False) as context:
        opened = context.new_page()
        opened.on("console", lambda message: sins.append(message.text))
        opened.on("pageerror", lambda error: sins.append(str(error)))
        opened.on(
            "request",
            lambda asked: sins.append(asked.url) if urlsplit(asked.url).netloc != host else None,
        )
        yield opened, sins


def test_from_the_index_to_a_loss_and_back(page: tuple[Page, list[str]], address: str) -> None:
    opened, sins = page
    opened.goto(address)
    assert "2 runs of 2 broke a promise" in opened.inner_text("body")
    opened.get_by_role("link", name=re.compile("loss-a1b2")).first.click()
    expect(opened.get_by_text("1 of 5 acknowledged records is lost").first).to_be_visible()
    inner = opened.locator("main a[href^='#']").first
    inner.click()
    expect(opened).to_have_url(re.compile("#"))
    assert urlsplit(opened.url).fragment == (inner.get_attribute("href") or "")[1:]
    opened.go_back()
    opened.go_back()
    expect(opened).to_have_url(address)
    assert sins == []


def test_what_is_no_page_of_the_store_is_not_shown(
    page: tuple[Page, list[str]], address: str
) -> None:
    opened, _ = page
    answer = opened.goto(f"{address}nothing.html")
    assert answer is not None
    assert answer.status == 404
    assert "no such page" in opened.inner_text("body")

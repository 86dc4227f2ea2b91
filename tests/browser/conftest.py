"""A browser for each file of tests, and every page once for all of them."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser.chromium import CHROMIUM, chromium
from tests.browser.pages import write_pages


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """No longer than a file's tests: while it is open, an event loop is, too."""
    if not CHROMIUM.exists():
        why = f"{CHROMIUM} is missing: apt-get install chromium"
        if os.environ.get("CI") == "true":
            pytest.fail(why)
        pytest.skip(why)
    with chromium() as found:
        yield found


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_pages(tmp_path_factory.mktemp("store"))

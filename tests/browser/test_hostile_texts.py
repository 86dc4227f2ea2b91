"""What records, headers, logs, files and inventories say stays text, on every kind of page."""

import unicodedata
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Browser

from tests.browser.chromium import opened
from tests.browser.foreign import harmless, hostile, write_all

pytestmark = pytest.mark.browser

SEEDS: Final = (1, 2, 3)
KINDS: Final = (*("run", "forked", "compared", "matrix", "trend", "lost", "inspect", "shelf"),)

_ELEMENTS: Final = """() => [...document.querySelectorAll('*')].map(e => [
  e.tagName, e.getAttribute('class'), [...e.attributes].map(a => a.name).sort().join(' ')])
  .filter(([tag, class_]) => !['faulttext', 'step-says'].includes(class_))"""
"""All but two texts in drawings, of which the length says in how many lines they fit, if at all."""
_LINKS: Final = "[...document.links].map(e => new URL(e.href).protocol)"
_HIDDEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def elements(browser: Browser, page: Path) -> list[Any]:
    """Elements, classes and names of attributes of a page that does nothing and hides nothing."""
    with opened(browser, page, width=1280, scripts=True) as (view, sins):
        assert sins == []
        assert set(view.evaluate(_LINKS)) == {"file:"}
        html = view.content()
        hidden = {c for c in html if unicodedata.category(c) in _HIDDEN} - {"\n", "\t"}
        assert hidden == set()
        assert "49" not in {word.strip("{}$ ") for word in view.inner_text("body").split()}
        found: list[Any] = view.evaluate(_ELEMENTS)
        return found


@pytest.fixture(scope="module")
def benign(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> dict[str, list[Any]]:
    made = write_all(tmp_path_factory.mktemp("harmless"), harmless())
    return {kind: elements(browser, page) for kind, page in made.items()}


@pytest.mark.parametrize(
    "seed", [SEEDS[0], *(pytest.param(seed, marks=pytest.mark.nightly) for seed in SEEDS[1:])]
)
def test_a_hostile_text_is_text(
    seed: int, browser: Browser, benign: dict[str, list[Any]], tmp_path: Path
) -> None:
    made = write_all(tmp_path, hostile(seed))
    assert set(made) == set(KINDS) == set(benign)
    for kind, page in made.items():
        assert elements(browser, page) == benign[kind], kind

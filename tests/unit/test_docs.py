"""The pages of docs/ that are generated say what the code has today."""

import re
from pathlib import Path

import pytest

from docs.generate import HERE, PAGES

ROOT = HERE.parent


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_up_to_date(name: str) -> None:
    assert (HERE / name).read_text("utf-8") == PAGES[name](), "run make docs"


@pytest.mark.parametrize("page", [*ROOT.glob("*.md"), *HERE.glob("*.md")], ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text("utf-8")):
        assert "://" in target or (page.parent / target).exists(), target

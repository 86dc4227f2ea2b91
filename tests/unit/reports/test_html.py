"""Text on pages: what is foreign is truncated, what is of use as a whole only is not."""

import re
from importlib.resources import files

import pytest

from highwater.reports.html import _environment
from highwater.reports.text import LONGEST

LONG = "highwater replay " + "x" * 2 * LONGEST


def test_foreign_text_is_truncated_and_a_command_is_not() -> None:
    page = _environment().from_string("{{ text }}|{{ text|whole }}")
    cut, whole = page.render(text=LONG).split("|")
    assert len(cut) < LONGEST + 40
    assert whole == LONG


def test_a_whole_text_is_escaped_all_the_same() -> None:
    page = _environment().from_string("{{ text|whole }}")
    assert page.render(text="<b>\u202e&") == "&lt;b&gt;\\u202e&amp;"


@pytest.mark.parametrize(
    "printed",
    [
        r'href="\{\{(?P<words>[^}]*)\}\}',
        r"<code>\{\{(?P<words>[^}]*)\}\}</code>",
        r"\{\{(?P<words>[^}]*command[^}]*)\}\}",
    ],
)
def test_no_template_truncates_a_link_or_a_command(printed: str) -> None:
    folder = files("highwater.reports") / "templates"
    templates = [path for path in folder.iterdir() if path.name.endswith(".j2")]
    found = [
        (path.name, match["words"])
        for path in templates
        for match in re.finditer(printed, path.read_text("utf-8"))
    ]
    assert found
    assert [place for place in found if not place[1].strip().endswith("|whole")] == []

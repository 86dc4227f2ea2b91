"""The commands that pages show are commands that there are; those that take seconds are run."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer.core
import typer.main

from highwater.cli.app import app
from highwater.harness.releases.catalogue import MODERN

ROOT = Path(__file__).parents[3]
PAGES = [
    *ROOT.glob("*.md"),
    *(page for page in (ROOT / "docs").rglob("*.md") if page.name != "commands.md"),
]
QUICK = ("--version", "versions", "model rules", "nightly plan --kafka")


def commands(page: Path) -> list[str]:
    """Return the lines of a page's code blocks that call ``highwater``, without their comments."""
    text = re.sub(r"\\\n\s*", " ", page.read_text("utf-8"))
    text = re.sub(r"```(python|json|toml|yaml).*?```", "", text, flags=re.DOTALL)
    lines = re.findall(r"^(?: {4,}|\$ )?(?:\S*/)?(highwater [^\n]*)$", text, re.MULTILINE)
    return [line for line in lines if not re.search(r"highwater [A-Z•]|…", line)]


SHOWN = sorted({(page.name, line) for page in PAGES for line in commands(page)})


def arguments(line: str) -> list[str]:
    return [word.strip("[]") for word in shlex.split(line, comments=True)[1:]]


FACTS = {
    "CHANGELOG.md", "adding-a-fault.md", "changelog.md", "findings.md", "programs.md", "replay.md",
    "results.md",
}  # fmt: skip
"""Pages that name the release on which something was seen or counted; also those of FACTS_IN."""
FACTS_IN = {"findings", "program-pairs", "results"}
GENERATED = {
    "clients.md", "commands.md", "faults.md", "hazards.md", "model-results.md", "model-rules.md",
    "versions.md",
}  # fmt: skip


def test_the_pages_of_the_modern_release_are_listed() -> None:
    """A release that takes its place is written into each of them."""
    guide = (ROOT / "docs" / "adding-a-version.md").read_text("utf-8")
    listed = re.findall(r"`(\S+\.(?:md|toml))`", guide.partition("## The modern release")[2])
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.toml")]
    apart = FACTS | GENERATED | {"adding-a-version.md"}
    shown = [one for one in pages if one.name not in apart and one.parent.name not in FACTS_IN]
    shown = [page for page in shown if MODERN in page.read_text("utf-8")]
    assert sorted(listed) == sorted(page.relative_to(ROOT).as_posix() for page in shown)


def test_pages_show_commands() -> None:
    assert len(SHOWN) > 50


@pytest.mark.parametrize(("page", "line"), SHOWN)
def test_a_shown_command_is_one(page: str, line: str) -> None:
    """Its options and arguments are read as the command itself would, and nothing is done."""
    command, words = typer.main.get_command(app), arguments(line)
    while isinstance(command, typer.core.TyperGroup) and not words[0].startswith("-"):
        command = command.commands[words.pop(0)]
    command.make_context(page, words)


@pytest.mark.slow
@pytest.mark.parametrize(
    "line", sorted({line for _, line in SHOWN if " ".join(arguments(line)).startswith(QUICK)})
)
def test_a_shown_command_that_takes_seconds_works(line: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "highwater", *arguments(line)]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode in {0, 1}, done.stderr
    assert done.stdout

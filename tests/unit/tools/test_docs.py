"""The pages of docs/ that are generated say what the code has today."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Final

import pytest

from tools.generate_docs import DOCS, PAGES

ROOT = DOCS.parent


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_up_to_date(name: str) -> None:
    assert (DOCS / name).read_text("utf-8") == PAGES[name](), "run make docs"


@pytest.mark.parametrize("page", [*ROOT.glob("*.md"), *DOCS.glob("*.md")], ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text("utf-8")):
        assert "://" in target or (page.parent / target).exists(), target


@pytest.mark.slow
def test_what_workers_need_is_what_kernels_import() -> None:
    """A worker imports every kernel; whatever these import has to be installed there."""
    program = (
        "import highwater.checkers.judge, sys; print(*{name.split('.')[0] for name in sys.modules})"
    )
    command = [sys.executable, "-W", "ignore", "-c", program]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    of = packages_distributions()
    imported = {one for name in done.stdout.split() for one in of.get(name, ())}
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    libraries = [*ours["dependencies"], *ours["optional-dependencies"]["run"]]
    named = {re.split(r"[\[>=<]", one)[0] for one in libraries} - {"pyspark"}
    line = re.search(r"pip install -c constraints.txt (.*)", (DOCS / "spark.md").read_text("utf-8"))
    assert line is not None
    assert line[1].split() == sorted(imported & named)


def test_what_the_readme_shrinks_is_a_run_of_random_faults() -> None:
    """Its commands work in their order: the latest run is then not a story's."""
    lines = (ROOT / "README.md").read_text("utf-8").splitlines()
    commands = [line.strip() for line in lines if line.startswith("    highwater ")]
    shrinks = next(n for n, line in enumerate(commands) if "shrink store/latest" in line)
    runs = re.compile(r"highwater (run|replay|soak|matrix|model replay) ")
    latest = [line for line in commands[:shrinks] if runs.match(line)][-1]
    assert "--nemesis" in latest
    assert "--acks 1 " in latest  # loses something on every release, so that there is a goal


def test_the_site_has_every_page_once() -> None:
    site = (ROOT / "mkdocs.yml").read_text("utf-8")
    shown = re.findall(r"^ +- [^:]+: (\S+\.md)$", site, re.MULTILINE)
    pages = [path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")]
    assert sorted(shown) == sorted(pages)


def test_internals_name_what_is_there_and_no_step_goes_back_a_layer() -> None:
    page = (DOCS / "internals.md").read_text("utf-8")
    paths = page.split("\n## ")[1:]
    assert len(paths) == 2
    for path in paths:
        steps = re.findall(r"^\| `(\S+)` \| `(\w+)` \|", path, re.MULTILINE)
        assert len(steps) >= 8
        for file, name in steps:
            text = (ROOT / file).read_text("utf-8")
            assert re.search(rf"^ *(def|class) {name}\b", text, re.MULTILINE), (file, name)
        layers = [_layer(file) for file, _ in steps]
        assert layers in (sorted(layers), sorted(layers, reverse=True))


def _layer(file: str) -> int:
    """Return the layer of a file, as docs/architecture.md numbers them."""
    package, part = Path(file).with_suffix("").parts[:2]
    return LAYERS[part if package == "highwater" else package]


LAYERS: Final = {"harness": 1, "checkers": 2, "clusters": 2, "nemesis": 3, "reports": 3} | {
    "runtime": 4,
    "api": 5,
    "cli": 7,
    "__main__": 7,
}


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) < 120

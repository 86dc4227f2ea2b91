"""The lint of names and docstrings finds what it is there for."""

import ast
from pathlib import Path

import pytest

from tools import lint


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("def told(): ...", "name 'told' is not telling"),
        ("def f(each): ...", "name 'each' is not telling"),
        ("for one in (): ...", "name 'one' is not telling"),
        ("class A:\n    _held = 1", "name '_held' is not telling"),
        ("self.found = 1", "name 'found' is not telling"),
        ('def f():\n    """Whether it is so."""', "docstring begins with 'Whether'"),
        ('"""What there is."""', "docstring begins with 'What'"),
    ],
)
def test_what_it_refuses(source: str, says: str) -> None:
    tree, path = ast.parse(source), Path("module.py")
    complaints = [*lint.vague_names(path, tree), *lint.obscure_docstrings(path, tree)]
    assert [text for _, _, text in complaints if text.startswith(says)]


def test_fields_of_files_keep_their_names() -> None:
    tree = ast.parse("class Row(msgspec.Struct):\n    kept: int")
    assert [*lint.vague_names(Path("module.py"), tree)] == []


def test_a_public_class_has_a_name_of_its_own() -> None:
    trees = [(Path(name), ast.parse("class Cell: ...")) for name in ("a.py", "b.py")]
    assert [str(path) for path, _, _ in lint.repeated_classes(trees)] == ["a.py", "b.py"]


def test_a_folder_holds_fifteen_modules_at_most() -> None:
    paths = [Path(f"room/module_{number}.py") for number in range(16)]
    assert [*lint.crowded_folders(paths[:15])] == []
    assert [text[:10] for _, _, text in lint.crowded_folders(paths)] == ["16 modules"]


@pytest.mark.parametrize("line", ["import harness", "from checkers.judge import judge"])
def test_rooms_are_imported_from_highwater(line: str, tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(f"CODE = '''\n{line}\n'''\n")
    assert [line for _, line, _ in lint.packages_imported(path)] == [2]


def test_a_paragraph_has_ninety_words_at_most(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    long, code = "word " * 91, "    " + "word " * 91
    page.write_text(f"# Title\n\n{long}\n\n{code}\n\n| {long} | - |\n\n- {long}\n- short\n")
    assert [line for _, line, _ in lint.long_paragraphs(page)] == [3, 9]


def test_all_pages_together_have_a_limit(tmp_path: Path) -> None:
    short, long = tmp_path / "a.md", tmp_path / "b.md"
    short.write_text("| one | - |\n")
    long.write_text("word " * (lint.WORDS_MAX - 1))
    assert [*lint.many_words([short, long])] == []
    long.write_text("word " * lint.WORDS_MAX)
    assert [path for path, _, _ in lint.many_words([short, long])] == [long]

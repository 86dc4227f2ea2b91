"""Check names and docstrings against docs/style.md: ``python -m tools.lint [FOLDER ...]``.

Each violation is a line ``path:line: message``. If there is any, the exit code is 1.
"""

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

PRODUCT: Final = ("harness", "nemesis", "clusters", "checkers", "reports", "highwater", "tools")
"""The directories whose code is checked. ``highwater`` has links to the first five, which are not
read again."""

VAGUE_NAMES: Final = frozenset(
    [
        "told",
        "held",
        "kept",
        "asked",
        "known",
        "taken",
        "struck",
        "found",
        "said",
        "meant",
        "met",
        "wanted",
        "brought",
        "shown",
        "led",
        "heard",
        "drawn",
        "sought",
        "one",
        "each",
        "those",
        "mine",
        "own",
        "some",
        "theirs",
        "whoever",
    ]
)
"""Participles and pronouns that must not be names of modules, classes, functions, fields or
variables."""

WORDS_MAX: Final = 45_000
"""The greatest number of words in all pages, including generated pages."""

PARAGRAPH_WORDS_MAX: Final = 90

_CODE: Final = re.compile(r"^```.*?^```$|^    .*?$", re.MULTILINE | re.DOTALL)
_BREAK: Final = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*>]|\d+\.) )")
"""The pattern of a gap between paragraphs; each item of a list is a paragraph."""

MODULES_MAX: Final = 15
"""The greatest number of modules in a directory of the product."""

_OBSCURE_START: Final = re.compile(
    r"(What|Whether|Whose|Who|Whom|Which|Where|Of|So many|So much|That which|How)\b"
)
_PACKAGES: Final = re.compile(
    r"^\s*(?:from|import) (?:harness|nemesis|clusters|checkers|reports)\b", re.MULTILINE
)

_MANNERED: Final = re.compile(
    r"\b(likewise|whereto|as of old|has it not|have it not|cannot be had|that which)\b",
    re.IGNORECASE,
)

_VAGUE: Final = re.compile(
    r"\b(nobody|somebody|whoever|foretells?|foretold|footsteps?|deeds?|hears?|heard|floors|rooms)\b",
    re.IGNORECASE,
)
"""Words that engineers of the field do not use; docs/style.md has better words."""

Complaint = tuple[Path, int, str]


def sources(root: Path) -> Iterator[Path]:
    """Yield the Python files of the product, the tests, the benchmarks and the docs, each once."""
    for folder in (*PRODUCT, "tests", "benchmarks", "docs"):
        for path in sorted((root / folder).rglob("*.py")):
            if not any(parent.is_symlink() for parent in path.parents):
                yield path


def vague_names(path: Path, tree: ast.Module) -> Iterator[Complaint]:
    """Yield definitions, parameters, fields and variables with a name in ``VAGUE_NAMES``."""
    if path.stem in VAGUE_NAMES:
        yield path, 1, f"module name {path.stem!r} is not telling: use a noun"
    fields = _fields_of_files(tree)
    for node in ast.walk(tree):
        for name in () if node in fields else _defined(node):
            if name.strip("_").lower() in VAGUE_NAMES:
                yield path, node.lineno, f"name {name!r} is not telling: use a noun"  # type: ignore[attr-defined]


def _fields_of_files(tree: ast.Module) -> set[ast.expr]:
    """Return the fields of msgspec structs: files contain their names, which must not change."""
    return {
        statement.target
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and any("Struct" in ast.dump(base) for base in node.bases)
        for statement in node.body
        if isinstance(statement, ast.AnnAssign)
    }


def _defined(node: ast.AST) -> Iterable[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return (node.name,)
        case ast.arg():
            return (node.arg,)
        case ast.Name(ctx=ast.Store()):
            return (node.id,)
        case ast.Attribute(ctx=ast.Store()):
            return (node.attr,)
    return ()


def obscure_docstrings(path: Path, tree: ast.Module) -> Iterator[Complaint]:
    """Yield docstrings that begin with a word such as What, Whether, Of or How."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        text = ast.get_docstring(node)
        if text and (match := _OBSCURE_START.match(text)):
            line = getattr(node, "lineno", 1)
            yield (
                path,
                line,
                (f"docstring begins with {match[1]!r}: say what the code does, or what it is"),
            )


def repeated_classes(trees: Iterable[tuple[Path, ast.Module]]) -> Iterator[Complaint]:
    """Yield every public class whose name another public class has too."""
    places: dict[str, list[tuple[Path, int]]] = defaultdict(list)
    for path, tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append((path, node.lineno))
    for name, where in places.items():
        if len(where) > 1:
            for path, line in where:
                yield path, line, f"class name {name!r} is used {len(where)} times"


def packages_imported(path: Path) -> Iterator[Complaint]:
    """Yield imports of a package, in code or in a string, that use the directory's name."""
    text = path.read_text()
    for match in _PACKAGES.finditer(text):
        line = text.count("\n", 0, match.end()) + 1
        yield path, line, "import highwater.PACKAGE, not the directory's name"


def refused_words(path: Path, words: re.Pattern[str]) -> Iterator[Complaint]:
    """Yield words that docs/style.md refuses, in code, comments and pages."""
    text = path.read_text("utf-8")
    for match in words.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        yield path, line, f"{match[1]!r} is hard to read: use a plainer word"


def crowded_folders(paths: Iterable[Path]) -> Iterator[Complaint]:
    """Yield folders of the product with more than ``MODULES_MAX`` modules."""
    modules = Counter(path.parent for path in paths if path.name != "__init__.py")
    for folder, count in modules.items():
        if count > MODULES_MAX:
            yield (
                folder,
                1,
                (f"{count} modules in this folder, but at most {MODULES_MAX} are allowed"),
            )


def word_count(text: str) -> int:
    """Return the number of words in a text; a word has a letter or a digit."""
    return sum(1 for word in text.split() if re.search(r"\w", word))


def long_paragraphs(page: Path) -> Iterator[Complaint]:
    """Yield paragraphs of more than ``PARAGRAPH_WORDS_MAX`` words, without code and tables."""
    text = _CODE.sub(lambda code: re.sub(r"\S", " ", code[0]), page.read_text("utf-8"))
    text = re.sub(r"^\|.*$", "", text, flags=re.MULTILINE)
    start = 0
    for paragraph in _BREAK.split(text):
        start = text.index(paragraph, start)
        words = word_count(paragraph)
        if words > PARAGRAPH_WORDS_MAX:
            line = text.count("\n", 0, start) + 1
            yield (
                page,
                line,
                (f"the paragraph has {words} words, but at most {PARAGRAPH_WORDS_MAX} are allowed"),
            )


def many_words(pages: Iterable[Path]) -> Iterator[Complaint]:
    """Yield the page with the most words, if all pages together have more than ``WORDS_MAX``."""
    counts = {
        page: word_count(page.read_text("utf-8")) for page in pages if page.name != "changelog.md"
    }
    total = sum(counts.values())
    if total > WORDS_MAX:
        most = max(counts, key=lambda page: counts[page])
        says = (
            f"all pages together, including generated pages, have {total:,} words, but at most "
            f"{WORDS_MAX:,} are allowed"
        )
        yield most, 1, f"{says}: shorten any page; this page has the most words"


def complaints(root: Path) -> list[Complaint]:
    """Return every violation in the project's folder ``root``, sorted by path and line."""
    everywhere = list(sources(root))
    product = [path for path in everywhere if path.relative_to(root).parts[0] in PRODUCT]
    trees = [(path, ast.parse(path.read_text())) for path in product]
    pages = sorted((root / "docs").rglob("*.md"))
    violations: list[Complaint] = list(repeated_classes(trees))
    violations += crowded_folders(product)
    for path, tree in trees:
        violations += vague_names(path, tree)
        violations += obscure_docstrings(path, tree)
    for path in everywhere:
        violations += packages_imported(path)
    for path in [*everywhere, *root.glob("*.md"), *pages]:
        if path.name not in {"lint.py", "style.md"}:
            violations += refused_words(path, _MANNERED)
    for path in [*product, *pages]:
        if path.name not in {"lint.py", "style.md", "changelog.md"}:
            violations += refused_words(path, _VAGUE)
    pages += [root / "README.md", root / "CONTRIBUTING.md", root / "SECURITY.md"]
    violations += many_words(pages)
    for page in pages:
        violations += long_paragraphs(page)
    return sorted((path.relative_to(root), line, text) for path, line, text in violations)


def main() -> int:
    """Print every violation; return 1 if there is any."""
    violations = [
        complaint
        for complaint in complaints(Path(__file__).resolve().parent.parent)
        if not sys.argv[1:] or complaint[0].as_posix().startswith(tuple(sys.argv[1:]))
    ]
    for path, line, text in violations:
        print(f"{path}:{line}: {text}")  # noqa: T201 - a command's output
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())

"""``import highwater``: what it names, where that is, and what importing it costs."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import highwater

ROOT = Path(__file__).parents[3]
TREE = ast.parse((ROOT / "highwater" / "__init__.py").read_text("utf-8"))


@pytest.mark.parametrize("name", highwater.__all__)
def test_every_public_name_is_there(name: str) -> None:
    value = getattr(highwater, name)
    assert name == "__version__" or value.__doc__


def test_types_are_imported_from_where_values_are() -> None:
    typed = {
        alias.name: node.module
        for node in ast.walk(TREE)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("highwater.")
        for alias in node.names
    }
    loaded = {name: f"highwater.{module}" for name, module in highwater._MODULES.items()}
    assert typed == loaded
    assert set(highwater.__all__) == {*typed, "__version__"}


def test_the_reference_has_every_name_once() -> None:
    page = (ROOT / "docs" / "api.md").read_text("utf-8")
    named = re.findall(r"^::: highwater\.(\w+)$", page, re.MULTILINE)
    assert sorted(named) == sorted(set(highwater.__all__) - {"__version__"})


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'highwater' has no attribute 'nonsense'"):
        getattr(highwater, "nonsense")  # noqa: B009 - a constant, so that mypy lets it be


def test_importing_it_loads_nothing_of_its_own() -> None:
    code = "import sys, highwater; print(*(n for n in sys.modules if n.startswith('highwater.')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.slow
def test_the_version_is_that_of_the_package() -> None:
    words = [sys.executable, "-m", "highwater", "--version"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout == f"highwater {highwater.__version__}\n"
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert f"## [{highwater.__version__}]" in changes


@pytest.mark.slow
def test_a_command_starts_without_the_libraries_of_runs() -> None:
    heavy = {"kafka", "confluent_kafka", "numba", "pandas", "pyspark"}
    code = f"import sys, highwater.cli.app; print(*{heavy} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []

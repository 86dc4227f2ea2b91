"""Write docs/api.md: a line about each public name."""

import inspect
import re
from typing import Final

import highwater
from tools.model_tables import DOCS

_NAMES: Final = re.compile(r"(?:(?:- `.*\n)+\n)?((?:::: highwater\.\w+\n)+)")


def api() -> str:
    """Return docs/api.md with its lists written again."""
    text = (DOCS / "api.md").read_text("utf-8")
    return _NAMES.sub(lambda match: f"{_lines(match[1])}\n{match[1]}", text)


def _lines(block: str) -> str:
    names = re.findall(r"highwater\.(\w+)", block)
    return "".join(f"- `{name}`: {_first(name)}\n" for name in names)


def _first(name: str) -> str:
    """Return the first paragraph of a name's docstring."""
    paragraph = (inspect.getdoc(getattr(highwater, name)) or "").partition("\n\n")[0]
    return " ".join(paragraph.split()).replace("``", "`")

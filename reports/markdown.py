"""Parts of Markdown pages, for GitHub and a terminal: escaped text, and tables."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from highwater.reports.text import plain

_MARKUP: Final = re.compile(r"[\\`|<>*\[\]#&]|(?<![^\W_])_|_(?![^\W_])")
"""Also an underscore that is not within a word, where it stands for itself."""


def escape(text: str) -> str:
    """Return text in one line, in which nothing is markup."""
    return _MARKUP.sub(r"\\\g<0>", " ".join(plain(text).split()))


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table; text in cells must be escaped."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)

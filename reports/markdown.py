"""Parts of Markdown pages, for GitHub and a terminal: escaped text, and tables."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from highwater.reports.text import plain

_MARKUP: Final = re.compile(r"[\\`|<>*\[\]#&]|(?<![^\W_])_|_(?![^\W_])")
"""Characters to escape; an underscore within a word is no markup."""


def escape(text: str) -> str:
    """Return text as one line, with all markup escaped."""
    return _MARKUP.sub(r"\\\g<0>", " ".join(plain(text).split()))


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table; the caller must escape the text in cells."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)

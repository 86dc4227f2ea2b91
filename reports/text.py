"""Shorten text from a record, a broker or a client, and escape it."""

import re
import unicodedata
from typing import Final

LONGEST: Final = 400
"""Maximum number of characters that a page shows of a text from outside."""

_CLOCK: Final = re.compile(r"^\[?\d{4}-\d\d-\d\d[T ]\S+ (?:[A-Z]{4,5} )?")
_FOLDER: Final = re.compile(r",? ?\bdir=[^\],\s]*")
_WHITESPACE: Final = {"\n", "\t"}
_HIDDEN: Final = {"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"}
"""Unicode categories of characters that are invisible, that reorder other characters, or that XML
forbids (such as U+FFFE, which would break a drawing's file)."""


def plain(words: str, longest: int = LONGEST) -> str:
    """Escape every control and bidi character; truncate to ``longest`` characters."""
    cut = words[:longest]
    visible = (
        "".join(_visible(c) for c in cut) if not cut.isascii() or not cut.isprintable() else cut
    )
    return visible if len(words) <= longest else f"{visible}… ({len(words):,} characters)"


def _visible(character: str) -> str:
    if character in _WHITESPACE or unicodedata.category(character) not in _HIDDEN:
        return character
    return character.encode("unicode_escape").decode("ascii")


def logged(line: str) -> str:
    """Return a broker's log line without its time and without directory paths."""
    return _FOLDER.sub("", _CLOCK.sub("", line))


def short(words: str, longest: int = 7) -> str:
    """Return the last ``longest`` characters of a record's id, because ids differ at their ends."""
    visible = plain(words)
    return visible if len(visible) <= longest else "…" + visible[-(longest - 1) :]


def were(done: str) -> str:
    """Return ``were acknowledged``, or (with acks=0) ``left the client``."""
    return f"were {done}" if done == "acknowledged" else done


def seconds(time_ns: int | None, digits: int = 3) -> str:
    """Format nanoseconds as ``2.409 s``."""
    return "" if time_ns is None else f"{time_ns / 1e9:.{digits}f} s"

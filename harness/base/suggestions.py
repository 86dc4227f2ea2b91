"""Hints for misspelt names, and for releases that are not in the catalogue."""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

_VERSION: Final = re.compile(r"\d+(\.\d+)+")


def nearest(name: str, candidates: Iterable[str]) -> str:
    """Return a hint with the most similar candidates and a list of all candidates."""
    names = list(candidates)
    longer = [candidate for candidate in names if name and candidate.startswith(name)]
    return _hint(longer[:3] or get_close_matches(name, names, n=3, cutoff=0.4), names)


def nearest_release(name: str, candidates: Iterable[str]) -> str:
    """Return the hint for an unknown release: releases of the same line, or the nearest releases.

    A line is a number such as 3.9, for the releases 3.9.0, 3.9.1 and so on. If the name is a line,
    or no number, the function compares it as text.
    """
    names = list(candidates)
    number, numbers = _number(name), {candidate: _number(candidate) for candidate in names}
    if not number or any(candidate.startswith(f"{name}.") for candidate in names):
        return nearest(name, names)
    older = max((other for other in numbers.values() if other < number), default=None)
    newer = min((other for other in numbers.values() if other > number), default=None)
    beside = [number] if number in numbers.values() else [n for n in (older, newer) if n]
    digits = 2 if number >= (1,) else 3  # a line is 3.9 or 0.10.2
    line = [other for other in beside if other[:digits] == number[:digits]]
    close = [candidate for candidate in names if numbers[candidate] in (line or beside)]
    return _hint(close, names)


def _number(name: str) -> tuple[int, ...]:
    """Return a release's numbers: ``3.9.2-zk`` -> ``(3, 9, 2)``; empty if the name has none."""
    version = name.partition("-")[0]
    return tuple(map(int, version.split("."))) if _VERSION.fullmatch(version) else ()


def _hint(close: list[str], names: list[str]) -> str:
    suggestion = f"Did you mean {' or '.join(close)}? " if close else ""
    return f"{suggestion}There are: {', '.join(names) or 'none'}."

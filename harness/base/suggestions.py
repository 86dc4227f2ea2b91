"""Hints for misspelt names."""

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, candidates: Iterable[str]) -> str:
    """One sentence that names what was probably meant, and everything there is."""
    names = list(candidates)
    longer = [candidate for candidate in names if name and candidate.startswith(name)]
    close = longer[:3] or get_close_matches(name, names, n=3, cutoff=0.4)
    suggestion = f"Did you mean {' or '.join(close)}? " if close else ""
    return f"{suggestion}There are: {', '.join(names) or 'none'}."

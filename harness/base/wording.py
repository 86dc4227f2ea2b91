"""Numbers and lists in sentences and in commands, always written in the same way."""

from collections.abc import Iterable
from decimal import Decimal


def count(number: int, singular: str, plural: str | None = None) -> str:
    """Return ``1 record``, ``1,024 records``."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def joined(words: Iterable[str]) -> str:
    """Return ``a``, ``a and b``, ``a, b and c``; an empty text without words."""
    *first, last = list(words) or [""]
    return f"{', '.join(first)} and {last}" if first else last


def exact(number: float) -> str:
    """Return the shortest decimal without an exponent that equals the number."""
    return format(Decimal(repr(number)), "f").removesuffix(".0")

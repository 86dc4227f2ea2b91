"""Numbers and lists as text, for sentences and commands."""

from collections.abc import Iterable
from decimal import Decimal


def count(number: int, singular: str, plural: str | None = None) -> str:
    """Return ``1 record``, ``1,024 records``."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def joined(words: Iterable[str]) -> str:
    """Return ``a``, ``a and b`` or ``a, b and c``. Without words, return an empty text."""
    *first, last = list(words) or [""]
    return f"{', '.join(first)} and {last}" if first else last


def exact(number: float) -> str:
    """Return the shortest decimal without an exponent that equals the number."""
    return format(Decimal(repr(number)), "f").removesuffix(".0")

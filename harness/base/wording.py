"""Numbers and lists as text, for sentences and commands."""

from collections.abc import Iterable
from decimal import Decimal


def count(number: int, singular: str, plural: str | None = None) -> str:
    """Return ``1 record``, ``1,024 records``."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def joined(words: Iterable[str]) -> str:
    """Return ``a``, ``a and b`` or ``a, b and c``; an empty text without words."""
    *first, last = list(words) or [""]
    return f"{', '.join(first)} and {last}" if first else last


def exact(number: float) -> str:
    """Return the number's shortest decimal without an exponent: ``1e-07`` -> ``0.0000001``."""
    return format(Decimal(repr(number)), "f").removesuffix(".0")

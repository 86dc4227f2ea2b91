"""Numbers in sentences, written in one way."""


def count(number: int, singular: str, plural: str | None = None) -> str:
    """Return ``1 record``, ``1,024 records``."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"

"""Numbers in sentences, written in one way."""


def count(number: int, one: str, many: str | None = None) -> str:
    """Return ``1 record``, ``1,024 records``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"

"""Parse sentences of runs up to release 0.2, which recorded some values only as text."""

import ast
import re
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

_Value: TypeAlias = int | tuple[int | str, ...]
_REMOVED: Final = re.compile(
    r"(?P<topic>[\w.-]+)-(?P<partition>\d+) lost (?P<first>\d+) up to (?P<end>\d+)"
)
_STEP: Final = re.compile(r"step (\d+) of \d+: ")
_SEEN: Final = re.compile(r"last seen: (\{.*\})")
_REPLICA: Final = re.compile(r"(.*) of (\d)")
_BROKER: Final = re.compile(r"\bbroker (\d+)", re.IGNORECASE)


def removed(says: str) -> list[dict[str, Any]]:
    """Return the removed offsets in a fault's sentence, in the form of ``history.REMOVED``."""
    return [
        {
            "topic": match["topic"],
            "partition": int(match["partition"]),
            "first": int(match["first"]),
            "end": int(match["end"]),
        }
        for match in _REMOVED.finditer(says)
    ]


def step(says: str) -> int | None:
    """Return the number of the schedule's step in a note or a problem; None without a step."""
    match = _STEP.match(says)
    return int(match[1]) if match else None


def without_step(says: str) -> str:
    """Return a problem's sentence without the step's number at its start."""
    return _STEP.sub("", says)


def differences(problem: str) -> list[tuple[str, int | None, _Value, _Value]]:
    """Return the differences in a sentence: (field, replica or None, observed, expected value)."""
    match = _SEEN.search(problem)
    try:
        seen = ast.literal_eval(match[1]) if match else None
    except (ValueError, SyntaxError):
        seen = None
    if not isinstance(seen, Mapping):
        return []
    return [_difference(str(what), str(text)) for what, text in seen.items()]


def _difference(what: str, text: str) -> tuple[str, int | None, _Value, _Value]:
    seen, expected = map(_value, text.split(" instead of ", 1))
    match = _REPLICA.fullmatch(what)
    return (match[1], int(match[2]), seen, expected) if match else (what, None, seen, expected)


def _value(text: str) -> _Value:
    value = ast.literal_eval(text)
    return tuple(value) if isinstance(value, list) else value


def broker(*sentences: str) -> int | None:
    """Return the first broker id in these sentences; None if no sentence names a broker."""
    matches = (_BROKER.search(says) for says in sentences)
    return next((int(match[1]) for match in matches if match), None)

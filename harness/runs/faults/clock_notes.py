"""Notes behind a broker's log lines: how far its clock was ahead of this machine's clock."""

import re
from typing import Final

_NOTE: Final = re.compile(r" \(by a clock (?P<ahead>-?[\d.]+) s ahead\)$")
_SECOND_NS: Final = 1_000_000_000
CLOCK_READ_NS: Final = 2 * _SECOND_NS
"""How long after a change a broker may still show its earlier clock."""


def clock_note(ahead_ns: int) -> str:
    """Return the note for a line; empty if the clock was right."""
    return f" (by a clock {ahead_ns / _SECOND_NS:g} s ahead)" if ahead_ns else ""


def ahead_ns(line: str) -> int:
    """Return how far the clock of a line was ahead; 0 without a note."""
    note = _NOTE.search(line)
    return round(float(note["ahead"]) * _SECOND_NS) if note else 0

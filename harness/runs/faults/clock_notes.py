"""The note at a broker's log line: how far the broker's clock was ahead of this machine's."""

import re
from typing import Final

_NOTE: Final = re.compile(r" \(by a clock (?P<ahead>-?[\d.]+) s ahead\)$")
_SECOND_NS: Final = 1_000_000_000
CLOCK_READ_NS: Final = 2 * _SECOND_NS
"""For this long after a change, a broker may still use its previous time."""


def clock_note(ahead_ns: int) -> str:
    """Return the note for a log line; empty if the broker's clock was correct."""
    return f" (by a clock {ahead_ns / _SECOND_NS:g} s ahead)" if ahead_ns else ""


def ahead_ns(line: str) -> int:
    """Return by how many ns the clock of a log line was ahead; 0 without a note."""
    note = _NOTE.search(line)
    return round(float(note["ahead"]) * _SECOND_NS) if note else 0

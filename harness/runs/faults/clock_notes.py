"""The note in a broker's log line: by how much the broker's clock was ahead of this machine's."""

import re
from typing import Final

_NOTE: Final = re.compile(r" \(by a clock (?P<ahead>-?[\d.]+) s ahead\)$")
_SECOND_NS: Final = 1_000_000_000
CLOCK_READ_NS: Final = 2 * _SECOND_NS
"""After a clock changes, a broker may use the previous time for this many nanoseconds."""


def clock_note(ahead_ns: int) -> str:
    """Return the note for a log line. Without a clock fault, return an empty text."""
    return f" (by a clock {ahead_ns / _SECOND_NS:g} s ahead)" if ahead_ns else ""


def ahead_ns(line: str) -> int:
    """Return by how many ns the broker's clock was ahead at a log line; 0 without a note."""
    note = _NOTE.search(line)
    return round(float(note["ahead"]) * _SECOND_NS) if note else 0

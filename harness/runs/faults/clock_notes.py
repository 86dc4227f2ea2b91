"""A note at a broker's log line: by how much the broker's clock was ahead of this machine's."""

import re
from typing import Final

_NOTE: Final = re.compile(r" \(by a clock (?P<ahead>-?[\d.]+) s ahead\)$")
_SECOND_NS: Final = 1_000_000_000
CLOCK_READ_NS: Final = 2 * _SECOND_NS
"""After a clock changes, a broker may use the previous time for this many nanoseconds."""


def clock_note(ahead_ns: int) -> str:
    """Return a note such as `` (by a clock 60 s ahead)``; empty if the clock was not moved."""
    return f" (by a clock {ahead_ns / _SECOND_NS:g} s ahead)" if ahead_ns else ""


def ahead_ns(line: str) -> int:
    """Return the ns in a log line's note; 0 if the line has no note."""
    note = _NOTE.search(line)
    return round(float(note["ahead"]) * _SECOND_NS) if note else 0

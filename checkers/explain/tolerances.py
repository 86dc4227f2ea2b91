"""Tolerances of explanations: how far apart the times of related events may be.

A broker's log, the observer and the clients see one event at different times. Each value is a
little more than the longest difference that was observed in soaks (docs/results.md).
"""

from dataclasses import dataclass
from typing import Final

MS: Final = 1_000_000
SECOND: Final = 1000 * MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerances:
    """The longest times between related events, in nanoseconds.

    Attributes:
        look: between two observations of one broker, if the machine is not too busy.
        log: between an event and its line in a broker's or a client's log.
        deposed: how long a running leader may not know that it is deposed; longer if it was
            observed to follow only later, as on a busy machine.
        client: how long after a change a client may still send to the old leader.
        unread: how long a busy broker may leave the requests of a connection unread.
        backlog: how long a broker without CPU time may do so, if the order of requests shows it.
        outage: how long before and after a time a fault must be in effect, so that it was certainly
            in effect at that time.
    """

    look: int = 250 * MS
    log: int = SECOND
    deposed: int = 2 * SECOND
    client: int = 6 * SECOND
    unread: int = 2 * SECOND
    backlog: int = 12 * SECOND
    outage: int = 2 * SECOND


WITHIN: Final = Tolerances()

"""Tolerances of explanations: how far apart the times of events may be that belong together.

A broker's log, the observer and the clients see one event at different times. Each value is a
little more than the longest difference that was observed in soaks (docs/results.md).
"""

from dataclasses import dataclass
from typing import Final

MS: Final = 1_000_000
SECOND: Final = 1000 * MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerances:
    """Times in nanoseconds.

    Attributes:
        look: between two observations of one broker, if the machine can keep up.
        log: between an event and its line in a broker's or a client's log.
        deposed: within which a running leader may not know that it is deposed; longer if it was
            observed to follow only then, as on a busy machine.
        client: after a change in which a client may still send to the old leader.
        unread: for which a busy broker may leave the requests of a connection unread.
        backlog: the same for a broker that starves, if the order of requests shows it.
        outage: that a fault must reach beyond a time on both sides to be surely in effect.
    """

    look: int = 250 * MS
    log: int = SECOND
    deposed: int = 2 * SECOND
    client: int = 6 * SECOND
    unread: int = 2 * SECOND
    backlog: int = 12 * SECOND
    outage: int = 2 * SECOND


WITHIN: Final = Tolerances()

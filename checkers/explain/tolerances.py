"""Tolerances of explanations: the greatest differences between the times of related events.

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
        look: longest time between two observations of one broker, if the machine is not overloaded.
        log: longest time between an event and its line in a broker's or a client's log.
        deposed: longest time from an election until the old leader knows of it, unless the old
            leader's log shows a longer time.
        client: longest time from a change of leader until clients no longer send to the old leader.
        unread: longest time from a request's arrival at a busy broker until the broker reads the
            request.
        backlog: the same time for a broker without CPU time. It is used only if the order of the
            requests shows this state.
        outage: longest time by which a fault's effects may begin late or end early.
    """

    look: int = 250 * MS
    log: int = SECOND
    deposed: int = 2 * SECOND
    client: int = 6 * SECOND
    unread: int = 2 * SECOND
    backlog: int = 12 * SECOND
    outage: int = 2 * SECOND


WITHIN: Final = Tolerances()

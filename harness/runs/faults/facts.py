"""Facts about each fault that the judge and the reports need.

The judge finds only fault names in ``events/faults``. A developer of a new fault adds its function
to ``nemesis.faults``, and a line here if one of these facts is true.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultFacts:
    """The facts about one fault.

    Attributes:
        state: word for the state of a broker that the fault stops, pauses or isolates.
        silent: whether the broker responds to no request until the fault is healed.
        idle: whether the broker's process does not run until the fault is healed.
        frozen: whether the process stops without an exit. When it continues, the broker may still
            act as a leader.
        killed: whether a signal or a command kills the broker's process.
        empties: whether the fault removes records of every topic from the broker's disk.
        of_message: whether the fault affects single messages.
        moves_clock: whether the fault moves the wall clock of its broker, or else of the clients.
        withholds: whether the fault withholds responses from the client that its row names.
        deletes: whether Kafka deletes records on all replicas, at the request of a user.
    """

    state: str = ""
    silent: bool = False
    idle: bool = False
    frozen: bool = False
    killed: bool = False
    empties: bool = False
    of_message: bool = False
    moves_clock: bool = False
    withholds: bool = False
    deletes: bool = False


_NOTHING: Final = FaultFacts()
_OF_CLIENT: Final = FaultFacts(withholds=True)
_OF_CLOCK: Final = FaultFacts(moves_clock=True)
_OF_MESSAGE: Final = FaultFacts(of_message=True)
_FACTS: Final[Mapping[str, FaultFacts]] = {
    "kill": FaultFacts(state="killed", silent=True, idle=True, killed=True),
    "crash-loop": FaultFacts(killed=True),
    "pause": FaultFacts(state="paused", silent=True, idle=True, frozen=True),
    "jvm-pause": FaultFacts(state="paused", silent=True, idle=True, frozen=True),
    "zombie": FaultFacts(idle=True, frozen=True),
    "cancel-reassign": FaultFacts(idle=True, frozen=True),
    "stop": FaultFacts(state="stopped", silent=True),
    "isolate": FaultFacts(state="isolated"),
    "partition": FaultFacts(state="cut off"),
    "power-failure": FaultFacts(state="without power", silent=True, idle=True, empties=True),
    "wipe": FaultFacts(idle=True, empties=True),
    "segment-deleted": FaultFacts(idle=True),
    "files-lost": FaultFacts(idle=True),
    "disk-lies": FaultFacts(state="without power", silent=True, idle=True, empties=True),
    "disk-restored": FaultFacts(empties=True),
    "bit-flip": FaultFacts(idle=True),
    "cut-client": _OF_CLIENT,
    "lose-answers": _OF_CLIENT,
    "misroute-client": _OF_CLIENT,
    "clock-bump": _OF_CLOCK,
    "clock-strobe": _OF_CLOCK,
    "clock-drift": _OF_CLOCK,
    "client-clock-bump": _OF_CLOCK,
    "delete-records": FaultFacts(deletes=True),
    "hold-message": _OF_MESSAGE,
    "drop-message": _OF_MESSAGE,
    "repeat-message": _OF_MESSAGE,
    "delay-message": _OF_MESSAGE,
    "refuse-message": _OF_MESSAGE,
}

STATES: Final = frozenset(facts.state for facts in _FACTS.values() if facts.state)
"""The words for the state of a broker during a fault."""


def facts_of(fault: str) -> FaultFacts:
    """Return the facts about a fault. All facts are false for an unknown fault."""
    return _FACTS.get(fault, _NOTHING)

"""A schedule as data: faults with a start and a length each, which may lie apart or overlap.

``sequence``, ``overlap`` and ``stagger`` make larger schedules of smaller ones. A schedule is a
tuple of steps and nothing else, so it can be read, written by hand, cut to pieces and put together.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

ROLLING: Final = "rolling-in-sync"
"""The fault of ``highwater rolling``: every broker restarted, as an operator does it."""

RESTARTED: Final = "was restarted"
"""The end of its note about each broker."""

RENAMED_FAULTS: Final[Mapping[str, str]] = {
    "mute": "partition-outbound",
    "deafen": "partition-inbound",
    "halves": "partition-halves",
    "ring": "partition-majorities-ring",
    "recycle": "crash-loop",
}
"""Names that faults had up to 0.1: still read, in plans and on the command line."""


def current_fault(word: str) -> str:
    """Return a word of ``--nemesis`` or ``--budget`` with the name that its fault has now."""
    name = re.split("[@=]", word, maxsplit=1)[0]
    return RENAMED_FAULTS.get(name, name) + word[len(name) :]


class FaultStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One fault on one target, from a moment on and for a while.

    Attributes:
        fault: name of a registered fault.
        at_s: seconds from the moment at which every replica was in sync to the fault.
        lasts_s: seconds from when it has taken effect to its healing.
        target: a broker's id, or a word that is looked up in that moment, such as ``leader``; the
            name of a client, or a word for any; of no meaning for other faults.
        partition: of which the target is the leader, and that the fault is about.
        choice: 0 up to 1; which of several candidates, and what else a fault leaves to chance.
        message: of a fault of messages, the kind of message in words (docs/wire.md).
    """

    fault: str
    at_s: float
    lasts_s: float = 0.0
    target: str = "any"
    partition: int = 0
    choice: float = 0.0
    message: str = ""

    def __post_init__(self) -> None:
        """Give the fault the name that it has now."""
        msgspec.structs.force_setattr(self, "fault", current_fault(self.fault))

    @property
    def ends_s(self) -> float:
        """When it is healed, seconds like ``at_s``."""
        return self.at_s + self.lasts_s


Steps: TypeAlias = tuple[FaultStep, ...]


def end_of(steps: Sequence[FaultStep]) -> float:
    """When the last step is healed, in seconds; 0 of none."""
    return max((step.ends_s for step in steps), default=0.0)


def later(steps: Sequence[FaultStep], by_s: float) -> Steps:
    """Return the same steps, this many seconds later, but none before the beginning."""
    return tuple(
        msgspec.structs.replace(step, at_s=round(max(0.0, step.at_s + by_s), 3)) for step in steps
    )


def in_order(steps: Sequence[FaultStep]) -> Steps:
    """Return the steps by their start."""
    return tuple(sorted(steps, key=lambda step: step.at_s))


def sequence(*parts: Sequence[FaultStep], gap_s: float = 1.0) -> Steps:
    """One schedule after the other, with this many seconds between."""
    done: list[FaultStep] = []
    for part in parts:
        begins = end_of(done) + gap_s if done else 0.0
        done += later(part, begins)
    return in_order(done)


def overlap(*parts: Sequence[FaultStep]) -> Steps:
    """All schedules from the same moment on."""
    return in_order([step for part in parts for step in part])


def stagger(*parts: Sequence[FaultStep], every_s: float) -> Steps:
    """One schedule every this many seconds, whether or not the one before has ended."""
    return overlap(*(later(part, number * every_s) for number, part in enumerate(parts)))

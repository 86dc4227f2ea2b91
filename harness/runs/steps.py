"""A schedule as data: a list of faults, each with a start and a duration. Faults may overlap.

``sequence``, ``overlap`` and ``stagger`` combine schedules. A schedule is a tuple of steps, which
users can read and write.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

ROLLING: Final = "rolling-in-sync"
"""The fault of ``highwater rolling``: every broker is restarted, one after another."""

RESTARTED: Final = "was restarted"
"""The last words of the note that the fault ``rolling-in-sync`` writes about each broker."""

RENAMED_FAULTS: Final[Mapping[str, str]] = {
    "mute": "partition-outbound",
    "deafen": "partition-inbound",
    "halves": "partition-halves",
    "ring": "partition-majorities-ring",
    "recycle": "crash-loop",
}
"""Names of faults up to release 0.1. Plans and the command line still accept these names."""


def fault_in(word: str) -> str:
    """Return the fault in a word of ``--nemesis`` or ``--budget``: ``kill@leader=3`` -> kill."""
    return re.split("[@=]", word, maxsplit=1)[0]


def current_fault(word: str) -> str:
    """Replace a former fault name in a word of ``--nemesis`` or ``--budget``; return the word."""
    name = fault_in(word)
    return RENAMED_FAULTS.get(name, name) + word[len(name) :]


class FaultStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One fault on one target, with its start and its duration.

    Attributes:
        fault: name of a registered fault.
        at_s: start of the fault, in seconds after every replica is in sync.
        lasts_s: seconds from the fault's effect to its healing.
        target: a broker's id, or a word such as ``leader``. When the fault starts, the harness
            chooses the broker for the word. For client faults, a client's name or a word. Other
            faults ignore the target.
        partition: the partition of the fault. The target ``leader`` means the leader of this
            partition.
        choice: a number from 0 to 1, which chooses among candidates and decides other random
            details.
        message: for faults on messages, the kind of message as text (docs/wire.md).
    """

    fault: str
    at_s: float
    lasts_s: float = 0.0
    target: str = "any"
    partition: int = 0
    choice: float = 0.0
    message: str = ""

    def __post_init__(self) -> None:
        """Replace a former name of the fault with its current name."""
        msgspec.structs.force_setattr(self, "fault", current_fault(self.fault))

    @property
    def ends_s(self) -> float:
        """Time of the healing, in seconds after every replica is in sync, like ``at_s``."""
        return self.at_s + self.lasts_s


Steps: TypeAlias = tuple[FaultStep, ...]


def end_of(steps: Sequence[FaultStep]) -> float:
    """Return the time in seconds at which the last fault is healed; 0 without steps."""
    return max((step.ends_s for step in steps), default=0.0)


def later(steps: Sequence[FaultStep], by_s: float) -> Steps:
    """Return the same steps ``by_s`` seconds later. No step may start before second 0."""
    return tuple(
        msgspec.structs.replace(step, at_s=round(max(0.0, step.at_s + by_s), 3)) for step in steps
    )


def in_order(steps: Sequence[FaultStep]) -> Steps:
    """Return the steps sorted by their start."""
    return tuple(sorted(steps, key=lambda step: step.at_s))


def sequence(*parts: Sequence[FaultStep], gap_s: float = 1.0) -> Steps:
    """Join schedules: each starts ``gap_s`` seconds after the end of the previous schedule."""
    done: list[FaultStep] = []
    for part in parts:
        begins = end_of(done) + gap_s if done else 0.0
        done += later(part, begins)
    return in_order(done)


def overlap(*parts: Sequence[FaultStep]) -> Steps:
    """Join schedules that start at the same time."""
    return in_order([step for part in parts for step in part])


def stagger(*parts: Sequence[FaultStep], every_s: float) -> Steps:
    """Join schedules: one starts every ``every_s`` seconds. They may overlap."""
    return overlap(*(later(part, number * every_s) for number, part in enumerate(parts)))

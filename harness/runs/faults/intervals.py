"""The faults of a run, each from injection to healing, read from ``events/faults``."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from highwater.harness.runs.faults.effects import removed_offsets, step_of
from highwater.harness.runs.faults.facts import facts_of
from highwater.harness.runs.faults.times import Strike, Strikes, strike_of

NEVER: Final = (1 << 63) - 1
"""A time in nanoseconds after the end of any run."""

_MESSAGE: Final = re.compile(r"(?:to be|no longer) \w+: (.+)|the message (.+) is (?:healed|mended)")
"""A pattern for the message's name in a row about a fault on a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultInterval:
    """One fault from injection to healing, or a note.

    Attributes:
        broker: None for a fault without a broker.
        start_ns: time at which the schedule began to inject the fault. If this is unknown, the time
            at which the fault had taken effect.
        end_ns: time at which the healing was complete; None if the fault was never healed.
        healing_ns: time at which the healing began; None if unknown.
        says: the fault's effect as a sentence.
        healed: the sentence about the healing.
        row: the row of ``events/faults``, with the offsets that the fault removed from disks.
    """

    name: str
    broker: int | None
    start_ns: int
    end_ns: int | None
    says: str
    healing_ns: int | None = None
    healed: str = ""
    row: Mapping[str, Any] = field(default_factory=dict)

    @property
    def past(self) -> str:
        """The state of a broker under this fault, such as ``paused``; else the fault's name."""
        return facts_of(self.name).state or self.name

    @property
    def until_ns(self) -> int:
        """The time at which the fault was healed; ``NEVER`` if it was not healed."""
        return NEVER if self.end_ns is None else self.end_ns

    @property
    def sure_until_ns(self) -> int:
        """The time until which the fault was certainly active: the start of its healing."""
        return min(self.until_ns, self.healing_ns or NEVER)

    @property
    def effect_ns(self) -> int:
        """The time at which the fault had taken full effect. It may affect messages earlier."""
        return int(self.row.get("time_ns", self.start_ns))

    @property
    def step(self) -> int | None:
        """The number of the model schedule's step in a note; None without a step."""
        return step_of(self.row)

    def removed_from(self, topic: str, partition: int) -> Iterator[range]:
        """Yield the offsets of a partition that the fault removed from its broker's log."""
        return removed_offsets(self.row, topic, partition)


def fault_intervals(
    rows: Iterable[Mapping[str, Any]], strikes: Strikes
) -> tuple[list[FaultInterval], list[FaultInterval]]:
    """Pair each injection with its healing. Return (faults in order of injection, notes).

    A broker may have a fault, and at the same time the relay may have a fault on its connections. A
    kill of a paused broker ends the pause. ``rows`` come from ``events/faults``.
    """
    faults: list[FaultInterval] = []
    notes: list[FaultInterval] = []
    open_: dict[object, int] = {}
    for row in sorted(rows, key=lambda row: row["time_ns"]):
        name, broker, time_ns = row["fault"], row["broker"], row["time_ns"]
        inject = row["phase"] == "inject"
        strike = strike_of(strikes, name, broker, time_ns) if inject else Strike(time_ns)
        fault = FaultInterval(
            name=name,
            broker=broker,
            start_ns=strike.begun_ns,
            end_ns=None,
            healing_ns=strike.healing_ns,
            says=row["says"],
            row=row,
        )
        if row["phase"] == "note":
            notes.append(fault)
            continue
        target = _target(row)
        if inject and name == "kill":
            target = (broker, "pause") if (broker, "pause") in open_ else target
        if (before := open_.pop(target, None)) is not None:
            healed = row["says"] if row["phase"] == "heal" else ""
            faults[before] = replace(faults[before], end_ns=time_ns, healed=healed)
        if row["phase"] == "inject":
            open_[_target(row)] = len(faults)
            faults.append(fault)
    return faults, notes


def _target(row: Mapping[str, Any]) -> object:
    """Return a key that is the same for the injection and the healing of one fault."""
    if row["broker"] is not None:
        return row["broker"], row["fault"]
    message = _MESSAGE.fullmatch(row["says"]) if facts_of(row["fault"]).of_message else None
    return row["fault"], message and (message[1] or message[2])

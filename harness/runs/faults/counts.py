"""The number of faults that a run injected, from its recorded events.

A schedule may inject fewer faults than planned, or none.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from highwater.harness.base.wording import count
from highwater.harness.runs.faults.effects import step_of
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.steps import RESTARTED, ROLLING, fault_in

_NS: Final = 1_000_000_000
_STEP: Final = ("step", "note")

_KINDS_MAX: Final = 6
_WHOLE_S: Final = 10
_SHORT_S: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultCounts:
    """The number of injections of each fault in one run.

    Attributes:
        faults: fault name to number of injections, in the order of the first injections.
        steps: number of executed steps of the model's schedule.
        seconds: time from the first fault to the end of the last fault.
        restarted: number of brokers that a rolling restart restarted.
        rolled_s: start and end of the rolling restart, in seconds of the run; None without one.
    """

    faults: Mapping[str, int]
    steps: int = 0
    seconds: float = 0.0
    restarted: int = 0
    rolled_s: tuple[float, float] | None = None

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, Any]]) -> Self:
        """Count the faults in rows of ``events/faults``; the rows are in order of time."""
        notes = [row for row in rows if (row["fault"], row["phase"]) == _STEP]
        injected = [row["fault"] for row in rows if row["phase"] == "inject"]
        rolled = [row for row in rows if row["fault"] == ROLLING and row["phase"] != "heal"]
        timed = [row for row in rows if row["phase"] != "note" or row["fault"] == ROLLING]
        times = [row["time_ns"] or 0 for row in timed]
        restarts = [row for row in rolled if str(row["says"]).endswith(RESTARTED)]
        return cls(
            faults=Counter(map(str, injected)),
            steps=sum(step_of(row) is not None for row in notes),
            seconds=(max(times) - min(times)) / _NS if times else 0.0,
            restarted=len(restarts),
            rolled_s=(rolled[0]["time_ns"] / _NS, rolled[-1]["time_ns"] / _NS)
            if restarts
            else None,
        )

    @property
    def nothing(self) -> bool:
        """True if no fault was injected, no step was executed and no broker was restarted."""
        return not (self.faults or self.steps or self.restarted)

    @property
    def count(self) -> int:
        """The number of faults that were injected."""
        return sum(self.faults.values())

    def missing(self, plan: Plan) -> list[str]:
        """Return the names of planned faults that were never injected."""
        names = dict.fromkeys(map(fault_in, plan.nemesis))
        return [name for name in names if name not in self.faults]

    @property
    def counted(self) -> str:
        """The faults with their counts, such as ``kill 3 times, pause once``."""
        faults = {
            name: number
            for name, number in self.faults.items()
            if not (name == ROLLING and self.restarted)
        }
        kinds = list(faults.items())[:_KINDS_MAX]
        words = [f"{count(self.steps, 'step')} taken"] if self.steps else []
        if self.restarted:
            words.append(f"{count(self.restarted, 'broker')} restarted in order")
        words += [f"{name} {_times(number)}" for name, number in kinds]
        more = sum(faults.values()) - sum(number for _, number in kinds)
        words += [f"{count(more, 'fault')} of other kinds"] if more else []
        return ", ".join(words) or "nothing"

    @property
    def says(self) -> str:
        """The faults with counts and duration, such as ``kill 3 times, pause once, over 12 s``."""
        if self.rolled_s and not self.faults.keys() - {ROLLING}:
            first, last = self.rolled_s
            return f"{self.counted}, from {first:.0f} s to {last:.0f} s of the run"
        if self.seconds < _SHORT_S:
            return self.counted
        return f"{self.counted}, over {self.seconds:.{0 if self.seconds >= _WHOLE_S else 1}f} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """The events of a run in a few words: ``kill 3 times (planned: kill at random for 30 s)``."""

    value: str
    means: str

    @property
    def says(self) -> str:
        """The value and its meaning as one line of text."""
        return f"{self.value} ({self.means})"

    @classmethod
    def of(cls, plan: Plan, fault_counts: FaultCounts | None) -> Self:
        """Describe the events; ``fault_counts`` is None if ``events/faults`` cannot be read."""
        if plan.calm and (fault_counts is None or fault_counts.nothing):
            return cls(value="nothing", means="a calm run")
        if fault_counts is not None and fault_counts.nothing:
            return cls(value="nothing", means=f"no fault was injected; planned: {requested(plan)}")
        scripted = plan.story or (plan.schedule and str(plan.schedule.get("name", "schedule")))
        if scripted:
            means = "a story" if plan.story else "a replay of the model's schedule"
            return cls(
                value=scripted, means=f"{means}: {fault_counts.says}" if fault_counts else means
            )
        return cls(
            value=fault_counts.says if fault_counts else "not known",
            means=f"planned: {requested(plan)}",
        )


def title(plan: Plan, fault_counts: FaultCounts | None) -> str:
    """Return a short text about the faults, for titles: ``kill 3 times``, ``loss``, ``calm``."""
    scripted = plan.story or plan.schedule is not None
    if fault_counts is not None and fault_counts.nothing and not plan.calm:
        return "no fault was injected"
    if fault_counts is None or fault_counts.nothing or scripted:
        return plan.happens.replace(",", ", ")
    return fault_counts.counted


def requested(plan: Plan) -> str:
    """Return a plan's schedule as text: ``kill, pause at random for 30 s``."""
    if plan.story:
        return f"the story {plan.story}"
    if plan.schedule is not None:
        return "a replay of the model's schedule"
    if plan.rolls:
        return "every broker restarted in order"
    if plan.steps:
        return f"{count(len(plan.steps), 'step')}, one by one"
    if plan.nemesis:
        return f"{', '.join(plan.nemesis)} at random for {plan.duration_s:g} s"
    return "nothing"


def _times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number:,} times")

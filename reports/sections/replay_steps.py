"""Compare the predicted and the observed state after each step of a model's schedule.

A replay executes a step, polls the brokers until they have the predicted state
(``nemesis.model_replay.step_player``), and records a note. So a step with a note was observed as
predicted. For a step without a note, the run's status contains the differences.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from highwater.checkers.model.protocol.step_sentences import NAMES
from highwater.checkers.model.schedules.schedule import Expect, Schedule
from highwater.harness.base.errors import UsageError
from highwater.harness.runs.faults import legacy_sentences
from highwater.harness.runs.missed_step import StateDifference, StateValue
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.store import RunStatus
from highwater.reports.run_evidence import RunObservations

Word = Literal["as predicted", "otherwise", "not taken"]

_BROKERS: Final = frozenset(("leader", "ISR", "alive"))
"""The properties whose values are replica numbers; LEO and HW are offsets instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayStep:
    """One step of a schedule.

    Attributes:
        predicted: the predicted state as short texts; empty without a prediction.
        seen: a text about the observed state if it differs from the prediction; else empty.
        time_ns: the time at which the complete prediction was observed, or None.
    """

    number: int
    says: str
    predicted: tuple[str, ...]
    word: Word
    seen: str = ""
    time_ns: int | None = None


def foreseen(
    plan: Plan, status: RunStatus | None, evidence: RunObservations
) -> tuple[ReplayStep, ...]:
    """Return the steps of a replay's schedule; empty if the plan has no readable schedule."""
    if plan.schedule is None:
        return ()
    try:
        schedule = Schedule.from_plain(plan.schedule)
    except UsageError:
        return ()
    noted = {step.step: step.start_ns for step in evidence.steps if step.step is not None}
    return tuple(_steps(schedule, noted, dict(_missed(status)) if status else {}))


def cast(plan: Plan, evidence: RunObservations) -> str:
    """Return ``A is broker 1, B is broker 2``; empty if the first ISR may have another order.

    Normally the first ISR has the order of the replica assignment. The schedule's ``order`` has the
    replicas of the model in this order.
    """
    rows = [row for observed in evidence.partitions.values() for row in observed.leaderships[:1]]
    order = (plan.schedule or {}).get("order", ())
    if not rows or len(rows[0].isr) != len(order) or rows[0].isr[0] != rows[0].leader:
        return ""
    pairs = sorted(zip(order, rows[0].isr, strict=True))
    return ", ".join(f"{NAMES[number]} is broker {broker}" for number, broker in pairs)


def _missed(status: RunStatus) -> Iterator[tuple[int, str]]:
    """Yield each step that brokers did not follow, with the differences or the problem."""
    for problem in status.problems:
        if (number := legacy_sentences.step(problem)) is None:
            continue
        if status.missed is not None and status.missed.number == number:
            differences = tuple(status.missed.differences)
        else:  # a run of Highwater 0.2 or earlier
            differences = tuple(StateDifference(*d) for d in legacy_sentences.differences(problem))
        named = "; ".join(map(_named, differences))
        yield number, named or legacy_sentences.without_step(problem)


def _steps(
    schedule: Schedule, noted: Mapping[int, int], missed: Mapping[int, str]
) -> Iterator[ReplayStep]:
    for number, step in enumerate(schedule.steps, start=1):
        time_ns, problem = noted.get(number), missed.get(number, "")
        is_noted = time_ns is not None
        word: Word = "as predicted" if is_noted else "otherwise" if problem else "not taken"
        yield ReplayStep(
            number=number,
            says=step.says or f"{step.action} {step.record or ''}".strip(),
            predicted=tuple(_predicted(step.expect)),
            word=word,
            seen=problem if word == "otherwise" else "",
            time_ns=time_ns,
        )


def _predicted(expect: Expect) -> Iterator[str]:
    if expect.leader is not None:
        yield f"{_name(expect.leader)} leads"
    if expect.isr is not None:
        yield f"ISR {_names(expect.isr)}"
    for mark, values in (("LEO", expect.leo), ("HW", expect.hw), ("HW on disk", expect.hw_on_disk)):
        if values:
            values_text = ", ".join(f"{_name(b)} {value}" for b, value in sorted(values.items()))
            yield f"{mark} {values_text}"
    for what, records in (("acknowledged", expect.acked), ("refused", expect.refused)):
        if records is not None:
            yield f"{what} {' '.join(sorted(records)) or 'nothing'}"
    if expect.alive is not None:
        yield f"alive {_names(expect.alive)}"


def _named(difference: StateDifference) -> str:
    """Return a difference as text, with replica names instead of numbers."""
    whose = difference.what if difference.replica is None else f"{difference.what} of"
    name = "" if difference.replica is None else f" {_name(difference.replica)}"
    seen, expected = (
        _value(difference.what, value) for value in (difference.seen, difference.expected)
    )
    return f"{whose}{name} {seen} instead of {expected}"


def _value(what: str, value: StateValue) -> str:
    numbers = value if isinstance(value, tuple) else (value,)
    words = [
        _name(int(number))
        if what in _BROKERS and str(number).lstrip("-").isdecimal()
        else str(number)
        for number in numbers
    ]
    return f"[{', '.join(words)}]" if isinstance(value, tuple) else words[0]


def _name(number: int) -> str:
    return NAMES[number] if 0 <= number < len(NAMES) else "no broker"


def _names(numbers: Iterable[int]) -> str:
    return " ".join(_name(number) for number in sorted(numbers)) or "no broker"

"""The states a schedule predicts after each step, beside the states the brokers showed.

A replay takes a step, then polls the brokers until they show the state that the model predicts
(``nemesis.model_replay.step_player``), and only then notes the step. So a noted step was seen as
predicted at that time; for any other step the run's problem says what was seen instead.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from highwater.checkers.model.protocol.step_sentences import NAMES
from highwater.checkers.model.schedules.schedule import Expect, Schedule
from highwater.harness.base.errors import UsageError
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.store import RunStatus
from highwater.reports.observations import RunObservations

Word = Literal["as foretold", "otherwise", "not taken"]

_STEP: Final = re.compile(r"step (\d+) of \d+: ")
_SEEN: Final = re.compile(r"last seen: (\{.*\})")
_OF: Final = re.compile(r"\bof (\d)$")
_NUMBER: Final = re.compile(r"-?\d+")
_BROKERS: Final = frozenset(("leader", "ISR", "alive"))
"""What is told in numbers of replicas; LEO and HW are told in offsets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayStep:
    """One step of a schedule.

    Attributes:
        foretold: the predicted state, a clause each; empty where the step predicts nothing.
        seen: the state seen instead; empty if it was as predicted or the step was not taken.
        time_ns: when all of the prediction was seen; None if never.
    """

    number: int
    says: str
    foretold: tuple[str, ...]
    word: Word
    seen: str = ""
    time_ns: int | None = None


def foreseen(
    plan: Plan, status: RunStatus | None, evidence: RunObservations
) -> tuple[ReplayStep, ...]:
    """Return the steps of a run's schedule; empty without a readable schedule."""
    if plan.schedule is None:
        return ()
    try:
        schedule = Schedule.from_plain(plan.schedule)
    except UsageError:
        return ()
    noted = dict(_noted((step.says, step.start_ns) for step in evidence.steps))
    missed = dict(_noted((problem, problem) for problem in (status.problems if status else ())))
    return tuple(_steps(schedule, noted, missed))


def cast(plan: Plan, evidence: RunObservations) -> str:
    """Return ``A is broker 1, B is broker 2``; empty if the first ISR does not show it.

    The first ISR is in the order of the replica assignment, which the schedule's ``order`` lists.
    """
    rows = [row for scene in evidence.scenes.values() for row in scene.leaderships[:1]]
    order = (plan.schedule or {}).get("order", ())
    if not rows or len(rows[0].isr) != len(order) or rows[0].isr[0] != rows[0].leader:
        return ""
    pairs = sorted(zip(order, rows[0].isr, strict=True))
    return ", ".join(f"{NAMES[number]} is broker {broker}" for number, broker in pairs)


def _noted(events: Iterable[tuple[str, object]]) -> Iterator[tuple[int, object]]:
    for says, what in events:
        if match := _STEP.match(says):
            yield int(match[1]), what


def _steps(
    schedule: Schedule, noted: Mapping[int, object], missed: Mapping[int, object]
) -> Iterator[ReplayStep]:
    for number, step in enumerate(schedule.steps, start=1):
        time = noted.get(number)
        problem = str(missed.get(number, ""))
        word: Word = "as foretold" if time is not None else "otherwise" if problem else "not taken"
        yield ReplayStep(
            number=number,
            says=step.says or f"{step.action} {step.record or ''}".strip(),
            foretold=tuple(_foretold(step.expect)),
            word=word,
            seen=_instead(problem) if word == "otherwise" else "",
            time_ns=time if isinstance(time, int) else None,
        )


def _foretold(expect: Expect) -> Iterator[str]:
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


def _instead(problem: str) -> str:
    """Return the differences a missed step last saw, with names; else the problem as it is."""
    match = _SEEN.search(problem)
    try:
        seen = ast.literal_eval(match[1]) if match else None
    except (ValueError, SyntaxError):
        seen = None
    if not isinstance(seen, dict):
        return _STEP.sub("", problem)
    return "; ".join(
        f"{_whose(str(what))} {_values(str(what), str(v))}" for what, v in seen.items()
    )


def _whose(what: str) -> str:
    return _OF.sub(lambda match: f"of {_name(int(match[1]))}", what)


def _values(what: str, text: str) -> str:
    if what not in _BROKERS:
        return text
    return _NUMBER.sub(lambda match: _name(int(match[0])), text)


def _name(number: int) -> str:
    return NAMES[number] if 0 <= number < len(NAMES) else "nobody"


def _names(numbers: Iterable[int]) -> str:
    return " ".join(_name(number) for number in sorted(numbers)) or "nobody"

"""Compare the brokers' state after a step with the state that the schedule expects."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from highwater.checkers.model.schedules.schedule import Expect
from highwater.harness.runs.history import OK
from highwater.harness.runs.missed_step import StateDifference, StateDifferences, StateValue
from highwater.nemesis.context import ScheduleContext
from highwater.nemesis.stories.helpers import hw_on_disk


@dataclass(frozen=True, slots=True)
class ReplicaAssignment:
    """Maps brokers to the model's replica numbers."""

    brokers: Mapping[int, int]

    def number(self, broker: int) -> int:
        """Return the replica number of a broker; -1 for a broker without a replica."""
        return next((number for number, played in self.brokers.items() if played == broker), -1)


def differences(
    context: ScheduleContext, cast: ReplicaAssignment, expect: Expect, *, silent: Collection[int]
) -> StateDifferences:
    """Return the differences between the brokers' state and the expected state.

    Args:
        silent: replicas that cannot report LEO and HW, because they are paused or dead.

    Raises:
        UnreachableError: a broker that should respond did not.
    """
    seen = [
        *_controller(context, cast, expect),
        *_records(context, expect),
        *_replicas(context, cast, expect, silent),
    ]
    return StateDifferences(
        StateDifference(what, replica, _value(actual), _value(expected))
        for what, replica, expected, actual in seen
        if expected is not None and expected != actual
    )


Value: TypeAlias = int | Collection[int] | Collection[str] | None
Seen: TypeAlias = list[tuple[str, int | None, Value, Value]]
"""A compared property: its name, its replica, the expected value (None: any), the actual value."""


def _controller(context: ScheduleContext, cast: ReplicaAssignment, expect: Expect) -> Seen:
    seen: Seen = []
    if expect.leader is not None or expect.isr is not None:
        state = context.probe.partition(context.topic, context.partition)
        isr = frozenset(cast.number(broker) for broker in state.isr)
        seen += [
            ("leader", None, expect.leader, cast.number(state.leader)),
            ("ISR", None, expect.isr, isr),
        ]
    if expect.alive is not None:
        live = context.probe.live_brokers()
        alive = frozenset(number for number, broker in cast.brokers.items() if broker in live)
        seen.append(("alive", None, expect.alive, alive))
    return seen


def _records(context: ScheduleContext, expect: Expect) -> Seen:
    answers = {
        name: answer for name, answer in context.direct.answers.items() if answer is not None
    }
    acked = frozenset(name for name, answer in answers.items() if answer.outcome == OK)
    refused = frozenset(answers) - acked
    return [
        ("acknowledged", None, expect.acked, acked),
        ("refused", None, expect.refused, refused),
    ]


def _replicas(
    context: ScheduleContext, cast: ReplicaAssignment, expect: Expect, silent: Collection[int]
) -> Seen:
    seen: Seen = []
    leos, hws = expect.leo or {}, expect.hw or {}
    for number in sorted((set(leos) | set(hws)) - set(silent)):
        state = context.probe.replica(cast.brokers[number], context.topic, context.partition)
        seen.append(("LEO", number, leos.get(number), state.leo))
        seen.append(("HW", number, hws.get(number), state.hw))
    for number, hw in (expect.hw_on_disk or {}).items():
        disk = hw_on_disk(context, cast.brokers[number])
        seen.append(("HW on disk", number, hw, disk))
    return seen


def _value(value: Value) -> StateValue:
    """Return a value for comparisons: None becomes -1, and a collection becomes a sorted tuple."""
    if value is None or isinstance(value, int):
        return -1 if value is None else value
    return tuple(sorted(value))

"""Expectations of a schedule after a step, against what the brokers show."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from highwater.checkers.model.schedules.schedule import Expect
from highwater.harness.runs.history import OK
from highwater.nemesis.context import ScheduleContext
from highwater.nemesis.stories.helpers import hw_on_disk


@dataclass(frozen=True, slots=True)
class ReplicaAssignment:
    """The assignment of the model's replicas to brokers."""

    brokers: Mapping[int, int]

    def number(self, broker: int) -> int:
        """Return the replica of a broker; -1 for a broker without one."""
        return next((number for number, played in self.brokers.items() if played == broker), -1)


def differences(
    scene: ScheduleContext, cast: ReplicaAssignment, expect: Expect, *, silent: Collection[int]
) -> dict[str, str]:
    """Return differences between expected and actual state, each with the actual value.

    Args:
        silent: replicas that cannot be asked for LEO and HW, because they are frozen or dead.

    Raises:
        UnreachableError: a broker that should answer did not.
    """
    seen = [
        *_controller(scene, cast, expect),
        *_records(scene, expect),
        *_replicas(scene, cast, expect, silent),
    ]
    return {
        what: f"{_plain(seen_value)} instead of {_plain(expected)}"
        for what, expected, seen_value in seen
        if expected is not None and expected != seen_value
    }


Seen = list[tuple[str, object, object]]
"""Yield each property, its expected value (None: any), and its actual value."""


def _controller(scene: ScheduleContext, cast: ReplicaAssignment, expect: Expect) -> Seen:
    seen: Seen = []
    if expect.leader is not None or expect.isr is not None:
        state = scene.probe.partition(scene.topic, 0)
        isr = frozenset(cast.number(broker) for broker in state.isr)
        seen += [("leader", expect.leader, cast.number(state.leader)), ("ISR", expect.isr, isr)]
    if expect.alive is not None:
        live = scene.probe.live_brokers()
        alive = frozenset(number for number, broker in cast.brokers.items() if broker in live)
        seen.append(("alive", expect.alive, alive))
    return seen


def _records(scene: ScheduleContext, expect: Expect) -> Seen:
    answers = {name: answer for name, answer in scene.direct.answers.items() if answer is not None}
    acked = frozenset(name for name, answer in answers.items() if answer.outcome == OK)
    refused = frozenset(answers) - acked
    return [("acknowledged", expect.acked, acked), ("refused", expect.refused, refused)]


def _replicas(
    scene: ScheduleContext, cast: ReplicaAssignment, expect: Expect, silent: Collection[int]
) -> Seen:
    seen: Seen = []
    leos, hws = expect.leo or {}, expect.hw or {}
    for number in sorted((set(leos) | set(hws)) - set(silent)):
        state = scene.probe.replica(cast.brokers[number], scene.topic, 0)
        seen.append((f"LEO of {number}", leos.get(number), state.leo))
        seen.append((f"HW of {number}", hws.get(number), state.hw))
    for number, hw in (expect.hw_on_disk or {}).items():
        disk = hw_on_disk(scene, cast.brokers[number])
        seen.append((f"HW on disk of {number}", hw, disk))
    return seen


def _plain(value: object) -> object:
    return sorted(value) if isinstance(value, frozenset) else value

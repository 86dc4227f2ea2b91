"""One schedule for two executors: the model and real brokers.

A schedule is a list of steps for one partition. The model plays it on its own state, and
``nemesis.model_replay.schedule_replay`` on real brokers; a step has an action, the brokers to
freeze meanwhile, and the state expected before the next one. Replicas have the model's numbers, 0
to ``replicas`` - 1.
"""

from collections.abc import Mapping
from typing import ClassVar, Final, Literal

import msgspec

from highwater.checkers.model.protocol.scope import By
from highwater.checkers.model.search.model_file import FORMAT, ModelFile
from highwater.harness.base.errors import UsageError
from highwater.harness.runs.plan import Acks

Action = Literal[
    "send", "kill", "pause", "resume", "start", "stop", "move",
    "expire", "register", "elect", "learn", "skip", "truncate", "fetch", "ask", "receive",
    "lag", "shrink", "confirm", "expand", "checkpoint", "read", "run", "tell", "try",
    "failover", "end-fetch", "wipe", "reassign", "elect-unclean",
]  # fmt: skip

COMMANDED: Final = frozenset(
    {"send", "kill", "pause", "resume", "start", "stop", "move", "wipe"}
    | {"reassign", "elect-unclean"}
)
"""Actions from outside. The others happen by themselves and are awaited; ``expire`` ends a session
where the coordination allows it."""

_NEEDS_BROKER: Final = COMMANDED - {"send", "reassign"} | {"expire", "learn"}

OLD_FORMAT: Final[Mapping[str, str]] = {"log.message.format.version": "0.10.2"}
"""The broker setting by which records are written without leader epochs, up to 2.8."""


class Expect(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The expected state after a step; None is "do not care".

    The LEO and HW of a frozen or dead broker are not awaited, because it does not answer.

    Attributes:
        leader: the broker that the controller has elected; -1 is none.
        isr: as the controller has it, in any order.
        hw: of a replica, by its own knowledge.
        hw_on_disk: in a replica's ``replication-offset-checkpoint``.
        acked: every record that has been acknowledged so far.
        refused: every record whose producer got an error so far.
        alive: every replica that has a session (ZooKeeper) or is unfenced (KRaft).
    """

    leader: int | None = None
    isr: frozenset[int] | None = None
    leo: Mapping[int, int] | None = None
    hw: Mapping[int, int] | None = None
    hw_on_disk: Mapping[int, int] | None = None
    acked: frozenset[str] | None = None
    refused: frozenset[str] | None = None
    alive: frozenset[int] | None = None

    def numbers(self) -> frozenset[int]:
        """Every replica that is mentioned."""
        sets = [self.isr or (), self.alive or (), self.leo or (), self.hw or ()]
        leader = () if self.leader is None or self.leader < 0 else (self.leader,)
        return frozenset().union(*sets, self.hw_on_disk or (), leader)


class ScheduleStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One step: freeze the held brokers, do one thing, wait for the expected state.

    Attributes:
        broker: the broker concerned; of a send its target, by default the leader.
        record: the record's name, of a send; of several in one batch, their names with spaces.
        says: the step in a sentence, for a person.
        held: replicas that are frozen from before the step until after it, so that they do not run
            ahead. Records appended meanwhile reach them after that, never before.
        asks: the replica that the broker asks, if the step is one message to it; of a lag the
            follower that is dropped.
        replicas: of a reassignment: those that it asks for, the preferred one first.
        decision: the number of the controller's decision that the step makes, or that the broker
            learns; that at the start is 0.
        expect: the state to await before the next step.
    """

    action: Action
    broker: int | None = None
    record: str | None = None
    says: str = ""
    held: frozenset[int] = frozenset()
    asks: int | None = None
    replicas: tuple[int, ...] = ()
    decision: int | None = None
    expect: Expect = Expect()


class Schedule(ModelFile, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Steps for one partition, with the settings of their search.

    Attributes:
        kafka: catalogue name of the release of the search.
        order: replicas in the order of the partition's assignment; the first leads at the start.
        moves: the same steps as moves of the model; empty if a person wrote the schedule.
        settings: broker settings above those of every replay, as Kafka spells them.
        by: how brokers are led along it: ``message`` by the wire, which lets one message pass a
            step; ``round`` by freezing those that are held.
        name: a few words.
        partition: that of the topic which is led along it. A controller with eligible leader
            replicas looks at the replicas of partition 0 alone
            (``ReplicationControlManager.getTopicEffectiveMinIsr``), so a schedule that reassigns
            has another one.
    """

    kind: ClassVar[str] = "schedule"

    format: int = FORMAT
    kafka: str
    name: str = "schedule"
    replicas: int = 3
    acks: Acks = "all"
    min_isr: int = 1
    unclean: bool = False
    order: tuple[int, ...] = (0, 1, 2)
    moves: tuple[tuple[int, int, int], ...] = ()
    settings: Mapping[str, str] = {}
    by: By = "round"
    partition: int = 0
    steps: tuple[ScheduleStep, ...]

    def check(self) -> None:
        """Raise an error for a schedule without meaning."""
        if sorted(self.order) != list(range(self.replicas)):
            raise UsageError(
                f"the order {list(self.order)} does not name each of {self.replicas} replicas",
                hint="Replicas are numbered from 0.",
            )
        sent: set[str] = set()
        for number, step in enumerate(self.steps, start=1):
            problem = _problem(step, self.replicas, sent)
            if problem:
                raise UsageError(f"step {number}, {step.action}: {problem}")
            sent |= set((step.record or "").split()) if step.action == "send" else set()


def _problem(step: ScheduleStep, replicas: int, sent: set[str]) -> str:
    """Return what is wrong with a step by itself; empty when nothing is."""
    named = step.expect.numbers() | step.held
    named |= frozenset() if step.broker is None else {step.broker}
    named |= frozenset(step.replicas)
    unknown = sorted(named - set(range(replicas)))
    if unknown:
        return f"there is no replica {unknown[0]}"
    if step.action in _NEEDS_BROKER and step.broker is None:
        return "it does not say which broker"
    if not {"reassign": step.replicas, "send": step.record}.get(step.action, True):
        return f"it does not say which {'record' if step.action == 'send' else 'replicas'}"
    if step.action == "send" and sent & set((step.record or "").split()):
        return f"record {step.record} was sent before"
    if step.action in {"stop", "start"} and step.broker in step.held:
        return f"replica {step.broker} is held, and cannot {step.action} meanwhile"
    return ""

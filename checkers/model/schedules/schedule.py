"""A schedule that both the model and real brokers can execute.

A schedule is a list of steps for one partition. The model executes a schedule on its own state;
``nemesis.model_replay.schedule_replay`` executes it on real brokers. A step has an action, the
brokers to freeze meanwhile, and the state expected before the next step. Replicas have the model's
numbers, 0 to ``replicas`` - 1.
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
    "failover", "end-fetch", "wipe", "reassign", "cancel", "elect-unclean", "observe",
]  # fmt: skip

COMMANDED: Final = frozenset(
    {"send", "kill", "pause", "resume", "start", "stop", "move", "wipe"}
    | {"reassign", "cancel", "elect-unclean"}
)
"""Actions that the replay performs by a command. For any other action, the replay waits until
brokers take it. ``expire`` ends a session where ZooKeeper or KRaft allows that. In ``observe`` all
brokers respond to the observer, but replicate nothing."""

_NEEDS_BROKER: Final = COMMANDED - {"send", "reassign"} | {"expire", "learn"}

OLD_FORMAT: Final[Mapping[str, str]] = {"log.message.format.version": "0.10.2"}
"""The setting with which brokers up to 2.8 write records without leader epochs."""


class Expect(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The expected state after a step; None means any value.

    The replay does not wait for the LEO and HW of a frozen or dead broker, which does not answer.

    Attributes:
        leader: the broker that the controller has elected; -1 for no leader.
        isr: the ISR that the controller knows.
        hw: the HW that each replica knows.
        hw_on_disk: the HW in each replica's ``replication-offset-checkpoint``.
        acked: every record that has been acknowledged so far.
        refused: every record whose producer got an error so far.
        alive: every replica whose broker has a session (ZooKeeper) or is unfenced (KRaft).
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
        """Return the numbers of all replicas that the expected state mentions."""
        sets = [self.isr or (), self.alive or (), self.leo or (), self.hw or ()]
        leader = () if self.leader is None or self.leader < 0 else (self.leader,)
        return frozenset().union(*sets, self.hw_on_disk or (), leader)


class ScheduleStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One step: freeze the ``held`` brokers, perform the action, wait for the expected state.

    Attributes:
        broker: the broker of the action; for a send the broker that gets the record, by default the
            leader.
        record: for a send the record's name; for a batch the names, separated by spaces.
        says: the step as a sentence for readers.
        held: replicas that are frozen during the step. They fetch the step's records afterwards.
        asks: the replica that receives the message of the step's broker; for ``lag`` the follower
            that leaves the ISR.
        replicas: for a reassignment the requested replicas, the preferred replica first.
        decision: the number of the controller's decision that the step makes, or that the broker
            learns; the decision at the start is 0.
        expect: the state to wait for before the next step.
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
        settings: broker settings in addition to those of every replay, by Kafka's names.
        by: ``message`` if the relay sends one message in each step; ``round`` if the replay freezes
            the held brokers.
        name: a short title for reports.
        partition: the partition's number; not 0 for a reassignment. A controller with eligible
            leader replicas looks only at the replicas of partition 0
            (``ReplicationControlManager.getTopicEffectiveMinIsr``).
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
        """Raise a UsageError for a schedule that contradicts itself."""
        if sorted(self.order) != list(range(self.replicas)):
            raise UsageError(
                f"the order {list(self.order)} must name each of the {self.replicas} replicas once",
                hint="Replicas are numbered from 0.",
            )
        sent: set[str] = set()
        for number, step in enumerate(self.steps, start=1):
            problem = _problem(step, self.replicas, sent)
            if problem:
                raise UsageError(f"step {number}, {step.action}: {problem}")
            sent |= set((step.record or "").split()) if step.action == "send" else set()


def _problem(step: ScheduleStep, replicas: int, sent: set[str]) -> str:
    """Return the error in one step as text; empty if there is no error."""
    named = step.expect.numbers() | step.held
    named |= frozenset() if step.broker is None else {step.broker}
    named |= frozenset(step.replicas)
    unknown = sorted(named - set(range(replicas)))
    if unknown:
        return f"there is no replica {unknown[0]}"
    if step.action in _NEEDS_BROKER and step.broker is None:
        return "the step names no broker"
    if not {"reassign": step.replicas, "send": step.record}.get(step.action, True):
        return f"the step names no {'record' if step.action == 'send' else 'replicas'}"
    if step.action == "send" and sent & set((step.record or "").split()):
        return f"an earlier step already sends record {step.record}"
    if step.action in {"stop", "start"} and step.broker in step.held:
        return f"replica {step.broker} is frozen (held) in this step, so it cannot {step.action}"
    return ""

"""The context of a schedule: a cluster, its faults, and a client for single records."""

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

from highwater.clusters.admin.direct_sender import DirectSender
from highwater.clusters.core.interfaces import (
    Cluster,
    PartitionState,
    Probe,
    ReplicaState,
    UnreachableError,
)
from highwater.clusters.relay.network import CaughtMessages
from highwater.harness.base.errors import HarnessError, WaitTimeoutError
from highwater.harness.base.waiting import await_condition
from highwater.harness.clients.groups.membership import GroupMembership
from highwater.harness.clients.named_transactions import NamedTransactions
from highwater.harness.clients.record_sender import Sender, SendOutcome
from highwater.harness.releases.catalogue import release
from highwater.harness.runs.history import OK
from highwater.harness.runs.missed_step import MissedStep
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.recorder import Recorder
from highwater.nemesis.injector import FaultLog, Nemesis
from highwater.nemesis.message_spec import VERBS, MessageSpec, read_action

_CHECK_EVERY_S: Final = 0.2
_APPENDED_S: Final = 5.0
_ANSWERS_S: Final = 10.0
_LOOK_EVERY_S: Final = 0.01
_Seen = TypeVar("_Seen")


class ScheduleNotFollowedError(HarnessError):
    """Real brokers did not follow a schedule, so its run proves nothing.

    Args:
        missed: the step of a model's schedule that failed.
    """

    def __init__(self, message: str, missed: MissedStep | None = None) -> None:
        super().__init__(message)
        self.missed = missed


def tested_partition(plan: Plan) -> int:
    """Return the number of the partition in a plan's script."""
    number = (plan.schedule or {}).get("partition", 0)
    return number if isinstance(number, int) else 0


class Client(Protocol):
    """Sends one named record and records it in the history."""

    def send(self, value: str, partition: int, *, limit_s: float | None = None) -> SendOutcome:
        """Send a record with the plan's acks; return the outcome, or info after a limit."""


class GroupMember(Protocol):
    """A member of a group, or of a share group, that reads in a separate thread."""

    @property
    def assigned(self) -> frozenset[int]:
        """The partitions from which the member requests records."""

    @property
    def reading(self) -> frozenset[int]:
        """The assigned partitions in which the client has a position, if it has positions."""

    @property
    def given(self) -> Mapping[int, int]:
        """Partition to the offset after the last record that the member or its group received."""


class ConsumingMember(GroupMember, Protocol):
    """A member that may leave its group before the run ends, or crash."""

    def leave(self) -> None:
        """Close the member in the background, after a commit of its position."""

    def die_at_work(self) -> None:
        """Process the next poll's records for ever: they do not count as read."""


class SharingMember(Protocol):
    """A member of a share group that polls and accepts only on demand."""

    def poll(self) -> tuple[int, ...]:
        """Return the offsets of the next poll's records in partition 0."""

    def accept(self, offset: int) -> Future[None]:
        """Accept a record; the result is there when the brokers have responded."""

    def leave(self) -> None:
        """Leave the group."""


class GroupClients(Protocol):
    """Starts members of groups, which read until they leave, or the run's faults are healed."""

    def join(self, name: str, membership: GroupMembership) -> ConsumingMember:
        """Start a consumer as a member of a group; ``name`` ends in a number."""

    def committed(self, group: str) -> Mapping[int, int | None]:
        """Return a group's committed offsets by partition; None for a partition without one.

        Raises:
            UnreachableError: no coordinator responds.
        """

    def share(self, name: str, group: str) -> GroupMember:
        """Start a member of a share group (KIP-932)."""

    def steered(self, name: str) -> SharingMember:
        """Start a member of the run's share group; ``name`` is its process in the history."""

    def outside(self, group: str) -> object:
        """Return the metadata with which transactions commit offsets of a group without members."""

    def listed(self) -> frozenset[str]:
        """Return the groups that the brokers list.

        Raises:
            UnreachableError: a broker did not respond.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleContext:
    """The objects that a schedule may use.

    Attributes:
        probe: a probe that only this thread uses.
        topic: the topic under test.
        replicas: brokers of the partition under test, preferred leader first.
        added: number of each partition that the story adds, to the partition's brokers.
        transactional: opens a transactional client; the arguments are its process name, and
            settings that override all others.
        producer: opens a client without transactions, with more settings than the workload's.
        groups: starts members of groups.
        stop: set by another thread to end the run early.
        checks: functions that raise an error if a part of the run has failed.
        work: returns a count that increases while the program under test works; None if it is
            unknown.
        log: the table to which a schedule of faults writes its steps.
        clock: seconds, monotonic.
    """

    plan: Plan
    cluster: Cluster
    probe: Probe
    nemesis: Nemesis
    fault_log: FaultLog
    client: Client
    direct: DirectSender
    transactional: Callable[..., NamedTransactions]
    producer: Callable[[str, Mapping[str, object]], Sender]
    groups: GroupClients
    topic: str
    replicas: tuple[int, ...]
    added: Mapping[int, Sequence[int]] = field(default_factory=dict)
    stop: threading.Event
    checks: tuple[Callable[[], None], ...] = ()
    work: Callable[[], int | None] = lambda: None
    log: Recorder
    clock: Callable[[], float]

    @property
    def partition(self) -> int:
        """The number of the partition under test, whose brokers are ``replicas``."""
        return tested_partition(self.plan)

    def note(self, says: str, broker: int | None = None, *, step: int | None = None) -> None:
        """Record an observation or a decision; ``step`` is a step of a model's schedule."""
        self.fault_log.fault("step", "note", says, broker, step=step)

    def until(
        self,
        look: Callable[[], _Seen],
        condition: Callable[[_Seen], bool] | None = None,
        *,
        what: str,
        limit_s: float = _ANSWERS_S,
    ) -> _Seen:
        """Wait for a condition like ``await_condition``, and return the observed state.

        The method repeats a request without a response.

        Raises:
            ScheduleNotFollowedError: the condition did not hold within the limit.
        """
        try:
            return await_condition(
                look,
                condition,
                what=what,
                limit_s=limit_s,
                every_s=_LOOK_EVERY_S,
                passing=(UnreachableError,),
            )
        except WaitTimeoutError as error:
            raise ScheduleNotFollowedError(error.message) from error

    def state(self) -> PartitionState:
        """Return leader, epoch and ISR of the partition under test, when brokers report them."""
        return self.until(
            lambda: self.probe.partition(self.topic, self.partition),
            what=f"leader and ISR of {self.topic}-{self.partition} to be reported",
        )

    def replica(self, broker: int, partition: int = 0) -> ReplicaState:
        """Return LEO and HW of a replica, when its broker reports them."""
        return self.until(  # a broker of 0.9 refuses while its HW is behind
            lambda: self.probe.replica(broker, self.topic, partition),
            what=f"broker {broker} to report LEO and HW of {self.topic}-{partition}",
        )

    def controller(self) -> int:
        """Return the active controller, when brokers report a controller."""
        return self.until(self.probe.controller, what="an answer on the controller")

    def send(
        self, value: str, *, leader: int, partition: int = 0, limit_s: float | None = None
    ) -> int:
        """Send one record to a partition that has no other writer.

        Args:
            value: the record's name.
            leader: the broker that appends the record; with acks=0 its LEO gives the offset.
            limit_s: the longest wait for a response; by default the plan's delivery timeout.

        Returns:
            The record's offset.

        Raises:
            ScheduleNotFollowedError: the record was not acknowledged, or not appended.
        """
        before = self.replica(leader, partition).leo
        answer = self.client.send(value, partition, limit_s=limit_s)
        if answer.outcome != OK:
            raise ScheduleNotFollowedError(
                f"{value} was to be acknowledged, but its outcome is {answer.outcome}"
            )
        if answer.offset is not None:
            return answer.offset
        return self._appended(value, leader, partition, before)

    def send_on(self, value: str) -> None:
        """Send one record to partition 0 without waiting for a response."""
        self.client.send(value, 0, limit_s=0.0)

    def _appended(self, value: str, leader: int, partition: int, offset: int) -> int:
        """Wait until the leader has appended a record that no broker acknowledges (acks=0)."""
        self.until(
            lambda: self.probe.replica(leader, self.topic, partition),
            lambda state: state.leo > offset,
            what=f"broker {leader} to append {value} at offset {offset}",
            limit_s=_APPENDED_S,
        )
        return offset

    @contextlib.contextmanager
    def intercept(self, text: str) -> Iterator[CaughtMessages]:
        """Hold, drop, repeat or delay a message during the block.

        The relay sends a held message at the end of the block, or earlier after ``release``.

        Args:
            text: the action and the message, such as ``hold EndTxn client:*>broker-1``.

        Raises:
            UsageError: there is no such message, or this release does not have it.
            ScheduleNotFollowedError: no such message came.
        """
        name, _, message = text.partition(" ")
        action, network = read_action(name), self.cluster.network
        spec = MessageSpec.of(message)
        spec.require(action, self.plan, release(self.plan.kafka))
        if network is None:
            raise HarnessError("this schedule needs the wire")
        messages = network.catch(spec.rule(action, self.topic))
        fault = f"{action}-message"
        self.fault_log.fault(fault, "inject", f"to be {VERBS[action]}: {message}")
        try:
            yield messages
        finally:
            messages.release("schedule")
            self.fault_log.fault(fault, "heal", f"the message {message} is healed")
        if not messages.caught:
            raise ScheduleNotFollowedError(f"there was no message to {text}")

    def check(self) -> None:
        """Raise an error if a part of the run has failed, or if the run has to end early.

        Raises:
            HarnessError: a part failed, or the run was ended early.
        """
        if self.stop.is_set():
            raise HarnessError("the run was ended early")
        for check in self.checks:
            check()

    def hold(self, seconds: float) -> None:
        """Wait for a number of seconds of the schedule.

        Raises:
            HarnessError: the run has to end before this time has passed.
        """
        deadline = self.clock() + seconds
        self.check()
        while (left := deadline - self.clock()) > 0:
            self.stop.wait(min(left, _CHECK_EVERY_S))
            self.check()

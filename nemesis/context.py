"""Objects that a schedule uses: a cluster, its faults, and a client that sends single records."""

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
    """The brokers did not follow the schedule, so the run proves nothing.

    Args:
        missed: the step that failed, in a schedule from the model.
    """

    def __init__(self, message: str, missed: MissedStep | None = None) -> None:
        super().__init__(message)
        self.missed = missed


def tested_partition(plan: Plan) -> int:
    """Return the number of the partition that a plan's schedule tests."""
    number = (plan.schedule or {}).get("partition", 0)
    return number if isinstance(number, int) else 0


class Client(Protocol):
    """Sends single records, and writes each send to the run's history."""

    def send(self, value: str, partition: int, *, limit_s: float | None = None) -> SendOutcome:
        """Send a record with the plan's acks; return its outcome: ok, fail, or info (unknown)."""


class GroupMember(Protocol):
    """A member of a group, or of a share group, that reads in a separate thread."""

    @property
    def assigned(self) -> frozenset[int]:
        """The partitions from which the member requests records."""

    @property
    def reading(self) -> frozenset[int]:
        """The assigned partitions in which the client has a read position."""

    @property
    def given(self) -> Mapping[int, int]:
        """By partition, the offset after the last record that the member (or share group) got."""


class ConsumingMember(GroupMember, Protocol):
    """A group member that can leave its group during the run, or crash."""

    def leave(self) -> None:
        """Commit the member's position, and close the member in another thread."""

    def die_at_work(self) -> None:
        """Stop at the next poll's records, as if their processing never ends."""


class SharingMember(Protocol):
    """A member of a share group that polls and acknowledges only on demand."""

    def poll(self) -> tuple[int, ...]:
        """Return the offsets of the next poll's records in partition 0."""

    def accept(self, offset: int) -> Future[None]:
        """Acknowledge a record (ACCEPT); the future ends with the brokers' response."""

    def leave(self) -> None:
        """Leave the group."""


class GroupClients(Protocol):
    """Starts members of consumer groups. Members read until they leave or all faults are healed."""

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
        """Return group metadata for a transaction with offsets of a group without members."""

    def listed(self) -> frozenset[str]:
        """Return the groups that the brokers list.

        Raises:
            UnreachableError: a broker did not respond.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleContext:
    """The objects that a schedule may use.

    Attributes:
        probe: a probe that only the schedule's thread uses.
        topic: the topic under test.
        replicas: brokers with a replica of the partition under test; the preferred leader is first.
        added: the partitions that the story (a scripted scenario) adds later, and their brokers.
        transactional: opens a transactional client. The arguments are its name in the history, and
            settings that override all others.
        producer: opens a client without transactions. The arguments are its name, and settings that
            override the workload's.
        groups: starts members of groups.
        stop: an event that ends the run early.
        checks: functions that raise an error if a part of the run has failed.
        observed: returns the number of rounds of queries that each of the observer's threads has
            finished.
        work: returns a count that increases while the program under test works; None if the count
            is unknown.
        log: the writer of the table of executed steps.
        clock: returns monotonic seconds.
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
    observed: Callable[[], Sequence[int]] = tuple
    work: Callable[[], int | None] = lambda: None
    log: Recorder
    clock: Callable[[], float]

    @property
    def partition(self) -> int:
        """The number of the partition under test, whose brokers are ``replicas``."""
        return tested_partition(self.plan)

    def note(self, says: str, broker: int | None = None, *, step: int | None = None) -> None:
        """Record an observation or a decision; ``step`` is the step's number in the schedule."""
        self.fault_log.fault("step", "note", says, broker, step=step)

    def until(
        self,
        look: Callable[[], _Seen],
        condition: Callable[[_Seen], bool] | None = None,
        *,
        what: str,
        limit_s: float = _ANSWERS_S,
    ) -> _Seen:
        """Wait until the observed state meets a condition, and return this state.

        If a request gets no response, the method sends it again. See ``await_condition``.

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
        """Wait until brokers report leader, epoch and ISR of the tested partition; return them."""
        return self.until(
            lambda: self.probe.partition(self.topic, self.partition),
            what=f"leader and ISR of {self.topic}-{self.partition} to be reported",
        )

    def replica(self, broker: int, partition: int = 0) -> ReplicaState:
        """Wait until a broker reports LEO and HW of its replica; return them."""
        return self.until(  # a broker of 0.9 refuses while its HW is behind
            lambda: self.probe.replica(broker, self.topic, partition),
            what=f"broker {broker} to report LEO and HW of {self.topic}-{partition}",
        )

    def controller(self) -> int:
        """Wait until brokers report an active controller; return its id."""
        return self.until(self.probe.controller, what="a response that names the controller")

    def send(
        self, value: str, *, leader: int, partition: int = 0, limit_s: float | None = None
    ) -> int:
        """Send one record to a partition that has no other writer.

        Args:
            value: the record's name.
            leader: the broker that appends the record.
            limit_s: the longest wait for a response; by default the plan's delivery timeout.

        Returns:
            The record's offset; with acks=0, the leader's LEO before the send.

        Raises:
            ScheduleNotFollowedError: the record was not acknowledged, or not appended.
        """
        before = self.replica(leader, partition).leo
        answer = self.client.send(value, partition, limit_s=limit_s)
        if answer.outcome != OK:
            raise ScheduleNotFollowedError(
                f"{value} must be acknowledged, but its outcome is {answer.outcome}"
            )
        if answer.offset is not None:
            return answer.offset
        return self._appended(value, leader, partition, before)

    def send_on(self, value: str) -> None:
        """Send one record to partition 0, and do not wait for the response."""
        self.client.send(value, 0, limit_s=0.0)

    def _appended(self, value: str, leader: int, partition: int, offset: int) -> int:
        """Wait until the leader has appended a record at ``offset``, and return the offset."""
        self.until(
            lambda: self.probe.replica(leader, self.topic, partition),
            lambda state: state.leo > offset,
            what=f"broker {leader} to append {value} at offset {offset}",
            limit_s=_APPENDED_S,
        )
        return offset

    @contextlib.contextmanager
    def intercept(self, text: str) -> Iterator[CaughtMessages]:
        """Hold, drop, repeat or delay a message while the ``with`` block runs.

        The relay forwards a held message when ``release`` is called, at the latest after the block.

        Args:
            text: the action and the message, such as ``hold EndTxn client:*>broker-1``.

        Raises:
            UsageError: the text names no message, or this Kafka release does not have the message.
            ScheduleNotFollowedError: the relay saw no such message.
        """
        name, _, message = text.partition(" ")
        action, network = read_action(name), self.cluster.network
        spec = MessageSpec.of(message)
        spec.require(action, self.plan, release(self.plan.kafka))
        if network is None:
            raise HarnessError(
                "this schedule intercepts a message, but the cluster runs without the relay"
            )
        messages = network.catch(spec.rule(action, self.topic))
        fault = f"{action}-message"
        self.fault_log.fault(fault, "inject", f"to be {VERBS[action]}: {message}")
        try:
            yield messages
        finally:
            messages.release("schedule")
            self.fault_log.fault(fault, "heal", f"no longer {VERBS[action]}: {message}")
        if not messages.caught:
            raise ScheduleNotFollowedError(f"the relay saw no message for the rule: {text}")

    def check(self) -> None:
        """Raise an error if a part of the run has failed, or if the run must end early.

        Raises:
            HarnessError: a part of the run failed, or the run must end early.
        """
        if self.stop.is_set():
            raise HarnessError("the run was ended early")
        for check in self.checks:
            check()

    def await_observed(self, rounds: int) -> None:
        """Wait until each of the observer's threads has finished this many further queries."""
        before = self.observed()
        self.until(
            self.observed,
            lambda now: all(n >= m + rounds for n, m in zip(now, before, strict=True)),
            what=f"{rounds} more queries of every broker",
        )

    def hold(self, seconds: float) -> None:
        """Wait for a number of seconds, unless the run must end.

        Raises:
            HarnessError: the run must end before the time has passed.
        """
        deadline = self.clock() + seconds
        self.check()
        while (left := deadline - self.clock()) > 0:
            self.stop.wait(min(left, _CHECK_EVERY_S))
            self.check()

"""Move leadership as an administrator does, without a failure.

The new leader becomes the first replica in the partition's assignment. No data moves. Then the
controller elects the preferred leader. On ZooKeeper (0.9 to 3.9), the harness creates a znode below
``/admin`` for each step. The controller deletes the znode at the step's end. On KRaft, each step is
a request (KIP-455, KIP-460).
"""

import contextlib
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Final

from kafka.protocol.admin import AlterPartitionReassignmentsRequest

from highwater.clusters.admin import elections
from highwater.clusters.admin.kafka_protocol import ProtocolClient
from highwater.clusters.admin.metadata import CoordinationView, ZooKeeperView
from highwater.clusters.core.addresses import Address
from highwater.clusters.core.interfaces import UnreachableError
from highwater.harness.base.errors import HarnessError, WaitTimeoutError
from highwater.harness.base.waiting import NotYetError, await_condition

LIMIT_S: Final = 30.0
_ELECTIONS: Final = 3
_ELECTION_S: Final = 5.0
"""The limit in seconds for an election: twice the time that 0.10 needs if a paused broker does not
respond to the controller."""

_NOTICE_S: Final = 1.0
"""The seconds in which a broker finds a new ZooKeeper node, even without an event about the
node."""

_NO_CONTROLLER: Final = {"version": 1, "brokerid": -1, "timestamp": "0"}

_EVERY_S: Final = 0.01
_ANSWER_S: Final = 5.0
_REASSIGN: Final = "/admin/reassign_partitions"
_ELECT: Final = "/admin/preferred_replica_election"
_EPOCH: Final = "/controller_epoch"
_ELECTED: Final = frozenset({0, elections.NOT_NEEDED})


Freezer = Callable[..., AbstractContextManager[None]]
"""A function that returns a context manager. The context manager pauses every running broker,
except the brokers with the given ids."""

LeadershipChange = Callable[[CoordinationView, Mapping[int, Address], Freezer, str, int, int], None]
"""The type of the functions ``move`` and ``set_next_leader``."""


class ZooKeeperMover:
    """Writes the znodes that Kafka's scripts for reassignments and elections write.

    A new order of replicas is a reassignment for the controller. The controller waits until every
    replica is in the ISR, and then increases the partition's leader epoch
    (``KafkaController.updateLeaderEpochAndSendRequest``). The election increases the epoch again.
    If a replica is not in the ISR, the controller would wait forever. So this class then writes
    the order to the topic's znode, and forces the controller to read that znode again.

    Args:
        frozen: returns a context manager that pauses all brokers except the given ids.
    """

    def __init__(self, view: ZooKeeperView, frozen: Freezer) -> None:
        self._view = view
        self._frozen = frozen

    def prefer(self, topic: str, partition: int, replicas: Sequence[int]) -> None:
        """Write the assignment, and wait until the controller has applied it."""
        in_sync = self._view.live_brokers() & set(self._view.partition(topic, partition).isr)
        if in_sync >= set(replicas):
            self.assign(topic, partition, replicas)
        else:
            self.arrange(topic, partition, replicas)

    def assign(self, topic: str, partition: int, replicas: Sequence[int]) -> None:
        """Write the assignment. Wait until the controller has applied it.

        The controller first waits until all replicas are in the ISR.
        """
        item = {"topic": topic, "partition": partition, "replicas": [*replicas]}
        self._write_request(_REASSIGN, item)

    def arrange(self, topic: str, partition: int, replicas: Sequence[int]) -> None:
        """Write the assignment to the topic's znode, and force the controller to read the znode."""
        order = {str(partition): [*replicas]}
        self._view.update(f"/brokers/topics/{topic}", lambda node: node["partitions"].update(order))
        self._elect_controller_anew()

    def _elect_controller_anew(self) -> None:
        """Force a new election, and let the same controller win: all other brokers are paused.

        A new controller does not watch ``/controller`` at first. If the znode is deleted in this
        time, that broker does not take part in the election (``KafkaController.ControllerChange``).
        The other brokers then resume, and another broker may become controller. In that case, this
        method deletes the znode again.
        """
        controller, epoch = self._view.controller(), self._view.read(_EPOCH)
        for _ in range(_ELECTIONS):
            with self._frozen(controller), contextlib.suppress(WaitTimeoutError):
                self._view.delete("/controller")
                self._await_election([controller], epoch, _ELECTION_S)
                return
            if self.await_controller(epoch) == controller:
                return
        raise WaitTimeoutError(
            f"broker {controller} did not become controller in {_ELECTIONS} elections"
        )

    def await_controller(self, epoch: int) -> int:
        """Wait until a broker is controller with an epoch above ``epoch``. Return the broker's id.

        If no broker noticed that the controller resigned, no broker starts an election. So after a
        timeout this method creates ``/controller`` and deletes it: each broker gets an event.
        """
        deadline = time.monotonic() + LIMIT_S
        while True:
            live = self._view.live_brokers()
            try:
                return self._await_election(live, epoch, _ELECTION_S)
            except WaitTimeoutError:
                if time.monotonic() >= deadline:
                    raise
            if self._view.create("/controller", _NO_CONTROLLER, ephemeral=True):
                with contextlib.suppress(WaitTimeoutError):
                    return self._await_election(live, epoch, _NOTICE_S)
                self._view.delete("/controller")

    def _await_election(self, candidates: Collection[int], epoch: int, limit_s: float) -> int:
        """Wait until a candidate is controller with an epoch above ``epoch``; return its id."""
        elected, _ = await_condition(
            lambda: (self._view.controller(), self._view.read(_EPOCH)),
            lambda seen: seen[0] in candidates and seen[1] > epoch,
            what=f"one of the brokers {sorted(candidates)} to become controller in a new election",
            limit_s=limit_s,
            every_s=_EVERY_S,
            passing=(UnreachableError,),
        )
        return elected

    def elect(self, topic: str, partition: int) -> None:
        """Request the election of the preferred leader, and wait until the election has ended."""
        self._write_request(_ELECT, {"topic": topic, "partition": partition})

    def _write_request(self, path: str, item: Mapping[str, Any]) -> None:
        if not self._view.create(path, {"version": 1, "partitions": [item]}):
            raise HarnessError(
                f"ZooKeeper already has a node {path}: another change is still running"
            )
        await_condition(
            partial(self._require_done, path),
            what=f"the controller to execute {path}: {dict(item)}",
            limit_s=LIMIT_S,
            every_s=_EVERY_S,
            passing=(UnreachableError,),
        )

    def _require_done(self, path: str) -> None:
        if self._view.exists(path):
            raise NotYetError(
                f"the node still exists, and broker {self._view.controller()} is the controller"
            )

    def close(self) -> None:
        """Do nothing, because the caller closes the view."""


class KraftMover:
    """Moves leadership on KRaft. A running broker forwards the requests to the controller.

    Args:
        brokers: broker id to address, for each running broker.
    """

    def __init__(self, brokers: Mapping[int, Address]) -> None:
        self._brokers = tuple(brokers)
        self._client = ProtocolClient(brokers, timeout_s=_ANSWER_S)

    def prefer(self, topic: str, partition: int, replicas: Sequence[int] | None) -> None:
        """Send AlterPartitionReassignments. A new order of replicas takes effect at once.

        None instead of replicas cancels the reassignment in progress.
        """
        reassignment = AlterPartitionReassignmentsRequest.ReassignableTopic
        listed = None if replicas is None else [*replicas]
        order = reassignment.ReassignablePartition(partition_index=partition, replicas=listed)
        request: Any = AlterPartitionReassignmentsRequest(
            version=0,
            timeout_ms=int(_ANSWER_S * 1000),
            topics=[reassignment(name=topic, partitions=[order])],
        )
        [response] = self._client.ask_any(self._brokers, request)
        codes = [response.error_code] + [
            result.error_code
            for topic_result in response.responses
            for result in topic_result.partitions
        ]
        what = "cancel the reassignment" if listed is None else f"put {listed} in order"
        _require(codes, frozenset({0}), f"{what} for {topic}-{partition}")

    arrange = prefer
    assign = prefer

    def elect(self, topic: str, partition: int) -> None:
        """Send ElectLeaders for the preferred leader."""
        codes = elections.request_election(
            self._client, self._brokers, topic, partition, elections.PREFERRED
        )
        _require(codes, _ELECTED, f"elect the preferred leader of {topic}-{partition}")

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def move(
    view: CoordinationView,
    brokers: Mapping[int, Address],
    frozen: Freezer,
    topic: str,
    partition: int,
    broker: int,
) -> None:
    """Make a broker the leader of a partition. No broker fails.

    Args:
        brokers: broker id to address, for each running broker.
        frozen: returns a context manager that pauses all brokers except the given ids.

    Raises:
        WaitTimeoutError: the controller did not make the broker leader in time.
        HarnessError: the controller refused, or the broker has no replica.
    """
    order = view.replicas(topic, partition)
    if broker not in order:
        raise HarnessError(
            f"broker {broker} has no replica of {topic}-{partition}; these brokers have: {order}"
        )
    with contextlib.closing(_mover(view, brokers, frozen)) as mover:
        if order[0] != broker:
            mover.prefer(topic, partition, [broker, *(other for other in order if other != broker)])
        mover.elect(topic, partition)
    await_condition(
        lambda: view.partition(topic, partition),
        lambda state: state.leader == broker,
        what=f"the controller to make broker {broker} the leader of {topic}-{partition}",
        limit_s=LIMIT_S,
        every_s=_EVERY_S,
        passing=(UnreachableError,),
    )


def set_next_leader(
    view: CoordinationView,
    brokers: Mapping[int, Address],
    frozen: Freezer,
    topic: str,
    partition: int,
    broker: int,
) -> None:
    """Change the assignment so that the controller elects this broker when the leader fails.

    The controller elects the first replica in the assignment that is alive and in the ISR. The
    arguments are those of ``move``.

    Raises:
        WaitTimeoutError: the controller did not change the assignment in time.
        HarnessError: the controller refused.
    """
    order, state = view.replicas(topic, partition), view.partition(topic, partition)
    candidates = [replica for replica in order if replica in state.isr and replica != state.leader]
    if broker not in candidates or candidates[0] == broker:
        return
    with contextlib.closing(_mover(view, brokers, frozen)) as mover:
        mover.arrange(
            topic, partition, [broker, *(replica for replica in order if replica != broker)]
        )


def assign(
    view: CoordinationView,
    brokers: Mapping[int, Address],
    frozen: Freezer,
    topic: str,
    partition: int,
    replicas: Sequence[int],
) -> None:
    """Reassign a partition, and wait until the assignment and the ISR are exactly ``replicas``.

    Raises:
        WaitTimeoutError: the reassignment did not end in time.
        HarnessError: the controller refused.
    """
    with contextlib.closing(_mover(view, brokers, frozen)) as mover:
        mover.assign(topic, partition, replicas)
    await_condition(
        lambda: (set(view.replicas(topic, partition)), set(view.partition(topic, partition).isr)),
        lambda seen: seen == (set(replicas), set(replicas)),
        what=f"{topic}-{partition} to have in-sync replicas on exactly the brokers {[*replicas]}",
        limit_s=2 * LIMIT_S,
        passing=(UnreachableError,),
    )


def request(
    view: CoordinationView,
    brokers: Mapping[int, Address],
    topic: str,
    partition: int,
    replicas: Sequence[int] | None,
) -> None:
    """Send AlterPartitionReassignments (KIP-455, since 2.4). Return when the controller accepts it.

    Args:
        replicas: the new replicas; None cancels the reassignment in progress.

    Raises:
        HarnessError: the controller refused.
        UnreachableError: no broker responded.
    """
    if isinstance(view, ZooKeeperView):
        brokers = {id_: brokers[id_] for id_ in brokers if id_ == view.controller()}
    with contextlib.closing(KraftMover(brokers)) as mover:
        mover.assign(topic, partition, replicas)


def _mover(
    view: CoordinationView, brokers: Mapping[int, Address], frozen: Freezer
) -> ZooKeeperMover | KraftMover:
    if isinstance(view, ZooKeeperView):
        return ZooKeeperMover(view, frozen)
    return KraftMover(brokers)


def _require(codes: Sequence[int], accepted: frozenset[int], what: str) -> None:
    errors = [code for code in codes if code not in accepted]
    if errors:
        raise HarnessError(f"the controller refuses to {what}: error {errors[0]}")

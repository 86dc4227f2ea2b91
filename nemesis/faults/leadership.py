"""Administration as a fault: leaders and replicas move while clients send records."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TypeVar

from highwater.clusters.core.interfaces import (
    Cluster,
    LeaderKeptError,
    PartitionState,
    Probe,
    UnreachableError,
)
from highwater.harness.base.errors import WaitTimeoutError
from highwater.harness.base.waiting import await_condition
from highwater.harness.releases.release import Release
from highwater.nemesis.faults.coordinators import GROUPS, TRANSACTIONS
from highwater.nemesis.faults.registry import FaultTarget, NothingDoneError, aimed, by_request

_LOOK_LIMIT_S = 10.0
_IN_SYNC_LIMIT_S = 15.0
_ELECTED_LIMIT_S = 60.0
_Seen = TypeVar("_Seen")
_UNCLEAN = "unclean.leader.election.enable"


def _state(cluster: Cluster, topic: str, partition: int) -> PartitionState:
    with contextlib.closing(cluster.probe()) as probe:
        return await_condition(
            lambda: probe.partition(topic, partition),
            what=f"a response that names the leader of {topic}-{partition}",
            limit_s=_LOOK_LIMIT_S,
            passing=(UnreachableError,),
        )


def _others(cluster: Cluster, state: PartitionState) -> list[int]:
    """Return the running followers in the ISR."""
    return [
        broker
        for broker in state.isr
        if broker != state.leader and cluster.brokers[broker].state == "running"
    ]


@aimed("move-leader", at="topic", why_not=by_request, commands=())
def move_leader(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Move leadership of a partition to another member of the ISR, by a preferred election."""
    yield _move(cluster, aim, aim.topic.name, aim.partition)


def _no_transactions(kafka: Release, _: str) -> str:
    return "" if kafka.idempotence else "transactions came with Kafka 0.11"


@aimed("move-txn-coordinator", at="topic", needs=TRANSACTIONS.needs, why_not=_no_transactions)
def move_txn_coordinator(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Make another ISR member the transaction coordinator, without a broker failure."""
    yield _move(cluster, aim, TRANSACTIONS.topic)


@aimed("move-group-coordinator", at="topic", needs=GROUPS.needs)
def move_group_coordinator(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Make another ISR member the group coordinator, without a broker failure."""
    yield _move(cluster, aim, GROUPS.topic)


def _move(cluster: Cluster, aim: FaultTarget, topic: str, partition: int = 0) -> str:
    """Move leadership of a partition to another ISR member; return a sentence about the move."""
    name, state = f"{topic}-{partition}", _state(cluster, topic, partition)
    candidates = _others(cluster, state)
    if state.leader < 0 or not candidates:
        raise NothingDoneError(f"{name} has no broker to which leadership could be moved")
    new_leader = candidates[int(aim.choice * len(candidates))]
    cluster.move_leader(topic, partition, new_leader)
    return f"leadership of {name} was moved from broker {state.leader} to broker {new_leader}"


@aimed("reassign", at="topic", why_not=by_request, commands=(), awaits_coordination=True)
def reassign(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Remove a follower's replica; healing adds it again, and the follower copies the whole log.

    The fault is not injected while a controller is paused: the controller would handle the requests
    only after healing.
    """
    with _removed(cluster, aim) as (name, _, gone):
        yield f"the replica of {name} on broker {gone} is removed"


def _no_cancellation(kafka: Release, driver: str) -> str:
    if not kafka.interrupts_reassignments:
        return "reassignments can be cancelled since Kafka 2.4"
    return by_request(kafka, driver)


@aimed(
    "cancel-reassign",
    at="topic",
    why_not=_no_cancellation,
    commands=("pause", "resume"),
    awaits_coordination=True,
)
def cancel_reassign(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Remove a follower's replica, and cancel its return; healing adds the replica again.

    The follower's broker is paused meanwhile, so that the reassignment does not end before it is
    cancelled. This broker is not the controller.
    """
    with contextlib.closing(cluster.probe()) as probe:
        controller = probe.controller()
    with _removed(cluster, aim, spared=controller) as (name, left, gone):
        node = cluster.brokers[gone]
        node.pause()
        try:
            cluster.reassign(aim.topic.name, aim.partition, [*left, gone], awaited=False)
            cluster.cancel_reassignment(aim.topic.name, aim.partition)
        finally:
            node.resume()
        yield f"the replica of {name} on broker {gone} is removed, and its return is cancelled"


@contextlib.contextmanager
def _removed(
    cluster: Cluster, aim: FaultTarget, *, spared: int | None = None
) -> Iterator[tuple[str, list[int], int]]:
    """Remove the replica of a follower other than ``spared``; at the end, add it again."""
    name = f"{aim.topic.name}-{aim.partition}"
    [state] = _in_sync(cluster, aim, [aim.partition])
    others = [broker for broker in _others(cluster, state) if broker != spared]
    if not others:
        raise NothingDoneError(f"{name} has no replica that could be removed")
    gone = others[int(aim.choice * len(others))]
    left = [broker for broker in state.isr if broker != gone]
    try:
        cluster.reassign(aim.topic.name, aim.partition, left)
        yield name, left, gone
    finally:
        cluster.reassign(aim.topic.name, aim.partition, [*left, gone])


def _in_sync(cluster: Cluster, aim: FaultTarget, partitions: Iterable[int]) -> list[PartitionState]:
    """Wait until all replicas of these partitions are in sync, and return the partitions' states.

    If a broker has a fault, raise the error at once.

    Raises:
        NothingDoneError: a replica is not in sync.
    """
    topic = aim.topic
    if all(broker.state == "running" for broker in cluster.brokers.values()):
        with contextlib.suppress(WaitTimeoutError):
            return await_condition(
                lambda: [_state(cluster, topic.name, number) for number in partitions],
                lambda states: all(len(at.isr) == topic.replication_factor for at in states),
                what=f"all replicas of {topic.name} to be in sync",
                limit_s=_IN_SYNC_LIMIT_S,
            )
    raise NothingDoneError(f"{topic.name} has replicas that are not in sync, so none is removed")


@aimed("decommission", why_not=by_request, commands=("start", "stop"), awaits_coordination=True)
def decommission(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Remove a broker's replicas of the topic and shut the broker down; healing adds both again.

    If the cluster has more brokers than replicas, other brokers get replicas instead. After
    healing, the broker starts with an empty log for each partition, and copies the leader's log.
    Replicas of Kafka's internal topics are not removed.
    """
    topic, broker = aim.topic, aim.victim
    numbers = range(topic.partitions)
    states = zip(numbers, _in_sync(cluster, aim, numbers), strict=True)
    before = {number: [*state.isr] for number, state in states if broker in state.isr}
    if not before or topic.replication_factor == 1:
        raise NothingDoneError(f"broker {broker} has no replica of {topic.name} to unassign")
    running = sorted(id_ for id_, node in cluster.brokers.items() if node.state == "running")
    try:
        for number, isr in before.items():
            spare = [id_ for id_ in running if id_ not in isr][:1]
            left = [id_ for id_ in isr if id_ != broker]
            cluster.reassign(topic.name, number, [*left, *spare])
        cluster.brokers[broker].stop()
        yield f"broker {broker} has no replica of {topic.name}, and is shut down"
    finally:
        cluster.brokers[broker].start()
        for number, isr in before.items():
            cluster.reassign(topic.name, number, isr)


@aimed("unclean-election", at="cluster", needs="--unclean", awaits_coordination=True)
def unclean_election(cluster: Cluster, aim: FaultTarget) -> Iterator[str]:
    """Shrink the ISR to the leader, kill this leader, and elect a broker without its last records.

    The followers are shut down cleanly. So the leader is the only ISR member, and acknowledges
    records alone. Then the leader is killed, and the administrator requests the election: with
    ElectLeaders since 2.4 (KIP-460), before with the topic's unclean.leader.election.enable.
    Healing starts the killed leader, which truncates its log to match the new leader's log.
    With min.insync.replicas above 1 the controller may elect an eligible leader replica, which has
    every record, without a request (KIP-966).
    """
    name, state = (
        f"{aim.topic.name}-{aim.partition}",
        _state(cluster, aim.topic.name, aim.partition),
    )
    # Also shut down brokers that are not in sync yet, because they may join the ISR a moment later.
    running = [broker.id for broker in cluster.brokers.values() if broker.state == "running"]
    others = [broker for broker in running if broker != state.leader]
    if state.leader < 0 or not others:
        raise NothingDoneError(f"{name} has no other broker that an unclean election could choose")
    asks = cluster.release.elects_by_hand
    cluster.configure(aim.topic.name, {_UNCLEAN: "false"})
    try:
        with contextlib.closing(cluster.probe()) as probe:
            _leave_alone(cluster, probe, aim, state.leader, others)
            cluster.brokers[state.leader].kill()
            if not asks:
                cluster.configure(aim.topic.name, {_UNCLEAN: "true"})
            for id_ in others:
                cluster.brokers[id_].start()
            _await(
                probe.live_brokers,
                lambda live: live == {*others},
                f"brokers {others} to have sessions",
            )
            how = "after an unclean election"
            if asks:
                try:
                    cluster.elect_unclean(aim.topic.name, aim.partition)
                except LeaderKeptError:
                    how = "as an eligible leader replica"
            look = partial(probe.partition, aim.topic.name, aim.partition)
            leads = f"one of brokers {others} to lead {name}"
            now = _await(look, lambda elected: elected.leader in others, leads)
            yield (
                f"broker {now.leader} leads {name} {how}: only broker {state.leader} was in the ISR"
            )
    finally:
        for other in (*others, state.leader):
            cluster.brokers[other].start()
        cluster.configure(aim.topic.name, {_UNCLEAN: aim.topic.settings()[_UNCLEAN]})


def _leave_alone(
    cluster: Cluster, probe: Probe, aim: FaultTarget, leader: int, others: list[int]
) -> None:
    """Shut every other broker down cleanly, and wait until only the leader is in the ISR."""
    for other in others:
        cluster.brokers[other].stop()
    _await(
        partial(probe.partition, aim.topic.name, aim.partition),
        lambda state: state.isr == (leader,),
        f"broker {leader} to be the only ISR member of {aim.topic.name}-{aim.partition}",
    )


def _await(look: Callable[[], _Seen], until: Callable[[_Seen], bool], what: str) -> _Seen:
    return await_condition(
        look, until, what=what, limit_s=_ELECTED_LIMIT_S, passing=(UnreachableError,)
    )

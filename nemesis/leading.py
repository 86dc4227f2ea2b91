"""Faults that are none: what administrators do to leaders and replicas while records are sent."""

import contextlib
from collections.abc import Iterator

from clusters.cluster import Cluster, PartitionState, UnreachableError
from harness.waiting import await_condition
from nemesis.fault import Aim, aimed

_LOOK_LIMIT_S = 10.0


def _state(cluster: Cluster, aim: Aim) -> PartitionState:
    with contextlib.closing(cluster.probe()) as probe:
        return await_condition(
            lambda: probe.partition(aim.topic.name, aim.partition),
            lambda _: True,
            what=f"somebody to tell who leads {aim.topic.name}-{aim.partition}",
            limit_s=_LOOK_LIMIT_S,
            passing=(UnreachableError,),
        )


def _others(cluster: Cluster, state: PartitionState) -> list[int]:
    """Members of the ISR that run and do not lead."""
    return [
        one for one in state.isr if one != state.leader and cluster.brokers[one].state == "running"
    ]


@aimed("move-leader", at="topic")
def move_leader(cluster: Cluster, aim: Aim) -> Iterator[str]:
    """Move leadership of a partition to another member of the ISR, by a preferred election."""
    name, state = f"{aim.topic.name}-{aim.partition}", _state(cluster, aim)
    heirs = _others(cluster, state)
    if state.leader < 0 or not heirs:
        yield f"{name} has nobody to whom leadership could be moved"
        return
    heir = heirs[int(aim.choice * len(heirs))]
    cluster.move_leader(aim.topic.name, aim.partition, heir)
    yield f"leadership of {name} was moved from broker {state.leader} to broker {heir}"


@aimed("reassign", at="topic")
def reassign(cluster: Cluster, aim: Aim) -> Iterator[str]:
    """Take a follower's replica away; healing assigns it anew, and it copies all there is."""
    name, state = f"{aim.topic.name}-{aim.partition}", _state(cluster, aim)
    others = _others(cluster, state)
    if len(state.isr) < aim.topic.replication_factor or not others:
        yield f"{name} is not whole, and no replica of it is taken away"
        return
    gone = others[int(aim.choice * len(others))]
    left = [one for one in state.isr if one != gone]
    try:
        cluster.reassign(aim.topic.name, aim.partition, left)
        yield f"the replica of {name} on broker {gone} is taken away"
    finally:
        cluster.reassign(aim.topic.name, aim.partition, [*left, gone])

"""Request offsets of times, and the state of coordinators, after the final read of a run.

A consumer can begin at a time instead of an offset (``offsetsForTimes``). The leader searches its
index of timestamps, which may differ from its log after a fault or if a clock goes back.

A coordinator responds from memory while it leads its partition. A broker that becomes coordinator
must load the partition's log. So at the end of a random run the harness moves the leadership of the
coordinators' partitions, and then requests the coordinators' state.

The checkers compare the responses with the logs on disk.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from highwater.clusters.core.interfaces import Cluster, Probe, UnreachableError
from highwater.harness.base.waiting import NotYetError, await_condition
from highwater.harness.clients.final_read import PartitionRead
from highwater.harness.clients.groups.final_offsets import settled
from highwater.harness.releases.catalogue import release
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.recorder import Recorder
from highwater.harness.runs.store import COORDINATOR_TOPICS

_LIMIT_S: Final = 30.0
_LISTED_SINCE: Final = (3, 0)
"""The first release that lists transactions (KIP-664)."""

_LARGEST_SINCE: Final = (3, 0)
"""The first release that finds the largest timestamp (KIP-734)."""

_TRANSACTIONS, _GROUPS, _SHARES = COORDINATOR_TOPICS


class _Coordinators(NamedTuple):
    plan: Plan
    cluster: Cluster
    probe: Probe
    recorder: Recorder


def looks_up_times(plan: Plan) -> bool:
    """Return whether to request offsets of times: from 0.10.1 on (KIP-79), on our own brokers.

    Compaction may remove a record after the request, so compacted topics are left out.
    """
    supported = release(plan.kafka).wire.list_offsets > 0
    return plan.external is None and not plan.topic.compacted and supported


def look_up_times(
    plan: Plan, probe: Probe, recorder: Recorder, reads: Sequence[PartitionRead]
) -> None:
    """Request and record the offsets of the timestamps that the final read returned.

    For each timestamp, also request the next millisecond.

    Raises:
        UnreachableError: a leader does not respond, or has just changed.
    """
    largest = [None] if release(plan.kafka).number >= _LARGEST_SINCE else []
    for read in reads:
        place = (plan.topic.name, read.partition)
        times = sorted({time + more for time in read.times for more in (0, 1)})
        if not times:
            continue
        leader = probe.partition(*place).leader
        if leader < 0:
            raise UnreachableError(f"{plan.topic.name}-{read.partition} has no leader")
        bounds = {"start": probe.log_start(leader, *place), "hw": probe.replica(leader, *place).hw}
        for time in (*times, *largest):
            begun_ns = recorder.clock()
            offset = probe.offset_of(leader, *place, time)
            recorder.lookup(
                {
                    "invoke_ns": begun_ns,
                    "complete_ns": recorder.clock(),
                    "broker": leader,
                    "partition": read.partition,
                    **bounds,
                    "timestamp_ms": time,
                    "offset": offset,
                }
            )


def asks_coordinators(plan: Plan) -> bool:
    """Return whether to request the coordinators' states: a random run must have used them."""
    workload = plan.workload
    used = workload.transactions or workload.subscribe or workload.share
    if not used or plan.story or plan.schedule or plan.program or plan.external:
        return False
    return plan.brokers > 1 and release(plan.kafka).number >= _LISTED_SINCE


def ask_coordinators(
    plan: Plan,
    cluster: Cluster,
    probe: Probe,
    recorder: Recorder,
    *,
    share_group: str,
    ask_group: Callable[[], None],
) -> None:
    """Move the coordinators that a run has used; then request and record their state.

    Args:
        share_group: the name of the run's share group.
        ask_group: requests and records the offsets of the run's group.

    Raises:
        HarnessError: a coordinator could not be moved, or did not respond in time.
    """
    coordinators, workload = _Coordinators(plan, cluster, probe, recorder), plan.workload
    if workload.subscribe:
        _move(coordinators, _GROUPS)
        ask_group()
    if workload.transactions:
        _move(coordinators, _TRANSACTIONS)
        _ask(coordinators, _TRANSACTIONS, lambda leader: _transactions(probe, leader))
    if workload.share:
        _move(coordinators, _SHARES)
        if not workload.subscribe:
            _move(coordinators, _GROUPS)
        _ask(coordinators, _SHARES, lambda _: _starts(coordinators, share_group))


def _move(coordinators: _Coordinators, topic: str) -> None:
    """Move leadership of a coordinator's partition to another member of the ISR."""
    others = await_condition(
        lambda: _others(coordinators, topic),
        bool,
        what=f"two brokers in the ISR of {topic}-0",
        limit_s=_LIMIT_S,
        passing=(UnreachableError,),
    )
    coordinators.cluster.move_leader(topic, 0, others[0])


def _others(coordinators: _Coordinators, topic: str) -> list[int]:
    state = coordinators.probe.partition(topic, 0)
    return [broker for broker in state.isr if broker != state.leader] if state.leader >= 0 else []


def _ask(
    coordinators: _Coordinators,
    topic: str,
    look: Callable[[int], tuple[dict[str, object], ...]],
) -> None:
    """Repeat a request until responses and log no longer change; record the last responses.

    Args:
        look: requests the coordinator's state from a broker, and returns rows of ``ANSWERS``.
    """
    _, _, probe, recorder = coordinators

    def ask() -> tuple[int, int, tuple[dict[str, object], ...]]:
        begun_ns, leader = recorder.clock(), probe.partition(topic, 0).leader
        if leader < 0:
            raise NotYetError(f"{topic}-0 has no leader")
        return begun_ns, probe.replica(leader, topic, 0).hw, look(leader)

    begun_ns, end, rows = settled(
        ask, what=f"the coordinator of {topic} to return its states", passing=(UnreachableError,)
    )
    times = {"invoke_ns": begun_ns, "complete_ns": recorder.clock()}
    for row in rows:
        recorder.answer({**times, "topic": topic, "end": end, **row})


def _transactions(probe: Probe, leader: int) -> tuple[dict[str, object], ...]:
    return tuple(
        {
            "name": state.name,
            "partition": 0,
            "state": state.state,
            "producer_id": state.producer_id,
            "epoch": state.epoch,
        }
        for state in sorted(probe.transactions(leader), key=lambda state: state.name)
    )


def _starts(coordinators: _Coordinators, group: str) -> tuple[dict[str, object], ...]:
    """Return a share group's start offset in each partition, as rows; its coordinator loads it."""
    plan, _, probe, _ = coordinators
    numbers = range(plan.topic.partitions)
    leader = probe.partition(_GROUPS, 0).leader
    starts = probe.share_starts(leader, group, plan.topic.name, numbers)
    return tuple(
        {"name": group, "partition": number, "offset": start}
        for number, start in sorted(starts.items())
    )

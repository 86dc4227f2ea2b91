"""Wait until no HW-lag window is open anywhere."""

from collections.abc import Collection, Mapping

from highwater.clusters.core.interfaces import Probe, ReplicaState, UnreachableError
from highwater.harness.base.waiting import await_condition


def await_settled(
    probe: Probe,
    topic: str,
    partition: int,
    replicas: Collection[int],
    *,
    offset: int | None = None,
    limit_s: float = 60.0,
) -> int:
    """Wait until LEO and HW of all replicas are one offset, so that no window is open anywhere.

    Args:
        offset: the LEO to wait for; None: any LEO on which all replicas agree.

    Returns:
        The LEO of all replicas.

    Raises:
        WaitTimeoutError: the replicas did not agree within the limit.
    """

    def settled(seen: Mapping[int, ReplicaState]) -> bool:
        marks = {mark for state in seen.values() for mark in (state.leo, state.hw)}
        return len(marks) == 1 and (offset is None or offset in marks)

    seen = await_condition(
        lambda: {broker: probe.replica(broker, topic, partition) for broker in replicas},
        settled,
        what=f"brokers {sorted(replicas)} to agree on LEO and HW of {topic}-{partition}",
        limit_s=limit_s,
        passing=(UnreachableError,),
    )
    return next(iter(seen.values())).leo

"""Request the offsets of times from the leaders at the end of a run.

A consumer can begin at a time instead of an offset (``offsetsForTimes``). The leader searches its
index of timestamps, which faults and clocks that go back may leave behind the log. The checker
``wrong-lookup`` compares the responses with the leader's disk.
"""

from collections.abc import Sequence
from typing import Final

from highwater.clusters.core.interfaces import Probe
from highwater.harness.clients.final_read import PartitionRead
from highwater.harness.releases.catalogue import release
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.recorder import Recorder

_LARGEST_SINCE: Final = (3, 0)
"""The first release that finds the largest timestamp (KIP-734)."""


def looks_up_times(plan: Plan) -> bool:
    """Return whether to request offsets of times: from 0.11 on, on our own brokers.

    Compaction may remove a record after the request, so compacted topics are left out.
    """
    compacted = "compact" in plan.topic.config.get("cleanup.policy", "")
    return plan.external is None and not compacted and release(plan.kafka).wire.list_offsets > 0


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

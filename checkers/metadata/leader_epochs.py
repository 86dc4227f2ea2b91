"""``shared-epoch``: a leader epoch of a partition in which two leaders were observed.

This is Kafka's form of Raft's election safety. A follower compares leader epochs to find the offset
at which its log diverges from the leader's log (KIP-101), and a leader refuses requests with
another epoch (KIP-320). Both checks fail if two brokers lead in the same epoch. The controller
increments the epoch with every leader that it elects (``PartitionChangeBuilder``; on ZooKeeper
``PartitionStateMachine``).
"""

from typing import Any, Final

import pyarrow as pa

from highwater.checkers.core.anomaly import SCHEMA
from highwater.checkers.core.anomaly_kinds import Kind, Severity
from highwater.checkers.core.checker import checker
from highwater.checkers.core.promises import always
from highwater.checkers.run_tables import Tables

_KIND: Final = "shared-epoch"
_PARTITIONS: Final = "events/partitions"
_COLUMNS: Final = ["topic", "partition", "leader_epoch", "leader"]


def _says(row: dict[str, Any]) -> str:
    first, *others = row["copies"]
    brokers = ", ".join(str(copy["broker"]) for copy in others)
    return (
        f"Broker {first['broker']} was the leader of {row['topic']}-{row['partition']} in leader "
        f"epoch {first['leader_epoch']}, but broker {brokers} was also its leader in this epoch."
    )


@checker(
    Kind(
        _KIND,
        guarantee="A leader epoch of a partition has one leader.",
        singular="leader epoch has more than one leader",
        plural="leader epochs have more than one leader",
        severity=Severity.CRITICAL,
        promise="election: two leaders never have the same epoch (KIP-101)",
        breaks=always,
        says=_says,
    )
)
def shared_epoch(tables: Tables) -> pa.Table:
    """Return the leader epochs with two leaders.

    Epochs that are unknown or without a leader do not count.
    """
    anomalies = []
    for case in tables.cases:
        leaders: dict[tuple[str, int, int], set[int]] = {}
        for row in case.rows(_PARTITIONS, _COLUMNS):
            topic, partition, epoch, leader = row.values()
            if epoch is not None and min(epoch, leader) >= 0:
                leaders.setdefault((topic, partition, epoch), set()).add(leader)
        anomalies += [
            {
                "run": case.key,
                "kind": _KIND,
                "topic": topic,
                "partition": partition,
                "copies": [
                    {"broker": broker, "partition": partition, "leader_epoch": epoch}
                    for broker in sorted(brokers)
                ],
            }
            for (topic, partition, epoch), brokers in sorted(leaders.items())
            if len(brokers) > 1
        ]
    return pa.Table.from_pylist(anomalies, schema=SCHEMA)

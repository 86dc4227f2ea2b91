"""The record counts of each partition (its ledger), and the last offset of the final read."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from highwater.checkers.core.derived import derived
from highwater.checkers.history.columns import schema
from highwater.checkers.history.view import ClientHistory, client_view
from highwater.checkers.run_files import RunFiles
from highwater.checkers.run_tables import Tables

LIMIT: Final = schema("slot", "reach", "complete", complete=pa.bool_())
"""The offset that the final read reached in a partition (``slot``). ``complete`` is true if the
final read reached the partition's end. All records without a known partition share one ``slot``,
which is complete if all partitions are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLedger:
    """The record counts of one partition, and the offset that the final read reached.

    Attributes:
        partition: None for the records whose sends got no response, so that their partition is
            unknown.
        read: acknowledged records that the final read returned.
        missing: acknowledged records that the final read did not return.
        again: records that the final read returned at two or more offsets.
        last: the greatest offset that the final read returned; None if it returned nothing.
        complete: whether the final read returned the fence, the partition's last record.
    """

    run: str
    topic: str
    partition: int | None
    sent: int = 0
    acknowledged: int = 0
    failed: int = 0
    unknown: int = 0
    read: int = 0
    missing: int = 0
    again: int = 0
    last: int | None = None
    complete: bool = False


def ledgers(view: ClientHistory, cases: Sequence[RunFiles]) -> list[PartitionLedger]:
    """Return the record counts of every partition that clients used, in every run."""
    topics = {case.key: case.plan.topic for case in cases}
    names = ("sent", "acknowledged", "failed", "unknown", "read", "missing", "again", "complete")
    rows = view.names.join(view.sums, "slot", join_type="inner").to_pylist()
    return [
        PartitionLedger(
            **{name: row[name] for name in ("run", "topic", "partition", *names)}, last=row["reach"]
        )
        for row in rows
        if (topic := topics[row["run"]]).name == row["topic"]
        and (row["partition"] is None or row["partition"] < topic.partitions)
    ]


@derived
def partition_ledgers(tables: Tables) -> list[PartitionLedger]:
    """Return the record counts of every partition of the judged runs."""
    return ledgers(client_view(tables), tables.cases)


def limits(
    names: pa.Table, cases: Sequence[RunFiles], ledgers: Sequence[PartitionLedger]
) -> pa.Table:
    """Return the offset that the final read reached in each partition, as ``LIMIT`` rows."""
    limits = {
        (ledger.run, ledger.topic, ledger.partition): (ledger.last, ledger.complete)
        for ledger in ledgers
    }
    complete = Counter(
        ledger.run for ledger in ledgers if ledger.partition is not None and ledger.complete
    )
    for case in cases:
        topic = case.plan.topic
        if (
            case.compacted
        ):  # the record that replaced a record may come after the last offset that was read
            limits |= {
                place: (None, whole) for place, (_, whole) in limits.items() if place[0] == case.key
            }
        limits[case.key, topic.name, None] = (None, complete[case.key] >= topic.partitions)
    rows = []
    for name in names.to_pylist():
        place = (name["run"], name["topic"], name["partition"])
        if place in limits:
            reach, whole = limits[place]
            rows.append({"slot": name["slot"], "reach": reach, "complete": whole})
    return pa.Table.from_pylist(rows, LIMIT)

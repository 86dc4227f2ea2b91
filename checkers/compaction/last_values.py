"""The last value of each key, as the final read returns it from a compacted topic.

Compaction removes a record after a later record of the same key. It removes a tombstone after
``delete.retention.ms``. So an acknowledged record that the final read did not return is lost,
except in these cases:

- *The log has a later record of the key.* The final read returned a record at a greater offset. Or,
  at any offset, it returned a record that was sent after this record was acknowledged, because a
  truncated log uses offsets again.
- *A later tombstone may have been removed.* Kafka may remove a tombstone that was sent at least
  ``delete.retention.ms`` before the final read ended. It is later if it has a greater offset or an
  unknown offset, or was sent after this record was acknowledged.
- *The record is itself such a tombstone.*

Aborted records replace no record. Each of these cases also explains a missing record with an
unknown offset.

``resurrected-value``: the final read returned a value as the last record of a key, but a tombstone
was acknowledged at a greater offset. Kafka removes a tombstone only after all records that it
replaces (KIP-354, LogCleaner). So the tombstone was lost or removed too early, and readers get a
deleted value. There is no anomaly if a later value may have replaced the tombstone. Nor is there
one if the final read took ``delete.retention.ms`` or longer: after the reader got the value, the
cleaner may have removed value and tombstone.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from highwater.checkers.core.anomaly_kinds import RESURRECTED, Kind, Severity
from highwater.checkers.core.checker import checker
from highwater.checkers.core.derived import derived
from highwater.checkers.core.promises import if_acknowledged_is_kept
from highwater.checkers.history import row_flags as flags
from highwater.checkers.history.columns import (
    NONE,
    Bools,
    Groups,
    Numbers,
    any_of,
    arrow,
    grouped,
    look_up_columns,
    numbers,
    schema,
)
from highwater.checkers.history.findings import FINDING, OF_LAST, mix, reference, steps
from highwater.checkers.history.record_summaries import read_at_the_end
from highwater.checkers.history.view import ClientHistory, client_view
from highwater.checkers.run_files import RunFiles
from highwater.checkers.run_tables import Tables
from highwater.checkers.spark.engine import Rows
from highwater.harness.runs.derived_settings import DELETE_RETENTION
from highwater.harness.runs.topics.record_keys import DELETES, WRITES

DAY_MS: Final = 24 * 60 * 60 * 1000
"""The default of ``delete.retention.ms``."""

_INPUT: Final = (
    *("run", "slot", "key", "value", "fact", "offset", "invoke_ns", "complete_ns"),
    *("client", "at"),
)
KEYED: Final = schema(
    *("slot", "named", "key", "fact", "offset", "invoke_ns", "complete_ns", "client", "at"),
    "tombstone",
    fact=pa.int32(),
    tombstone=pa.bool_(),
)
"""A row about a record that has a key. ``named`` is a number that stands for the record's key."""

SPAN: Final = schema("slot", "begun", "ended")
LIMIT: Final = schema("slot", "begun", "ended", "retention_ns")
"""When a partition's final read began and ended, and how long Kafka retains a tombstone."""

REPLACED: Final = schema("key")
_KEY: Final = rf"^k(?P<key>[0-9]+)(?P<op>[{WRITES}{DELETES}])"


class LastValues(NamedTuple):
    """The results for all runs with compacted topics.

    Attributes:
        replaced: the acknowledged records that compaction may have removed, as ``REPLACED`` rows.
        resurrected: deleted values that the final read returned, as ``FINDING`` rows.
    """

    replaced: Rows
    resurrected: Rows


def last_values(view: ClientHistory, cases: Sequence[RunFiles]) -> LastValues | None:
    """Return the ``LastValues`` of all runs whose records have keys; None without such a run."""
    keyed_cases = [case for case in cases if case.plan.workload.keys]
    if not keyed_cases:
        return None
    rows = view.everything.select(_INPUT).only("run", *(case.key for case in keyed_cases))
    rows = rows.where(flags.SENT | flags.SEEN)
    spans = rows.where(flags.IN_FINAL).where(flags.SEEN).by(["slot"], final_spans, SPAN).table()
    retention_ns = {case.key: retention_ms(case) * 1_000_000 for case in keyed_cases}
    limits = limits_of(spans, view.names, retention_ns)
    keyed_rows = rows.map(keyed, KEYED).persist()
    by = ["slot", "named"]
    return LastValues(
        keyed_rows.by(by, partial(replaced, limits=limits), REPLACED).persist(),
        keyed_rows.by(by, partial(resurrected, limits=limits), FINDING),
    )


@derived
def keyed_values(tables: Tables) -> LastValues | None:
    """Return the ``LastValues`` of all runs whose records have keys; None without such a run."""
    return last_values(client_view(tables), tables.cases)


def without_keys(_tables: Tables, case: RunFiles) -> str:
    """Return why the last values of a run cannot be judged; empty if its records have keys."""
    return "" if case.plan.workload.keys else "records had no keys"


@checker(
    Kind(
        RESURRECTED,
        guarantee="A reader does not get a value that was deleted from a compacted topic.",
        singular="value that a tombstone had deleted came back",
        plural="values that tombstones had deleted came back",
        severity=Severity.CRITICAL,
        promise="compaction: a tombstone is removed after all records that it deletes (KIP-354)",
        breaks=if_acknowledged_is_kept,
    ),
    idle=without_keys,
)
def resurrected_values(tables: Tables) -> Rows | None:
    """Return deleted values that the final read returned."""
    values = keyed_values(tables)
    return None if values is None else values.resurrected


def replaced_of(view: ClientHistory, values: LastValues) -> dict[str, int]:
    """Return the number of records that compaction may have removed, by the run's key."""
    rows = view.everything.select(["run", "key", "fact"]).where(flags.SENT)
    gone = rows.join(values.replaced, ["key"], "semi").distinct(["run", "key"])
    counts = gone.group_by("run").aggregate([([], "count_all")]).to_pylist()
    return {row["run"]: row["count_all"] for row in counts}


def retention_ms(case: RunFiles) -> int:
    """Return how long the topic of a run retains a tombstone, in milliseconds."""
    return int(case.plan.topic.config.get(DELETE_RETENTION, DAY_MS))


def limits_of(spans: pa.Table, names: pa.Table, retention_ns: dict[str, int]) -> pa.Table:
    """Return ``LIMIT`` rows: the times of each final read, and the run's tombstone retention."""
    runs = dict(zip(names["slot"].to_pylist(), names["run"].to_pylist(), strict=True))
    retention = [retention_ns[runs[slot]] for slot in spans["slot"].to_pylist()]
    return spans.append_column("retention_ns", pa.array(retention, pa.int64()))


def final_spans(rows: pa.Table) -> pa.Table:
    """Return when each partition's final read began and ended, as ``SPAN`` rows.

    All rows of one ``slot`` must be in one table. All of them are rows of the final read.
    """
    columns, slot = grouped(numbers(rows, ("slot", "invoke_ns", "complete_ns")), "slot")
    return arrow(
        {
            "slot": columns["slot"][slot.first],
            "begun": slot.least(columns["invoke_ns"]),
            "ended": slot.greatest(columns["complete_ns"]),
        },
        SPAN,
    )


def keyed(rows: pa.Table) -> pa.Table:
    """Return the rows about records that have keys, as ``KEYED`` rows."""
    parts = pc.extract_regex(rows["value"], _KEY)
    rows, parts = rows.filter(parts.is_valid()), parts.filter(parts.is_valid())
    deletes = pc.equal(pc.struct_field(parts, "op"), DELETES)
    named = pc.struct_field(parts, "key").cast(pa.int64())
    table = rows.drop_columns(["run", "value"])
    table = table.append_column("named", named).append_column("tombstone", deletes)
    return table.select(KEYED.names)


def replaced(rows: pa.Table, *, limits: pa.Table) -> pa.Table:
    """Return acknowledged records that compaction may have removed.

    All rows of one ``slot`` and ``named`` must be in one table.

    Args:
        rows: rows of ``KEYED``.
        limits: rows of ``LIMIT``. A partition without a row is not judged.
    """
    record, key = _records(rows, limits)
    stands, gone = record["there"] != NONE, record["expired"]
    placed = record["offered"] != NONE
    begun, offered = record["begun"], record["offered"]
    last_offset, last_begun = key.greatest(record["there"], stands), key.greatest(begun, stands)
    gone_offset, gone_begun = key.greatest(offered, gone & placed), key.greatest(begun, gone)
    anywhere = key.any(gone & ~placed)
    explained = gone | key.spread(anywhere)
    explained |= key.spread(np.maximum(last_offset, gone_offset)) > offered
    explained |= key.spread(np.maximum(last_begun, gone_begun)) > record["answered"]
    missing = record["acknowledged"] & ~stands
    return arrow({"key": record["key"][missing & explained]}, REPLACED)


def resurrected(rows: pa.Table, *, limits: pa.Table) -> pa.Table:
    """Return deleted values that the final read returned.

    All rows of one ``slot`` and ``named`` must be in one table.

    Args:
        rows: rows of ``KEYED``.
        limits: rows of ``LIMIT``.
    """
    record, key = _records(rows, limits)
    stands = record["there"] != NONE
    last_offset = key.greatest(record["there"], stands)
    last_begun = key.greatest(record["begun"], stands)
    deletes = record["acknowledged"] & record["tombstone"] & ~stands & record["timely"]
    deletes &= (record["offered"] > key.spread(last_offset)) & key.spread(key.any(stands))
    deletes &= key.spread(last_begun) <= record["answered"]
    last = key.first_place(stands & (record["there"] == key.spread(last_offset)))
    tombstone = key.first_place(
        deletes & (record["offered"] == key.spread(key.greatest(record["offered"], deletes)))
    )
    back = (tombstone != NONE) & (last != NONE)
    back &= ~np.append(record["tombstone"], True)[np.where(last == NONE, -1, last)]
    last, tombstone = last[back], tombstone[back]
    sent = reference(record, tombstone)
    read = record["read_by"][last], record["read_at"][last]
    number = mix(mix(record["slot"][last], record["key"][last]), record["key"][tombstone])
    return steps(RESURRECTED, number, [sent, read], fault=OF_LAST, offset=record["there"][last])


def _records(rows: pa.Table, limits: pa.Table) -> tuple[Numbers, Groups]:
    """Return columns with one value for each record, and the groups of records with one key.

    ``offered``: the offset at which the record was acknowledged. ``there``: the last offset at
    which the final read returned the record. ``expired``: the record is a tombstone that compaction
    may have removed. ``timely``: the final read took less time than Kafka retains tombstones.
    """
    columns, group = grouped(numbers(rows, KEYED.names), "slot", "named", "key", then=("at",))
    fact, offset = columns["fact"], columns["offset"]
    sent, sent_ok = any_of(fact, flags.SENT), any_of(fact, flags.SENT_OK)
    read_back = read_at_the_end(columns)
    there = group.greatest(offset, read_back)
    reading = group.first_place(read_back & (offset == group.spread(there)))
    record = {
        **{name: columns[name][group.first] for name in ("slot", "named", "key", "tombstone")},
        "acknowledged": group.any(sent_ok),
        "offered": group.greatest(offset, sent_ok),
        "begun": group.least(columns["invoke_ns"], sent),
        "answered": group.greatest(columns["complete_ns"], sent_ok),
        "there": there,
    }
    record["client"], record["at"] = reference(columns, group.first_place(sent_ok))
    record["read_by"], record["read_at"] = reference(columns, reading)
    limit = look_up_columns(limits, "slot", record["slot"])
    possible: Bools = group.any(any_of(fact, flags.SENT_OK | flags.SENT_INFO))
    possible &= record["tombstone"] & (there == NONE) & (limit["ended"] != NONE)
    record["expired"] = possible & (record["begun"] <= limit["ended"] - limit["retention_ns"])
    record["timely"] = (limit["begun"] != NONE) & (
        limit["ended"] - limit["begun"] < limit["retention_ns"]
    )
    return record, Groups.of(record["slot"], record["named"])

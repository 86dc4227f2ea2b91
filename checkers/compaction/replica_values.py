"""``stale-replica``: one replica's disk has an older last value of a key than another replica's.

Each replica cleans its own log, so replicas may hold different offsets. But a read_committed reader
must get the same last record of a key from each replica. A replica is stale if it returns no record
of the key, or an earlier record than another replica. It is not stale in these cases:

- The last record is a tombstone, and the replica holds no record of the key. Each replica removes a
  tombstone at its own time, after all records that the tombstone replaces.
- The replica's log ends before that record, or before the marker that commits the record's
  transaction.
- Its broker stopped while the cleaner replaced segments. The broker completes the replacement at
  its next start.
- The run did not quiesce, and the record or its marker is not below the checkpointed high watermark
  of every replica. Or the replica has written more since then, and holds a later record of the key
  or none: a later record may have removed this one.

A transaction's records are compared only if the log has its commit marker. Compaction retains the
marker as long as any of these records exists (CleanedTransactionMetadata). Aborted records are
never compared.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from highwater.checkers.compaction.last_values import without_keys
from highwater.checkers.core.anomaly import SCHEMA
from highwater.checkers.core.anomaly_kinds import STALE_REPLICA, Kind, Severity
from highwater.checkers.core.checker import checker, without_disks
from highwater.checkers.core.promises import AGREED, always
from highwater.checkers.disks.divergence import REPLICA_ROWS, ComparedReplica, compared_replicas
from highwater.checkers.history.columns import (
    NONE,
    Numbers,
    arrow,
    choose,
    grouped,
    look_up_columns,
    numbers,
    schema,
)
from highwater.checkers.inspection.replica_extents import LogExtent
from highwater.checkers.run_files import RunFiles
from highwater.checkers.run_tables import Tables
from highwater.checkers.spark import kafka_log
from highwater.harness.runs.history import FAIL, SEND

Row = dict[str, Any]

_COLUMNS: Final = (
    *("run", "broker", "topic", "partition", "offset", "producer_id"),
    *("transactional", "control", "control_type", "key", "value", "record_id"),
)
ON_DISK: Final = schema(
    *("part", "replica", "named", "offset", "writer", "marker", "tombstone"), tombstone=pa.bool_()
)
"""A record on a disk, or a marker. ``named`` is a hash of the record's key. ``writer`` is the
producer id, if the row is part of a transaction. ``marker`` (COMMIT or ABORT) is the end of this
transaction."""

_ABORTED: Final = "its transaction was aborted"
COMMIT: Final = 1
ABORT: Final = 2

VISIBLE: Final = schema(
    *("part", "replica", "named", "offset", "since", "tombstone"), tombstone=pa.bool_()
)
"""A record that a read_committed reader gets if it reads up to the offset ``since``."""

REPLICAS: Final = schema("part", "replica", "leo", "bound")
"""A replica of a partition. Only its records and markers below the offset ``bound`` are judged."""

STALE: Final = schema("part", "replica", "named", "offset", "yields")
"""A replica whose last record of a key is too old. The replica's last record is at the offset
``yields`` (null: the replica has no record). The key's last record is at the greater ``offset``."""


def _says(row: Row) -> str:
    stale, last = row["copies"][0], row["copies"][-1]
    where = f"{row['topic']}-{row['partition']}"
    last_record = (
        f"{stale['value']} at offset {stale['offset']}"
        if stale["offset"] is not None
        else "no record"
    )
    sentence = (
        f"{where}: the disk of broker {stale['broker']} has {last_record} as the last record of the"
        f" key of {last['value']}, which broker {last['broker']} has at offset {last['offset']}."
    )
    return f"{sentence} The later record was aborted." if last["note"] else sentence


def _not_keyed(tables: Tables, case: RunFiles) -> str:
    return without_disks(tables, case) or without_keys(tables, case)


@checker(
    Kind(
        STALE_REPLICA,
        guarantee="Every replica's disk has the same last value of each key.",
        singular="last value of a key differs on a replica's disk",
        plural="last values of keys differ on replicas' disks",
        severity=Severity.CRITICAL,
        promise=AGREED,
        breaks=always,
        says=_says,
    ),
    idle=_not_keyed,
)
def stale_replica(tables: Tables) -> pa.Table:
    """Return the replicas whose last record of a key is earlier than another replica's."""
    keyed = {case.key for case in tables.cases if case.plan.workload.keys}
    replicas = [
        replica
        for replica in compared_replicas(tables)
        if replica.case.key in keyed and not replica.end.damaged and not _swaps(replica)
    ]
    if not replicas:
        return SCHEMA.empty_table()
    log = _log(tables, replicas)
    rows = tables.engine.few(log.select(*ON_DISK.names), ON_DISK)
    kernel = partial(stale, replicas=replica_table(replicas))
    pairs = rows.by(["replica"], visible, VISIBLE).by(["part"], kernel, STALE).table()
    return _anomalies(tables, log, replicas, pairs) if len(pairs) else SCHEMA.empty_table()


def _swaps(replica: ComparedReplica) -> bool:
    """Return whether the broker stopped while its cleaner replaced segments (``.swap`` files)."""
    end = replica.end
    folder = replica.case.log_directories / str(end.broker) / f"{end.topic}-{end.partition}"
    return any(folder.glob("*.swap"))


def replica_table(replicas: Iterable[ComparedReplica]) -> pa.Table:
    """Return the replicas as ``REPLICAS`` rows."""
    rows = [
        {
            "part": replica.part,
            "replica": replica.number,
            "leo": -1 if replica.end.last is None else replica.end.last + 1,
            "bound": replica.bound,
        }
        for replica in replicas
    ]
    return pa.Table.from_pylist(rows, REPLICAS)


def _log(tables: Tables, replicas: list[ComparedReplica]) -> DataFrame:
    keys = {replica.case.key for replica in replicas}
    segments = [segment for case in tables.cases if case.key in keys for segment in case.segments]
    given = pa.Table.from_pylist([replica.row for replica in replicas], schema=REPLICA_ROWS)
    place = ["run", "broker", "topic", "partition"]
    numbered = F.broadcast(tables.local(given.select([*place, "part", "replica"])))
    log = kafka_log.read_segments(tables.spark, segments, _COLUMNS).join(numbered, place)
    marker = F.when(F.col("control_type") == "commit", COMMIT).otherwise(ABORT)
    return log.where(F.col("offset").isNotNull()).select(
        *(F.col(name).cast("long").alias(name) for name in ("part", "replica")),
        F.xxhash64("key").alias("named"),
        "offset",
        F.when(F.col("transactional"), F.col("producer_id")).alias("writer"),
        F.when(F.col("control"), marker).cast("long").alias("marker"),
        F.col("value").isNull().alias("tombstone"),
        "record_id",
    )


def visible(rows: pa.Table) -> pa.Table:
    """Return the records that read_committed readers get, as ``VISIBLE`` rows.

    ``rows`` are ``ON_DISK`` rows. All rows of one ``replica`` must be in one table.
    """
    columns, writer = grouped(numbers(rows, ON_DISK.names), "replica", "writer", then=("offset",))
    marker, offset = columns["marker"], columns["offset"]
    is_marker = np.isin(marker, (COMMIT, ABORT))
    # For each row, find the first later marker of its producer, from the last row to the first.
    size = len(offset)
    place = np.where(is_marker, np.arange(size), size)
    nearest = np.minimum.accumulate(place[::-1])[::-1]
    end = np.where(nearest > writer.spread(writer.last), NONE, nearest)
    ended = end != NONE
    by_whom = np.where(ended, end, 0)
    single = columns["writer"] == NONE
    commits = ended & (marker[by_whom] == COMMIT)
    columns["since"] = np.where(single, offset, offset[by_whom])
    return arrow(choose(columns, ~is_marker & (single | commits)), VISIBLE)


def stale(rows: pa.Table, *, replicas: pa.Table) -> pa.Table:
    """Return the replicas whose last record of a key is too old, as ``STALE`` rows.

    ``rows`` are ``VISIBLE`` rows, ``replicas`` are ``REPLICAS`` rows. All rows of one ``part`` must
    be in one table.
    """
    everything = numbers(rows, VISIBLE.names)
    limit = look_up_columns(replicas.select(["replica", "bound"]), "replica", everything["replica"])
    columns = choose(everything, everything["since"] < limit["bound"])
    if not len(columns["part"]):
        return STALE.empty_table()
    ordered, key = grouped(columns, "part", "named", then=("offset",))
    last = choose(ordered, key.last)
    # Replicas may have different records at this offset. Then the earliest marker counts, and the
    # record is a tombstone only if all of these replicas have a tombstone.
    at_last = ordered["offset"] == key.spread(last["offset"])
    last["since"] = key.least(ordered["since"], at_last)
    last["tombstone"] = ~key.any(at_last & ~ordered["tombstone"])
    by_replica, pair = grouped(everything, "part", "named", "replica", then=("offset",))
    yielded = choose(by_replica, pair.last)
    return _behind(last, yielded, numbers(replicas))


def _behind(last: Numbers, yielded: Numbers, replicas: Numbers) -> pa.Table:
    """Return the replicas whose last record of a key differs from ``last``, as ``STALE`` rows."""
    tables = [STALE.empty_table()]
    pair = _pairs(yielded)
    fields = (replicas[name] for name in REPLICAS.names)
    for part, number, leo, bound in zip(*fields, strict=True):
        due = choose(last, (last["part"] == part) & (last["since"] < leo))
        by_key = pair.get(int(number), {})
        place = np.array([by_key.get(int(named), NONE) for named in due["named"]], np.int64)
        yields_any = place != NONE
        safe = np.where(yields_any, place, 0)
        yields = np.where(yields_any, yielded["offset"][safe], NONE) if len(place) else place
        wrong = np.where(yields_any, yields < due["offset"], (leo <= bound) & ~due["tombstone"])
        rows = {
            **{name: due[name] for name in ("part", "named", "offset")},
            "replica": np.full(len(place), number),
            "yields": yields,
        }
        if wrong.any():
            tables.append(arrow(choose(rows, wrong), STALE))
    return pa.concat_tables(tables)


def _pairs(yielded: Numbers) -> dict[int, dict[int, int]]:
    """Return the index of each last record in ``yielded``, by replica and then by key."""
    places: dict[int, dict[int, int]] = {}
    rows = zip(yielded["replica"].tolist(), yielded["named"].tolist(), strict=True)
    for place, (replica, named) in enumerate(rows):
        places.setdefault(replica, {})[named] = place
    return places


def _anomalies(
    tables: Tables, log: DataFrame, replicas: list[ComparedReplica], pairs: pa.Table
) -> pa.Table:
    keys = pairs.group_by(["part", "named"]).aggregate([])
    rows = log.join(F.broadcast(tables.local(keys)), ["part", "named"]).where("marker is null")
    names = {
        (row["part"], row["replica"], row["offset"]): row["record_id"] for row in rows.collect()
    }
    by_number = {replica.number: replica for replica in replicas}
    behind_at: dict[tuple[int, int], set[int]] = {}
    for pair in pairs.to_pylist():
        behind_at.setdefault((pair["part"], pair["named"]), set()).add(pair["replica"])
    aborted = _aborted(tables, filter(None, names.values()))
    anomalies = []
    for pair in pairs.to_pylist():
        behind, offset = by_number[pair["replica"]].end, pair["offset"]
        holders = {n for part, n, at in names if (part, at) == (pair["part"], offset)}
        ahead = min(holders - behind_at[pair["part"], pair["named"]])
        value = names[pair["part"], ahead, offset]
        note = _ABORTED if (behind.run, value) in aborted else None
        yielded = names.get((pair["part"], pair["replica"], pair["yields"]))
        copies = [
            _copy(behind, pair["yields"], yielded),
            _copy(by_number[ahead].end, offset, value) | {"note": note},
        ]
        place = {"topic": behind.topic, "partition": behind.partition, "offset": offset}
        row = {"run": behind.run, "kind": STALE_REPLICA, "value": value, "copies": copies}
        anomalies.append(place | row)
    return pa.Table.from_pylist(anomalies, SCHEMA)


def _aborted(tables: Tables, values: Iterable[str]) -> set[tuple[str, str]]:
    sends = tables.operations.where((F.col("kind") == SEND) & (F.col("outcome") == FAIL))
    rows = sends.where(F.col("value").isin(sorted(values))).select("run", "value")
    return {(row["run"], row["value"]) for row in rows.collect()}


def _copy(end: LogExtent, offset: int | None, value: str | None) -> Row:
    note = "no record of the key" if offset is None else None
    place = {"broker": end.broker, "partition": end.partition, "offset": offset}
    return place | {"value": value, "note": note}

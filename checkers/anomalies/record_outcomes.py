"""Decide the outcome of every record that was sent, from the clients' history only.

The first pass counts the records of each outcome, and finds the offsets that the final read covers.
Then rows are read again only for records that the final read did not return, or returned at two
offsets.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from highwater.checkers.anomalies.deleted_records import deleted_counts, deleted_records
from highwater.checkers.anomalies.missing_records import missing_records
from highwater.checkers.anomalies.vanished_reads import read_counts
from highwater.checkers.compaction.last_values import keyed_values, replaced_of
from highwater.checkers.core.anomaly_kinds import DUPLICATE, LOST, UNSEEN
from highwater.checkers.history import row_flags as flags
from highwater.checkers.history.columns import (
    NONE,
    Bools,
    Ints,
    Numbers,
    any_of,
    choose,
    grouped,
    look_up_columns,
    numbers,
)
from highwater.checkers.history.findings import COPY, FINDING, SUBJECT, findings, reference
from highwater.checkers.history.partition_ledgers import PartitionLedger, limits, partition_ledgers
from highwater.checkers.history.record_summaries import (
    DOUBTFUL,
    OF_FINAL_READS,
    bits,
    read_at_the_end,
)
from highwater.checkers.history.view import ClientHistory, client_view
from highwater.checkers.run_files import RunFiles
from highwater.checkers.run_tables import Tables
from highwater.checkers.spark.engine import Rows

_LEDGER: Final = {LOST: "lost", UNSEEN: "unseen"}
"""For each kind of missing record: the field of ``harness.runs.verdict.Ledger`` that counts it."""

_READ_NOTE: Final = "a reader received it"


def outcomes(tables: Tables) -> Rows:
    """Return findings about lost, unseen and duplicate records in Highwater's own runs."""
    values, replaced = keyed_values(tables), deleted_records(tables)
    if values is not None:
        replaced = values.replaced if replaced is None else values.replaced.union(replaced)
    return decided(client_view(tables), tables.cases, partition_ledgers(tables), replaced)


def decided(
    view: ClientHistory,
    cases: Sequence[RunFiles],
    ledgers: Sequence[PartitionLedger],
    replaced: Rows | None = None,
) -> Rows:
    """Return findings about lost, unseen and duplicate records.

    Args:
        ledgers: the record counts of all partitions in ``cases``.
        replaced: the ``key`` of each record that compaction or an administrator may have removed.
    """
    if not any(ledger.missing or ledger.again for ledger in ledgers):
        return view.engine.table(FINDING.empty_table())
    rows = view.doubtful.where(bits(*OF_FINAL_READS), "doubts")
    if replaced is not None:
        rows = rows.join(replaced, ["key"], "anti")
    adrift = view.adrift.select(["key", "there"])
    if all(ledger.partition is not None for ledger in ledgers):
        adrift = adrift.slice(0, 0)
    return rows.by(
        ["key"], partial(fates, limits=limits(view.names, cases, ledgers), adrift=adrift), FINDING
    )


def fates(rows: pa.Table, *, limits: pa.Table, adrift: pa.Table) -> pa.Table:
    """Return findings about lost, unseen and duplicate records.

    All rows of one ``key`` must be in one table. ``checkers.anomalies.missing_records`` defines
    lost and unseen. Only the final reader counts. It passed a record if it reached the record's
    offset, or read the record's partition to the end. If the partition is unknown, it must have
    read all partitions to the end. If no send of a lost record has an offset, but another reader
    returned the record, the finding has the reader's offset as a copy.

    A duplicate is a record that the final read returned at two or more offsets. Its copies are the
    first and the last of these offsets.

    Args:
        rows: rows of ``checkers.history.record_summaries.DOUBTFUL``.
        limits: rows of ``LIMIT``.
        adrift: ``key, there``, from ``ClientHistory.adrift``.
    """
    columns, group = grouped(numbers(rows, DOUBTFUL.names), "key", then=("at",))
    fact, offset = columns["fact"], columns["offset"]
    sent, has_offset, read_back = any_of(fact, flags.SENT), offset != NONE, read_at_the_end(columns)
    record = choose(columns, group.first)
    there = look_up_columns(adrift, "key", record["key"])["there"]
    low, high = group.least(offset, read_back), group.greatest(offset, read_back)
    offered = group.greatest(offset, sent)
    limit = look_up_columns(limits, "slot", record["slot"])
    # If a log was truncated, its fence may have a lower offset than a record acknowledged earlier.
    reached = (offered != NONE) & (limit["reach"] != NONE) & (offered <= limit["reach"])
    acknowledged = any_of(record["facts"], flags.SENT_OK)
    lost, unseen = missing_records(
        took_effect=acknowledged,
        acknowledged=acknowledged,
        returned=(low != NONE) | (there != NONE),
        passed=(limit["complete"] == 1) | reached,
    )
    twice = any_of(record["doubts"], bits("again"))
    place = group.least(offset, has_offset & ~any_of(fact, flags.SENT_FAIL))
    copy = np.where(offered == NONE, place, NONE)
    record["client"], record["at"] = reference(columns, group.first_place(sent))
    columns["record"] = group.spread(np.arange(len(group)))
    sends = choose(columns, sent)
    return pa.concat_tables(
        [
            _subjects(LOST, sends, lost, offered),
            _copies(LOST, record, lost, offered, copy, _READ_NOTE),
            _subjects(UNSEEN, sends, unseen, offered),
            _subjects(DUPLICATE, sends, twice, low),
            *(_copies(DUPLICATE, record, twice, low, place) for place in (low, high)),
        ]
    )


def ledgers(tables: Tables, anomalies: Rows) -> dict[str, dict[str, int]]:
    """Return the record counts of each run (fields of ``Ledger``), by the run's key."""
    counted = anomalies.only("kind", *_LEDGER).counts(["run", "kind"]).to_pylist()
    counts = {(row["run"], row["kind"]): row["count"] for row in counted}
    values = keyed_values(tables)
    replaced = Counter(deleted_counts(tables))
    replaced.update({} if values is None else replaced_of(client_view(tables), values))
    books = ledger(partition_ledgers(tables), counts, replaced)
    for run, received in read_counts(tables).items():
        books[run] = books.get(run, {}) | received
    return books


def ledger(
    ledgers: Sequence[PartitionLedger],
    counts: Mapping[tuple[str, str], int],
    replaced: Mapping[str, int],
) -> dict[str, dict[str, int]]:
    """Return the record counts of every run: the fields of ``harness.runs.verdict.Ledger``.

    Args:
        ledgers: the record counts of all partitions.
        counts: the number of anomalies by run and kind.
        replaced: the number of records that compaction or an administrator may have removed, by
            run.
    """
    runs: dict[str, Counter[str]] = {}
    for partition in ledgers:
        ledger = runs.setdefault(partition.run, Counter())
        for name in ("sent", "acknowledged", "failed", "unknown"):
            ledger[name] += getattr(partition, name)
    for run, ledger in runs.items():
        ledger.update({name: counts.get((run, kind), 0) for kind, name in _LEDGER.items()})
        # ``PartitionLedger.read`` does not count records whose partition is unknown.
        ledger["replaced"] = replaced.get(run, 0)
        gone = (*_LEDGER.values(), "replaced")
        ledger["read"] = ledger["acknowledged"] - sum(ledger[name] for name in gone)
    return {run: dict(ledger) for run, ledger in runs.items()}


def _subjects(kind: str, sends: Numbers, chosen: Bools, offset: Ints) -> pa.Table:
    """Return the sends of the chosen records, as SUBJECT rows of ``FINDING``.

    ``sends`` are rows of ``DOUBTFUL``. Their column ``record`` is an index in ``chosen`` and
    ``offset``.
    """
    rows = choose(sends, chosen[sends["record"]])
    return findings(
        kind,
        rows["key"],
        part=SUBJECT,
        nth=any_of(rows["fact"], flags.SENT_OK),
        offset=offset[rows["record"]],
        **{name: rows[name] for name in ("client", "at")},
    )


def _copies(
    kind: str, record: Numbers, chosen: Bools, offset: Ints, place: Ints, note: str | None = None
) -> pa.Table:
    columns = {name: record[name] for name in ("key", "client", "at")}
    copy = choose(columns | {"offset": offset, "place": place}, chosen & (place != NONE))
    return findings(kind, copy.pop("key"), part=COPY, note=note, **copy)

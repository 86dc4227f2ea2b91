"""``processed-twice`` and ``unprocessed``: errors of loops that read, transform and write.

A loop's transaction is an operation that reads as a member of a group, and sends. The transaction
commits the group's offsets together with its records (KIP-98, KIP-447). So each record of the input
is in one committed transaction of the group. A transaction *took effect* if its commit was
acknowledged, or if the final read returned one of its records.

- *processed-twice*: two transactions of a group read the same record at the same offset, and both
  took effect.
- *unprocessed*: the final read returned an acknowledged record that a group skipped. Transactions
  that took effect read records before and after it. No transaction that may have taken effect read
  it. Every read of a greater offset began after the record was acknowledged. (If not, the log was
  truncated, which is another anomaly.)
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from highwater.checkers.core.anomaly_kinds import PROCESSED_TWICE, UNPROCESSED, Kind, Severity
from highwater.checkers.core.checker import checker
from highwater.checkers.core.promises import if_members_are_fenced
from highwater.checkers.groups.undelivered import first_behind, subscriptions
from highwater.checkers.history import row_flags as flags
from highwater.checkers.history.columns import (
    NONE,
    Ints,
    Numbers,
    any_of,
    arrow,
    choose,
    first_of,
    grouped,
    look_up,
    numbers,
    schema,
)
from highwater.checkers.history.findings import COPY, FINDING, findings, mix, reference, steps
from highwater.checkers.history.record_summaries import read_at_the_end
from highwater.checkers.history.rows import ROW
from highwater.checkers.history.view import ClientHistory, client_view
from highwater.checkers.run_files import RunFiles
from highwater.checkers.run_tables import Tables
from highwater.checkers.spark.engine import Rows
from highwater.checkers.transactions.atomicity import unknown_sends

MEMBER: Final = schema("client", "group", "name", name=pa.string())
"""A client and the group that it joined (number and name)."""

RECORD: Final = 0
MAYBE: Final = 1
DONE: Final = 2
PLACE: Final = schema(
    *("slot", "group", "what", "key", "operation", "client", "at", "offset", "invoke_ns"),
    "complete_ns",
)
"""A record in the log (RECORD, without a ``group``), or a read by a group's transaction. The
transaction took effect (DONE) or may have taken effect (MAYBE)."""


def _without_loops(_tables: Tables, case: RunFiles) -> str:
    return "" if case.plan.workload.transform else "no transaction reads (--transform)"


_loops = partial(
    Kind,
    severity=Severity.SERIOUS,
    promise="exactly once: offsets and records of a transaction are committed together (KIP-447)",
    breaks=if_members_are_fenced,
)


@checker(
    _loops(
        PROCESSED_TWICE,
        guarantee="Two transactions of a group that both take effect never read the same record.",
        singular="record was processed twice by a group",
        plural="records were processed twice by a group",
    ),
    _loops(
        UNPROCESSED,
        guarantee="A group's transactions skip no acknowledged record.",
        singular="acknowledged record was skipped by a group's transactions",
        plural="acknowledged records were skipped by a group's transactions",
        absence=True,
    ),
    idle=_without_loops,
)
def loops(tables: Tables) -> Rows | None:
    """Return findings about records that loops processed twice, or not at all."""
    sends = unknown_sends(tables)
    if sends is None:
        return None
    return exactly_once(
        client_view(tables), sends.not_null("there").distinct(["operation"])["operation"]
    )


def exactly_once(view: ClientHistory, landed: pa.Array) -> Rows | None:
    """Return findings about records that loops processed twice, or not at all; None without loops.

    Args:
        view: the clients' view of the runs.
        landed: the numbers of the operations of unknown outcome that took effect, because the final
            read returned one of their records.

    Returns:
        Rows of ``FINDING``.
    """
    if not view.two_faced or not view.tells(flags.GROUPED):
        return None
    members = _members(view)
    clients = view.engine.table(members.select(["client", "group"]))
    of_loops = view.rows.where(flags.SENT | flags.READ_BY_ANY).join(clients, ["client"])
    reads = of_loops.by(["operation"], partial(transacted, landed=landed), PLACE).persist()
    if not len(reads):
        return None
    names = dict(zip(members["group"].to_pylist(), members["name"].to_pylist(), strict=True))
    twice = reads.only("what", DONE).by(["key"], partial(processed_twice, names=names), FINDING)
    rows = view.rows.where(flags.SENT | flags.SEEN)
    slots = view.engine.table(reads.distinct(["slot"]))
    records = rows.join(slots, ["slot"], "semi").by(["key"], acknowledged, PLACE)
    return twice.union(
        reads.union(records).by(["slot"], partial(unprocessed, names=names), FINDING)
    )


def _members(view: ClientHistory) -> pa.Table:
    joined = subscriptions(view).to_pylist()
    groups = {row["client"]: (row["run"], row["value"]) for row in joined}
    number = {group: nth for nth, group in enumerate(sorted(set(groups.values())))}
    columns = {
        "client": [*groups],
        "group": [number[group] for group in groups.values()],
        "name": [name for _, name in groups.values()],
    }
    return pa.table(columns, schema=MEMBER)


def transacted(rows: pa.Table, *, landed: pa.Array) -> pa.Table:
    """Return the reads of transactions that may have taken effect, as ``PLACE`` rows.

    All rows of one ``operation`` must be in one table.

    Args:
        rows: rows of ``ROW``, with the ``group`` of their client.
        landed: as in ``exactly_once``.
    """
    columns, operation = grouped(numbers(rows, (*ROW.names, "group")), "operation", then=("at",))
    fact = columns["fact"]
    sure = operation.any(any_of(fact, flags.SENT_OK))
    sure |= look_up(landed.to_numpy(), columns["operation"][operation.first]) != NONE
    maybe = operation.any(any_of(fact, flags.SENT_INFO))
    columns["what"] = operation.spread(np.where(sure, DONE, MAYBE))
    reads = any_of(fact, flags.READ_BY_ANY) & (columns["offset"] != NONE)
    return arrow(choose(columns, reads & operation.spread(sure | maybe)), PLACE)


def acknowledged(rows: pa.Table) -> pa.Table:
    """Return acknowledged records that are in the log once, as ``PLACE`` rows.

    All rows of one ``key`` must be in one table.
    """
    columns, record = grouped(numbers(rows, ROW.names), "key", then=("at",))
    sent = any_of(columns["fact"], flags.SENT_OK) & ~any_of(columns["fact"], flags.OF_FENCE)
    sent &= columns["complete_ns"] != NONE
    final = read_at_the_end(columns)
    low, high = (extreme(columns["offset"], final) for extreme in (record.least, record.greatest))
    there = (low != NONE) & (low == high) & record.any(sent)
    place = choose(columns, record.first_place(sent)[there])
    ended = record.greatest(columns["complete_ns"], sent)[there]
    none = np.full(len(ended), NONE)
    shared = {"group": none, "what": np.full(len(ended), RECORD)}
    return arrow(place | shared | {"offset": low[there], "complete_ns": ended}, PLACE)


def processed_twice(rows: pa.Table, *, names: dict[int, str]) -> pa.Table:
    """Return the records that two transactions of a group read, as ``FINDING`` rows.

    All rows of one ``key`` must be in one table.

    Args:
        rows: the DONE rows of ``PLACE``.
        names: the groups' names, by number.
    """
    by = ("key", "group", "offset")
    columns = first_of(numbers(rows, PLACE.names), *by, "operation")
    columns, record = grouped(columns, *by, then=("at",))
    twice = np.flatnonzero(record.size > 1)
    first, second = record.first[twice], record.first[twice] + 1
    place = choose(columns, first)
    finding = mix(mix(place["key"], place["group"]), place["offset"])
    ends = [reference(columns, at) for at in (first, second)]
    return _findings(PROCESSED_TWICE, finding, ends, place, names)


def unprocessed(rows: pa.Table, *, names: dict[int, str]) -> pa.Table:
    """Return records that the transactions of a group skipped, as ``FINDING`` rows.

    All rows of one ``slot`` must be in one table.

    Args:
        rows: rows of ``PLACE``.
        names: the groups' names, by number.
    """
    columns, slot = grouped(numbers(rows, PLACE.names), "slot", then=("offset",))
    tables = [FINDING.empty_table()]
    for first, size in zip(slot.first, slot.size, strict=True):
        here = choose(columns, np.arange(first, first + size))
        records = choose(here, here["what"] == RECORD)
        reads = choose(here, here["what"] != RECORD)
        for group in np.unique(reads["group"]):
            of_group = choose(reads, reads["group"] == group)
            tables.append(_left_out(records, of_group, names))
    return pa.concat_tables(tables)


def _left_out(records: Numbers, reads: Numbers, names: dict[int, str]) -> pa.Table:
    """Return the records of one partition that one group skipped.

    Args:
        records: the RECORD rows, sorted by offset.
        reads: the group's reads, sorted by offset.
    """
    done = choose(reads, reads["what"] == DONE)
    if not len(done["offset"]):
        return FINDING.empty_table()
    offset = records["offset"]
    begun, place = first_behind(done, offset)
    left = (place < len(done["offset"])) & (offset > done["offset"][0])
    left &= (begun > records["complete_ns"]) & ~np.isin(offset, reads["offset"])
    records, place = choose(records, left), place[left]
    finding = mix(mix(records["client"], records["at"]), done["group"][place])
    ends = [(records["client"], records["at"]), reference(done, place)]
    groups = {"group": done["group"][place]}
    return _findings(UNPROCESSED, finding, ends, records | groups, names)


def _findings(
    kind: str,
    finding: Ints,
    ends: Sequence[tuple[Ints, Ints]],
    record: Numbers,
    names: dict[int, str],
) -> pa.Table:
    """Return findings with two steps each, as ``FINDING`` rows.

    Args:
        ends: for each of the two steps, ``client`` and ``at`` of its rows.
        record: ``client, at, offset`` of a row of each record, and the ``group``.
        names: the groups' names, by number.
    """
    group = pa.array([names[number] for number in record["group"]], pa.string())
    offset = record["offset"]
    copied = {"client": record["client"], "at": record["at"], "place": offset, "note": group}
    copies = findings(kind, finding, part=COPY, offset=offset, **copied)
    return pa.concat_tables([steps(kind, finding, ends, offset=offset), copies])

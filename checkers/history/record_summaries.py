"""Functions that summarise all rows of each record.

Most records show no anomaly. Such a record only adds to the sums of its partition. A *doubtful*
record may show an anomaly. All its rows are returned, so that the history is not read again.
"""

from typing import Final

import numpy as np
import pyarrow as pa

from highwater.checkers.history import row_flags as flags
from highwater.checkers.history.columns import (
    NONE,
    Bools,
    Groups,
    Ints,
    Numbers,
    any_of,
    arrow,
    choose,
    grouped,
    numbers,
    schema,
)
from highwater.checkers.history.rows import ROW

DOUBTS: Final = (
    *("maybe", "twice", "aborted", "phantom", "own", "foreseen", "unread", "stray"),
    *("adrift", "peeked", "missing", "again"),
)
"""Reasons why a record is doubtful: bits of ``doubts``, in this order.

``missing``: the record was acknowledged, and is not in the final read. ``twice`` (in Jepsen's
histories): clients reported two or more offsets of the record. ``again`` (in Highwater's own runs):
the final read returned the record at two or more offsets."""

OF_FINAL_READS: Final = ("missing", "again")

BOOKS: Final = ("sent", "acknowledged", "failed", "unknown", "read")
SUMS: Final = ("known", *DOUBTS, *BOOKS)
SLOT: Final = schema("slot", "bound", "reach", "complete", "rows", *SUMS, complete=pa.bool_())
"""The sums of a partition (``slot``). ``bound``: the greatest offset that readers reached.
``reach``: the greatest offset that the final read reached. ``complete``: the final read returned
the partition's fence, its last record. ``rows``: the number of counted rows. The sums do not count
the fence as a record."""

DOUBTFUL: Final = pa.schema([*ROW, ("facts", pa.int32()), ("doubts", pa.int32())])
"""A row of a doubtful record, with the facts of all rows of that record, and its doubts."""

TALLY: Final = pa.schema([*DOUBTFUL, ("sums", pa.struct(list(SLOT)))])
"""Rows of ``DOUBTFUL``, and rows with partial sums of a partition. If a row has partial sums,
all columns except ``sums`` are null."""

RECORD: Final = schema(
    *("key", "slot", "facts", "first", "last", "writer", "begun", "ended"), facts=pa.int32()
)
"""One row for each record. ``first`` and ``last`` are the least and the greatest offset of the
record that any client reported, except in failed sends. ``writer`` is the ``operation`` that
sent the record, with the greatest number if there are several. ``begun`` is when the first send
began. ``ended`` is when the last send ended; it is null if no send is known to have succeeded."""


def bits(*names: str) -> int:
    """Return the bits of these ``DOUBTS``."""
    return sum(1 << DOUBTS.index(name) for name in names)


def tally(rows: pa.Table, *, doubts: int, unsent: Ints | None = None) -> pa.Table:
    """Return the rows of doubtful records, and the sums of partitions, as ``TALLY`` rows.

    All rows of one ``key`` must be in one table.

    Args:
        rows: the rows of ``ROW`` that are about records.
        doubts: bits of ``DOUBTS``. Only records with one of these doubts count as doubtful.
        unsent: the partitions (``slot``) whose records other producers sent; no record is a
            phantom there.
    """
    ordered, group, record = _summed(rows)
    if unsent is not None:
        record["doubts"][np.isin(record["slot"], unsent)] &= ~np.int32(bits("phantom"))
    in_doubt = group.spread(any_of(record["doubts"], doubts))
    of_record = {name: group.spread(record[name]) for name in ("facts", "doubts", "writer")}
    doubtful = choose(ordered | of_record, in_doubt)
    facts, fact = doubtful["facts"], doubtful["fact"]
    proof = any_of(facts, flags.SENT_INFO) & any_of(facts, flags.READ_OK)
    proof &= any_of(fact, flags.SENT) & (doubtful["writer"] == doubtful["operation"])
    doubtful["fact"] = fact | np.where(proof, flags.PROOF, 0).astype(np.int32)
    sums = {"sums": _slots(record).to_struct_array()}
    return pa.concat_tables([arrow(doubtful, TALLY), arrow(sums, TALLY)])


def records(rows: pa.Table) -> pa.Table:
    """Return one row of ``RECORD`` for each record in rows of ``ROW``.

    All rows of one ``key`` must be in one table.
    """
    return arrow(_summed(rows)[2], RECORD)


def summed(sums: pa.Table) -> pa.Table:
    """Add up rows of ``SLOT``, so that each partition has one row."""
    how = {"bound": "max", "reach": "max", "complete": "any"}
    aggregations = [(name, how.get(name, "sum")) for name in SLOT.names[1:]]
    grouped = sums.group_by("slot").aggregate(aggregations)
    return grouped.rename_columns(["slot", *SLOT.names[1:]]).cast(SLOT)


def _summed(rows: pa.Table) -> tuple[Numbers, Groups, Numbers]:
    """Return the rows sorted by record, the records as groups, and a summary of each record."""
    columns, group = grouped(numbers(rows, ROW.names), "key")
    fact, offset = columns["fact"], columns["offset"]
    sent, seen_by_any = any_of(fact, flags.SENT), any_of(fact, flags.READ_BY_ANY)
    placed = ~any_of(fact, flags.SENT_FAIL) & (offset != NONE)
    read_back = read_at_the_end(columns)
    answered = columns["complete_ns"] != NONE
    writer = group.greatest(columns["operation"], sent)
    met_by_writer = (group.spread(writer) == columns["operation"]) & seen_by_any
    record = {
        "rows": group.size,
        **{name: columns[name][group.first] for name in ("key", "slot")},
        "facts": np.bitwise_or.reduceat(fact, group.first),
        "first": group.least(offset, placed),
        "last": group.greatest(offset, placed),
        "writer": writer,
        "begun": group.least(columns["invoke_ns"], sent),
        "ended": group.greatest(columns["complete_ns"], any_of(fact, flags.SENT_OK) & answered),
        "met_first": group.least(offset, read_back),
        "met_last": group.greatest(offset, read_back),
        "met_by": group.least(columns["complete_ns"], seen_by_any & answered),
        "fence": group.any(any_of(fact, flags.OF_FENCE) & sent),
        "own": group.any(met_by_writer) | (writer != group.least(columns["operation"], sent)),
    }
    doubts = _doubts(record)
    record["doubts"] = np.zeros(len(group), np.int32)
    for place, name in enumerate(DOUBTS):
        record["doubts"] |= doubts[name].astype(np.int32) << np.int32(place)
    return columns, group, record


def read_at_the_end(rows: Numbers) -> Bools:
    """Return a mask of the rows in which the final read returned a record at a known offset."""
    fact = rows["fact"]
    has_offset: Bools = rows["offset"] != NONE
    return has_offset & any_of(fact, flags.IN_FINAL) & any_of(fact, flags.SEEN_OK)


def _doubts(record: Numbers) -> dict[str, Bools]:
    facts, has_first = record["facts"], record["first"] != NONE
    sent = any_of(facts, flags.SENT)
    sure = any_of(facts, flags.SENT_OK | flags.READ_BY_ANY)
    maybe = any_of(facts, flags.SENT_OK | flags.SENT_INFO)
    acknowledged = any_of(facts, flags.SENT_OK) & ~record["fence"]
    read, read_by_any = any_of(facts, flags.READ_OK), any_of(facts, flags.READ_BY_ANY)
    met_by, begun = record["met_by"], record["begun"]
    return {
        "maybe": ~sure & any_of(facts, flags.SENT_INFO) & has_first,
        "twice": record["first"] != record["last"],
        "aborted": any_of(facts, flags.SENT_FAIL) & ~maybe & read,
        "phantom": ~sent,
        "own": sent & read_by_any & record["own"],
        "foreseen": (met_by != NONE) & (begun != NONE) & (met_by < begun),
        "unread": maybe & ~any_of(facts, flags.SEEN_OK),
        "stray": any_of(facts, flags.STRAY),
        "adrift": any_of(facts, flags.ADRIFT),
        "peeked": any_of(facts, flags.PEEK) & ~read_by_any,
        "missing": acknowledged & (record["met_first"] == NONE),
        "again": sent & (record["met_first"] != record["met_last"]),
    }


def _slots(record: Numbers) -> pa.Table:
    slot, place = np.unique(record["slot"], return_inverse=True)
    facts, fence = record["facts"], record["fence"]
    sent, read_back = any_of(facts, flags.SENT) & ~fence, record["met_first"] != NONE
    acknowledged = sent & any_of(facts, flags.SENT_OK)
    sums = {
        "known": any_of(facts, flags.SENT_OK | flags.READ_BY_ANY) & (record["first"] != NONE),
        "sent": sent,
        "acknowledged": acknowledged,
        "failed": sent & any_of(facts, flags.SENT_FAIL),
        "unknown": sent & any_of(facts, flags.SENT_INFO),
        "read": acknowledged & read_back,
        "complete": fence & read_back,
    } | {name: any_of(record["doubts"], bits(name)) for name in DOUBTS}
    columns: Numbers = {
        name: np.bincount(place[of], minlength=len(slot)) for name, of in sums.items()
    }
    for name, column, condition in (
        ("bound", "first", any_of(facts, flags.SEEN_OK)),
        ("reach", "met_last", read_back),
    ):
        columns[name] = np.full(len(slot), NONE)
        np.maximum.at(columns[name], place[condition], record[column][condition])
    columns["rows"] = np.bincount(place, record["rows"], len(slot)).astype(np.int64)
    columns["complete"] = columns["complete"] > 0
    return arrow(columns | {"slot": slot}, SLOT)

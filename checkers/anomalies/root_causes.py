"""Root causes: one truncation causes many anomalies, and is reported as one finding.

If a log is truncated and then written again, clients see more anomalies than the loss. A *range* is
a sequence of consecutive offsets in one partition. At each offset a record was lost (lost-write),
vanished, or differs from another record (divergence, inconsistent-offsets). A range is the cause of
these other anomalies in its partition:

- inconsistent-offsets: the offset is in the range, and a record in the range was lost, vanished or
  diverges. The record now at the offset was written after the truncation.
- duplicate: one of its offsets is in the range. The truncated record was sent again.
- poll-skip and int-poll-skip: every skipped record that the anomaly names (at most 16) is in a
  range. The log did not have these records.
- nonmonotonic-poll, int-nonmonotonic-poll, nonmonotonic-send and int-nonmonotonic-send: the step
  back reaches or passes an offset in the range. Readers and producers continue where the log was
  truncated.
- G0, G1c and their forms: the record of a step is in the range. Its offset was used twice.

A read_committed reader cannot pass a hanging transaction. So the first hanging transaction of a
partition is the cause of the unseen records after it (``OpenEnds``).

Other kinds have no cause. lost-write, vanished and divergence are losses themselves. No truncation
causes G1a, precommitted-read, phantom, corrupt and int-send-skip. An anomaly without an offset has
no cause. A lost record's offset is the offset that its producer received, or at which a reader read
the record.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from highwater.checkers.core.anomaly import SCHEMA
from highwater.checkers.core.anomaly_kinds import DIVERGENCE, HANGING, LOST, UNSEEN, VANISHED
from highwater.checkers.cycles.search import SORTS
from highwater.checkers.history.columns import NEVER, Bools, Groups, Ints, so_far
from highwater.checkers.spark.engine import Rows

INCONSISTENT: Final = "inconsistent-offsets"
_BEFOREHAND: Final = (LOST, VANISHED, DIVERGENCE, INCONSISTENT)
"""The kinds of anomaly that form a range. The first of these kinds that occurs in a range names the
range, with its first anomaly."""

_COLUMNS: Final = ("run", "kind", "topic", "partition", "offset", "copies")
"""The columns of an anomaly that decide whether the anomaly is in a range of truncated offsets."""

_COPIED: Final = ("duplicate", "poll-skip", "int-poll-skip")
_SKIPS: Final = _COPIED[1:]
_BACK: Final = (
    *("nonmonotonic-poll", "int-nonmonotonic-poll"),
    *("nonmonotonic-send", "int-nonmonotonic-send"),
)
_CYCLES: Final = tuple(sort.name for sort in SORTS)
_SHALLOW: Final = _BEFOREHAND.index(INCONSISTENT)
"""The index in ``_BEFOREHAND`` of a range that has only inconsistent-offsets anomalies."""

_PARTITIONS: Final = 1 << 32
_NOWHERE: Final = -1


@dataclass(frozen=True, slots=True)
class _Places:
    """The offsets that decide whether a range caused an anomaly: ``low`` to ``high`` in a ``log``.

    ``row`` is the anomaly's index. An anomaly may have several such places.
    """

    row: Ints
    log: Ints
    low: Ints
    high: Ints


class TruncatedRanges:
    """The ranges of truncated offsets that the anomalies of all runs show."""

    def __init__(self, anomalies: pa.RecordBatch) -> None:
        made = anomalies.filter(pc.is_in(anomalies["kind"], pa.array(_BEFOREHAND)))
        self._names: pa.Array = pc.unique(_names(made)).drop_null()
        log, offset, rank = self._made(made)
        order = np.lexsort((rank, offset, log))
        log, offset, rank = log[order], offset[order], rank[order]
        goes_on = (log[1:] == log[:-1]) & (offset[1:] - offset[:-1] <= 1)
        group = Groups.joined(goes_on, len(log))
        self._log, self._low = log[group.first], offset[group.first]
        self._high = offset[group.last]
        worst = group.least(rank)
        self._deep = worst < _SHALLOW
        self._call(worst, offset[group.first_place(rank == group.spread(worst))])

    def of(self, batch: pa.RecordBatch) -> pa.Array:
        """Return, for each anomaly, the name of the range that caused it; else null."""
        places = self._places_of(batch)
        # For each offset, find the last range of its log that begins at this offset or before it.
        nearest = so_far((self._log, self._low), (places.log, places.high)) - 1
        kind = batch["kind"]
        deep, every = _among(kind, (INCONSISTENT,)), _among(kind, _SKIPS)
        inside = (nearest >= 0) & (places.log != _NOWHERE)
        at = nearest[inside]
        inside[inside] = (
            (self._log[at] == places.log[inside])
            & (self._high[at] >= places.low[inside])
            & (self._deep[at] | ~deep[places.row[inside]])
        )
        best = np.full(len(batch), NEVER)
        np.minimum.at(best, places.row[inside], self._place[nearest[inside]])
        hits = np.bincount(places.row[inside], minlength=len(batch))
        asks = np.bincount(places.row, minlength=len(batch))
        follows = (hits > 0) & (~every | (hits == asks))
        return self._called.take(pa.array(best, mask=~follows))

    def _made(self, batch: pa.RecordBatch) -> tuple[Ints, Ints, Ints]:
        rank = pc.index_in(batch["kind"], pa.array(_BEFOREHAND))
        # With acks=0 no producer learns a record's offset, but a reader may have read the record.
        untold = pc.and_(batch["offset"].is_null(), pc.equal(batch["kind"], LOST))
        points = _points(batch, "copies", untold.to_numpy(zero_copy_only=False))
        offset, has_offset = _numbers(batch["offset"])
        least = np.full(len(batch), NEVER)
        np.minimum.at(least, points[0], points[2])
        offset = np.where(least < NEVER, least, offset)
        log = self._logs(batch, np.arange(len(batch)), *_numbers(batch["partition"]))
        good = (has_offset | (least < NEVER)) & (log != _NOWHERE)
        return log[good], offset[good], rank.to_numpy().astype(np.int64)[good]

    def _places_of(self, batch: pa.RecordBatch) -> _Places:
        """Return the offsets of anomalies that a range may have caused."""
        kind, rows = batch["kind"], np.arange(len(batch))
        offset, has_offset = _numbers(batch["offset"])
        partition, has_partition = _numbers(batch["partition"])
        itself = rows[_among(kind, (INCONSISTENT,)) & has_offset]
        parts = [(itself, offset[itself], offset[itself], partition[itself], has_partition[itself])]
        for array, kinds in (("copies", _COPIED), ("steps", _CYCLES)):
            row, place, at, sure = _points(batch, array, _among(kind, kinds))
            parts.append((row, at, at, place, sure))
        row, _, at, _ = _points(batch, "steps", _among(kind, _BACK))
        low, high = np.full(len(batch), NEVER), np.full(len(batch), -NEVER)
        np.minimum.at(low, row, at)
        np.maximum.at(high, row, at)
        back = np.unique(row)
        parts.append((back, low[back], high[back], partition[back], has_partition[back]))
        row, low, high, place, sure = (
            np.concatenate(columns) for columns in zip(*parts, strict=True)
        )
        return _Places(row, self._logs(batch, row, place, sure), low, high)

    def _logs(self, batch: pa.RecordBatch, row: Ints, partition: Ints, mask: Bools) -> Ints:
        """Return a number for each partition of a topic and run; ``_NOWHERE`` if unknown."""
        name = pc.index_in(_names(batch), self._names).fill_null(_NOWHERE).to_numpy()
        topic = name.astype(np.int64)[row]
        return np.where(mask & (topic >= 0), topic * _PARTITIONS + partition, _NOWHERE)

    def _call(self, worst: Ints, head: Ints) -> None:
        """Name each range, such as ``lost-write events-0@17``. Rank ranges by offset and name."""
        topics = pc.list_element(pc.split_pattern(self._names, "\0"), 1)
        place = pc.binary_join_element_wise(
            topics.take(pa.array(self._log // _PARTITIONS)),
            pa.array(self._log % _PARTITIONS).cast(pa.string()),
            "-",
        )
        place = pc.binary_join_element_wise(place, pa.array(head).cast(pa.string()), "@")
        kind = pa.array(_BEFOREHAND).take(pa.array(worst))
        called = pc.binary_join_element_wise(kind, place, " ")
        table = pa.table({"low": self._low, "called": called})
        order = pc.sort_indices(table, sort_keys=[("low", "ascending"), ("called", "ascending")])
        self._called = called.take(order)
        self._place = np.empty(len(order), np.int64)
        self._place[order.to_numpy()] = np.arange(len(order))


class OpenEnds:
    """The first hanging transaction of each partition, which is the cause of unseen records."""

    def __init__(self, anomalies: pa.Table) -> None:
        first: dict[tuple[str, str, int], int] = {}
        for row in anomalies.filter(pc.equal(anomalies["kind"], HANGING)).to_pylist():
            place = (row["run"], row["topic"], row["partition"])
            first[place] = min(row["offset"], first.get(place, NEVER))
        self._first = first

    def of(self, batch: pa.RecordBatch, cause: pa.Array) -> pa.Array:
        """Return ``cause``; unseen records without one get the hanging transaction before them."""
        for (run, topic, partition), offset in self._first.items():
            here = [("kind", UNSEEN), ("run", run), ("topic", topic), ("partition", partition)]
            behind = pc.greater_equal(batch["offset"], offset)
            for name, value in here:
                behind = pc.and_kleene(behind, pc.equal(batch[name], value))
            named = pa.scalar(f"{HANGING} {topic}-{partition}@{offset}")
            cause = pc.if_else(pc.fill_null(behind, False), pc.coalesce(cause, named), cause)
        return cause


def open_ends(rows: Rows) -> OpenEnds:
    """Return the first hanging transaction of each partition in these anomalies."""
    return OpenEnds(rows.only("kind", HANGING).select(_COLUMNS).table())


def truncated_ranges(rows: Rows) -> TruncatedRanges:
    """Return the ranges of truncated offsets that these anomalies show."""
    made = rows.only("kind", *_BEFOREHAND).select(_COLUMNS).table()
    return TruncatedRanges(
        pa.RecordBatch.from_struct_array(made.to_struct_array().combine_chunks())
    )


def caused(
    table: pa.Table,
    *,
    causes: TruncatedRanges,
    ends: OpenEnds | None = None,
    alone: str | None = None,
) -> pa.Table:
    """Return the anomalies with their ``cause``. Anomalies of the kind ``alone`` get no cause."""
    (batch,) = table.combine_chunks().to_batches()
    cause = causes.of(batch)
    if ends is not None:
        cause = ends.of(batch, cause)
    if alone is not None:
        cause = pc.if_else(pc.equal(batch["kind"], alone), pa.scalar(None, pa.string()), cause)
    return table.set_column(SCHEMA.get_field_index("cause"), SCHEMA.field("cause"), cause)


def _names(batch: pa.RecordBatch) -> pa.Array:
    return pc.binary_join_element_wise(batch["run"], batch["topic"], "\0")


def _among(kind: pa.Array, kinds: Sequence[str]) -> Bools:
    mask: Bools = pc.is_in(kind, pa.array(kinds)).to_numpy(zero_copy_only=False)
    return mask


def _numbers(column: pa.Array) -> tuple[Ints, Bools]:
    mask: Bools = column.is_valid().to_numpy(zero_copy_only=False)
    return column.fill_null(0).to_numpy().astype(np.int64), mask


def _points(batch: pa.RecordBatch, array: str, mask: Bools) -> tuple[Ints, Ints, Ints, Bools]:
    """Return the row, partition and offset of each list element, and whether it has a partition."""
    rows = np.flatnonzero(mask)
    column = batch[array].take(pa.array(rows))
    structs = pc.list_flatten(column)
    offset, has_offset = _numbers(pc.struct_field(structs, "offset"))
    partition, has_partition = _numbers(pc.struct_field(structs, "partition"))
    row = rows[pc.list_parent_indices(column).to_numpy().astype(np.int64)]
    return row[has_offset], partition[has_offset], offset[has_offset], has_partition[has_offset]

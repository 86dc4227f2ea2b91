"""What became of the records in doubt, decided by Spark's tasks from the rows that name them.

Spark's own grouping and joins of 62,500 records took two seconds, and a task takes a tenth.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from checkers import leaves
from checkers.clients import tally
from checkers.clients.numbers import NONE, Bools, Ints
from checkers.clients.picks import Among, Held, one
from checkers.clients.telling import Share
from harness.history import OK

READ_BACK: Final = "read"
LOST: Final = "lost"
UNSEEN: Final = "unseen"
"""Fates of acknowledged records; of others nothing was promised."""

FATE: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("run", "topic", "value")),  # the record
        # as its producer was told; null where it was not
        *(("partition", pa.int32()), ("offset", pa.int64()), ("acks", pa.string())),
        # least and greatest offset at which the final read met it
        *((name, pa.int64()) for name in ("first", "last")),
        ("place", pa.int64()),  # the least offset that anybody named for it
        ("fate", pa.string()),  # null: it was not acknowledged
    ]
)

ADRIFT: Final = pa.schema(
    [*((name, pa.string()) for name in ("run", "topic", "value")), ("there", pa.int64())]
)
"""Where the final read met records whose partition their producer was never told."""

LIMIT: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("run", "topic")),
        *(("partition", pa.int32()), ("reach", pa.int64()), ("complete", pa.bool_())),
    ]
)
"""How far the final read came in a partition, and whether that is all of it. A null partition is
that of records whose own is not known: everything is to be read for those."""

DOUBTS: Final = ("missing", "again")

_NAMES: Final = ("run", "topic", "partition", "value")
SAID: Final = (*_NAMES, "acks", "outcome")
"""What is asked of a send."""

_KNOWN: Final = {"told": "offset", "met_first": "first", "met_last": "last", "first": "place"}


class Deciding:
    """A task of Spark's: what became of some of the records in doubt.

    Args:
        rows: a folder of their sends, as ``picks.Picking`` holds them by key.
        records: a folder of Parquet files, in ``tally.RECORD``.
        limits: in ``LIMIT``.
        adrift: a folder of Parquet files, in ``ADRIFT``; None: there are no such records.
        folder: where to leave the records, in ``FATE``, by ``checkers.leaves``.
    """

    def __init__(
        self, rows: Path, records: Path, limits: pa.Table, adrift: Path | None, folder: Path
    ) -> None:
        self._rows = rows
        self._records = records
        self._limits = limits
        self._adrift = adrift
        self._folder = folder

    def __call__(self, number: int, share: Share) -> None:
        """Decide what falls to one task, whose number its file bears."""
        known = self._known(share)
        named = [*self._named(known["key"].to_numpy(), share)]
        if not named:
            return
        records = _grouped(pa.concat_tables(named))
        place = np.searchsorted(known["key"].to_numpy(), records["key"].to_numpy())
        found = known.take(pa.array(place))
        for name, column in _KNOWN.items():
            values = found[name].to_numpy()
            records = records.append_column(column, pa.array(values, mask=values == NONE))
        with leaves.writer(self._folder, number, FATE) as writer:
            writer.write_table(self._decided(self._met(records)))

    def _known(self, share: Share) -> pa.Table:
        """What all said of the records that fall to a task, in the order of their keys."""
        found = ds.dataset(self._records, tally.RECORD, format="parquet")
        ours = [
            batch.filter(pa.array((doubts & tally.bits(*DOUBTS) != 0) & _falls_to(key, share)))
            for batch in found.to_batches(columns=["key", "doubts", *_KNOWN])
            for key, doubts in [[batch[name].to_numpy() for name in ("key", "doubts")]]
        ]
        return _filled(pa.Table.from_batches(ours).sort_by("key"))

    def _named(self, keys: Ints, share: Share) -> Iterator[pa.Table]:
        """The sends of these records, with their ``key``."""
        among = Among(keys)
        for batch in Held([self._rows]):
            key = batch["one"].to_numpy()
            ours = _falls_to(key, share) & among(key)
            rows = batch.filter(pa.array(ours))
            told = pc.equal(rows["outcome"], OK)
            columns = [rows[name] for name in (*_NAMES, "acks")]
            names = [*_NAMES, "acks", "key", "acknowledged"]
            yield pa.table([*columns, pa.array(key[ours]), told], names=names)

    def _met(self, records: pa.Table) -> pa.Table:
        """The same, with the places of records whose partition their producer was never told."""
        if self._adrift is None:
            return records
        names = ["run", "topic", "value"]
        met = [
            pa.Table.from_batches([batch]).join(records.select(names), names, join_type="left semi")
            for batch in ds.dataset(self._adrift, ADRIFT, format="parquet").to_batches()
        ]
        there = pa.concat_tables([ADRIFT.empty_table(), *met])
        joined = records.join(there, names, join_type="left outer")
        for name in ("first", "last"):
            place = pc.coalesce(joined[name], joined["there"])
            joined = joined.set_column(joined.schema.get_field_index(name), name, place)
        return joined

    def _decided(self, records: pa.Table) -> pa.Table:
        """What became of records: read, lost or unseen. Neither is promised of other ones."""
        limit = _limit_of(records, self._limits)
        # A log that was cut may end, fence and all, before the offset that was acknowledged once.
        reached = pc.less_equal(records["offset"], limit["reach"])
        passed = pc.fill_null(pc.or_kleene(limit["complete"], reached), fill_value=False)
        gone = pc.if_else(passed, LOST, UNSEEN)
        fate = pc.if_else(pc.is_valid(records["first"]), READ_BACK, gone)
        fate = pc.if_else(records["acknowledged"], fate, pa.scalar(None, pa.string()))
        return records.append_column("fate", fate).select(FATE.names).cast(FATE)


def _falls_to(key: Ints, share: Share) -> Bools:
    """Which records fall to a task."""
    task, tasks = share
    ours: Bools = key.view(np.uint64) % np.uint64(tasks) == task
    return ours


def _filled(table: pa.Table) -> pa.Table:
    """The same with ``NONE`` for null."""
    arrays = [
        pc.fill_null(column, NONE) if pa.types.is_int64(column.type) else column
        for column in table.columns
    ]
    return pa.table(arrays, names=table.column_names)


def _grouped(rows: pa.Table) -> pa.Table:
    """Sends as records: ``_NAMES``, ``key``, ``acknowledged`` and ``acks``.

    The acks are the greatest of the sends that were acknowledged, else of all.
    """
    known = pc.unique(rows["acks"].combine_chunks().drop_null()).sort()
    rank = pc.fill_null(pc.index_in(rows["acks"], known), -1)
    told = pc.if_else(rows["acknowledged"], rank, -1)
    asked = [("acknowledged", "any"), ("key", "max"), ("rank", "max"), ("told", "max")]
    found = (
        rows.drop_columns(["acks"])
        .append_column("rank", rank)
        .append_column("told", told)
        .group_by(list(_NAMES))
        .aggregate(asked)
    )
    most = np.where(
        found["told_max"].to_numpy() >= 0,
        found["told_max"].to_numpy(),
        found["rank_max"].to_numpy(),
    )
    return pa.table(
        {
            **{name: found[name] for name in _NAMES},
            "key": found["key_max"],
            "acknowledged": found["acknowledged_any"],
            "acks": known.take(pa.array(most, mask=most < 0)),
        }
    )


def _limit_of(records: pa.Table, limits: pa.Table) -> pa.Table:
    """The limit of each record, nulls where there is none."""
    by = ["run", "topic", "partition"]
    both = pa.concat_tables([limits.select(by), records.select(by)])
    words = [pc.rank(both[name].combine_chunks(), tiebreaker="dense").to_numpy() for name in by]
    number = one(dict(zip(by, (each.astype(np.int64) for each in words), strict=True)))
    order = np.argsort(number[: len(limits)])
    at = np.searchsorted(number[: len(limits)], number[len(limits) :], sorter=order)
    place = order[np.minimum(at, len(limits) - 1)]
    there = number[place] == number[len(limits) :]
    return limits.take(pa.array(place, mask=~there))

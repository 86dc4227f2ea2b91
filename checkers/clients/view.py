"""What clients saw, as one shape that every checker of their view reads.

Histories of our runs and of others, one or ten thousand of them, are one DataFrame: the columns of
``harness.history.OPERATIONS``, ``run``, and ``at``, the number of the row within its run. The terms
are those of Jepsen's Kafka workload (``jepsen.tests.kafka``); where a rule differs from Jepsen's on
purpose, the checker says so.

Names are long and rows are many, so everything is grouped by 64-bit hashes: ``slot`` is a topic's
partition in a run, ``client`` a process in a run, ``key`` a record (a slot and a value). Two of
100 million records share a key once in 3,700 such histories; what is found is found again by its
own name before it is reported, so that this never makes an anomaly.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from checkers.clients import places
from checkers.clients.facts import (
    ADRIFT,
    BLIND,
    PEEK,
    READ_BY_ANY,
    READ_OK,
    SEEN,
    SEEN_OK,
    SENT_INFO,
    SENT_OK,
    fact,
    has,
)
from checkers.clients.numbers import Source
from checkers.clients.picks import RECORD, Want
from checkers.clients.scan import Scan
from checkers.clients.strides import KNOWN
from checkers.clients.tally import SUMS
from checkers.clients.telling import Share
from checkers.frames import Kept
from harness.history import FINAL


def in_order(operations: DataFrame) -> DataFrame:
    """Operations as just read from Parquet, one file a run, with the order of their rows."""
    return operations.withColumn("at", F.col("_metadata.row_index"))


def in_a_place() -> Column:
    """Whether a row of ``View.rows`` says for itself where its record stands, or stood."""
    told = has("fact", SENT_OK | SEEN) & ~has("fact", BLIND | ADRIFT)
    return told & F.col("offset").isNotNull()


MANY: Final = 5_000_000
"""So many rows of a few numbers are not sent to every task."""

_ALONE: Final = 20_000  # small rows that are not worth a second task

FEW: Final = 100_000
"""So many rows of a few numbers each may be sent to every task."""


def slot() -> Column:
    """The number of a partition, from ``run``, ``topic`` and ``partition``."""
    return F.xxhash64("run", "topic", "partition")


def final() -> Column:
    """Whether a row of ``View.rows`` is what the final reader read."""
    return has("fact", SEEN_OK) & (F.col("phase") == FINAL)


class View(Kept):
    """The clients' view of one history or many. Frames are made when first asked for.

    Args:
        operations: columns of ``harness.history.OPERATIONS``, and ``run`` and ``at``.
        sources: the files that these are in.
        folder: an empty one, where to keep what is read more than once.
        final_read: whether there was a final reader, who should have met all that was acknowledged.
    """

    def __init__(
        self,
        operations: DataFrame,
        sources: Sequence[Source],
        folder: Path,
        *,
        final_read: bool = False,
    ) -> None:
        super().__init__(operations.sparkSession, folder)
        self.operations = operations
        self.sources = tuple(sources)
        self._held: set[str] = set()
        self._scan = Scan(self.spark, self.sources, folder / "scan", final_read=final_read)

    def scan(self) -> int:
        """Read the history, which else is done when anything is asked of it.

        Returns:
            About how many rows that leaves to be looked at: records in doubt, and strides.
        """
        return self._scan.left

    @property
    def size(self) -> int:
        """How many rows there are."""
        return self._scan.size

    @cached_property
    def rows(self) -> DataFrame:
        """Every row, with the numbers by which it is grouped; nothing is computed until used.

        ``run, topic, partition, process, kind, outcome, isolation, offset, value, invoke_ns,
        complete_ns, acks`` as recorded; ``at``; ``op``, the row's own number where it stands alone;
        ``client, slot, key`` and ``deed``, hashes of (run, process), (run, topic, partition),
        (run, topic, partition, value) and of the operation (run, process, op), ``history`` that of
        the run; and ``fact``.
        """
        return _numbered(self.operations)

    def rows_of(self, name: str, by: Sequence[str], wanted: pa.Table) -> DataFrame:
        """Those ``rows`` whose numbers are among the wanted, and maybe some others.

        Args:
            name: of what is asked for; asked again, the same are given.
            by: one of ``checkers.clients.picks``.
            wanted: numbers in these columns, in any order.
        """
        if len(wanted) > MANY:
            return self.rows
        want = Want(by=by, rows=lambda: wanted)
        return self.once(name, lambda: _numbered(self._scan.rows(name, want)))

    def rows_in_doubt(self, name: str, *doubts: str) -> DataFrame:
        """Those ``rows`` about whose record there is one of these doubts, and maybe some others."""
        return self.rows_of(name, RECORD, self._scan.keys(*doubts))

    def keys(self, *doubts: str) -> pa.Table:
        """``key`` of the records about which there is one of these doubts."""
        return self._scan.keys(*doubts)

    def hold(self, wants: Mapping[str, Want]) -> None:
        """Have rows fetched that tasks will look into, in one pass over the history.

        Args:
            wants: by the name under which ``held`` has them. Those that are there are not fetched
                again, nor is it asked which they are.
        """
        missing = {name: want for name, want in wants.items() if name not in self._held}
        if missing:
            self._scan.hold(missing)
            self._held |= missing.keys()

    def held(self, name: str) -> Path:
        """A folder with rows as recorded, for ``checkers.clients.picks.Held``."""
        return self._scan.held(name)

    def each(self, tasks: Sequence[Any], do: Callable[[int, Any], None]) -> None:
        """Have Spark's tasks do something with each of some things and its number."""
        self._scan.each(tasks, do)

    def shares(self, rows: int, most: int | None = None) -> list[Share]:
        """How tasks share so many small rows.

        Args:
            rows: about how many there are.
            most: so many at most are for one task.
        """
        tasks = self.spark.sparkContext.defaultParallelism if rows > _ALONE else 1
        if most is not None:
            tasks = max(tasks, -(-rows // most))
        return [(number, tasks) for number in range(tasks)]

    @property
    def records(self) -> DataFrame:
        """One row a record.

        ``key, slot, history, facts, first, last, writer, begun, ended``. ``first`` and ``last`` are
        the least and greatest offset that anybody named for it, failed sends apart. ``writer`` is
        the ``deed`` that sent it, between ``begun`` and ``ended`` (null: it is not known to have
        succeeded). ``told`` is the offset that its producer was told, ``met_first`` and
        ``met_last`` are the least and greatest at which the final reader met it, and ``fence`` says
        that it is the record by which that reader knows that it has read everything. ``met_by`` is
        when the first operation that read it had ended. ``doubts`` has a bit for each of
        ``checkers.clients.tally.DOUBTS``.
        """
        return self._scan.records

    @property
    def doubtful(self) -> DataFrame:
        """``records`` about which there is any doubt: few, mostly."""
        return self._scan.doubtful

    @property
    def doubts(self) -> Path:
        """A folder of files with ``doubtful``."""
        return self._scan.doubts

    @property
    def sums(self) -> pa.Table:
        """One row a slot, in ``checkers.clients.tally.SLOT``: its records, counted."""
        return self._scan.slots

    @property
    def names(self) -> pa.Table:
        """``slot, history, run, topic, partition``: what the numbers of slots stand for."""
        return self._scan.names

    @property
    def judged(self) -> dict[str, int]:
        """Run to how many of its rows were looked at."""
        return self._scan.judged

    @cached_property
    def slots(self) -> DataFrame:
        """``sums``, for Spark to join with."""
        return self.spark.createDataFrame(self.sums)

    @cached_property
    def suspects(self) -> dict[str, int]:
        """How many records there is each doubt about, and other sums, of all slots together."""
        if self._counted["own"] and not self.two_faced:
            return self._counted | {"own": 0}  # only who sends, too, can read what it has sent
        return self._counted

    @cached_property
    def _counted(self) -> dict[str, int]:
        return {name: pc.sum(self.sums[name]).as_py() or 0 for name in SUMS}

    @property
    def entangled(self) -> bool:
        """Whether operations may be in a cycle of reads and of time, write-write edges left aside.

        Where each client only sends or only reads, and nobody has read a record before its writer
        began, such edges never lead back: let a writer's time be its begin, and a reader's its end.
        """
        return bool(self._counted["foreseen"]) or self.two_faced

    @cached_property
    def two_faced(self) -> bool:
        """Whether any client both sends and reads."""
        asked = [("sends", "any"), ("reads", "any")]
        sides = self._scan.sides.group_by("client").aggregate(asked)
        return bool(pc.any(pc.and_(sides["sends_any"], sides["reads_any"])).as_py())

    def tells(self, facts: int) -> bool:
        """Whether a row has one of these facts, of those that move readers or tell a log's end."""
        return self._scan.tells(facts)

    @property
    def strides(self) -> DataFrame:
        """All rows in their order, shortened; see ``checkers.clients.strides``."""
        return self._scan.strides

    @property
    def stretched(self) -> Path:
        """The folder of files with ``strides``."""
        return self._scan.stretched

    @property
    def extents(self) -> DataFrame:
        """The version order in short: ``slot, low, high, base``, one row a stretch. Kept.

        Every offset from ``low`` to ``high`` is known; ``base`` counts those before. Stretches of a
        slot do not overlap, and may touch.
        """
        return self.made("extents", places.EXTENT, self._extend)

    def _extend(self, folder: Path) -> None:
        known = [self.stretched]
        if self.late:
            at, what = F.col("offset"), F.lit(KNOWN).alias("what")
            place = (at.alias("place"), at.alias("last_place"))
            self.keep("late", self.placed_late(self.rows).select(what, "slot", *place))
            known.append(self.folder("late"))
        self.each([folder], places.Extending(known, self.empty("sorted-places")))

    @cached_property
    def places(self) -> pa.Table:
        """``slot, places``: how many offsets of each slot are known."""
        found: dict[int, int] = {}
        for batch in ds.dataset(self.order, format="parquet").to_batches():
            size = pc.add(pc.subtract(batch["high"], batch["low"]), 1)
            some = pa.table({"slot": batch["slot"], "size": size})
            for row in some.group_by("slot").aggregate([("size", "sum")]).to_pylist():
                found[row["slot"]] = found.get(row["slot"], 0) + row["size_sum"]
        names = {"slot": pa.int64(), "places": pa.int64()}
        return pa.table([[*found], [*found.values()]], schema=pa.schema(names))

    @property
    def order(self) -> Path:
        """Where ``extents`` are for a task to look up offsets; see ``places.Order``."""
        self.made("extents", places.EXTENT, self._extend)
        return self.folder("extents")

    @cached_property
    def proven(self) -> DataFrame:
        """The deeds, in a column ``deed``, of which nobody knows the end, and which committed.

        Somebody has read one of their records in an operation that ended well (Jepsen's
        ``must-have-committed?``). A reader of uncommitted records proves nothing.
        """
        read = has("facts", SENT_INFO) & has("facts", READ_OK)
        return self.doubtful.where(read).select(F.col("writer").alias("deed")).distinct()

    @cached_property
    def placed(self) -> DataFrame:
        """``rows`` that tell where a record stands in the log; what the version order is made of.

        Sends that took effect and know their offset; and reads, those of failed operations too,
        because a poll never gives what is not committed (Jepsen's ``version-orders``). Under
        ``read_uncommitted`` it does: such a read tells a place only if the send took effect.
        """
        return self.placed_among(self.rows)

    def placed_among(self, rows: DataFrame) -> DataFrame:
        """``placed``, of some rows only."""
        told = rows.where(F.col("offset").isNotNull())
        sure = told.where(has("fact", SENT_OK | READ_BY_ANY))
        return sure.unionByName(self.placed_late(rows)) if self.late else sure

    @property
    def late(self) -> bool:
        """Whether there may be rows of ``placed`` that do not say for themselves that they are."""
        return bool(self.suspects["stray"] or self.suspects["peeked"])

    def placed_late(self, rows: DataFrame) -> DataFrame:
        """Those of ``placed_among`` that do not say for themselves that they are."""
        told = rows.where(F.col("offset").isNotNull())
        info = told.where(has("fact", SENT_INFO)).join(self.proven, "deed", "left_semi")
        proven = F.col("writer") == F.col("deed")
        took_effect = self.doubtful.join(self.proven, proven, "left_semi")
        landed = took_effect.unionByName(self.doubtful.where(has("facts", SENT_OK)))
        nowhere = self.doubtful.join(landed.select("key"), "key", "left_anti")
        peeks = told.where(has("fact", PEEK)).join(nowhere, "key", "left_anti")
        return info.unionByName(peeks)


def _numbered(operations: DataFrame) -> DataFrame:
    """Operations with the columns of ``View.rows``."""
    named = operations.withColumns(
        {
            "op": F.coalesce("op", "at"),
            "history": F.xxhash64("run"),
            "client": F.xxhash64("run", "process"),
            "slot": slot(),
            "fact": fact(),
        }
    )
    return named.select(
        *("run", "topic", "partition", "process", "kind", "outcome", "isolation", "offset"),
        *("value", "invoke_ns", "complete_ns", "acks", "phase", "at", "op"),
        *("history", "client", "slot"),
        F.xxhash64("slot", "value").alias("key"),
        F.xxhash64("client", "op").alias("deed"),
        "fact",
    )

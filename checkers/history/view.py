"""The clients' view of histories. Every checker of client histories reads this view.

The terms are those of Jepsen's Kafka workload (``jepsen.tests.kafka``). A checker's documentation
says where its rules differ from Jepsen's. A history is read twice: in the order of rows for
``offset_runs``, and grouped by record for ``sums`` and ``doubtful``. All later queries read these
results, or a few rows.
"""

from collections import Counter
from collections.abc import Collection
from functools import cached_property, partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from highwater.checkers.core.derived import derived
from highwater.checkers.history import record_summaries, send_waits
from highwater.checkers.history import row_flags as flags
from highwater.checkers.history.columns import (
    NONE,
    Groups,
    Ints,
    any_of,
    arrow,
    choose,
    grouped,
    numbers,
    schema,
)
from highwater.checkers.history.offset_runs import (
    ACKNOWLEDGED,
    COUNTED,
    INPUT,
    OFFSET_RUN,
    WAITED,
    offset_runs,
)
from highwater.checkers.history.record_summaries import DOUBTFUL, DOUBTS, RECORD, SLOT, SUMS, TALLY
from highwater.checkers.history.rows import NAMES, OF_SLOT, ROW, WORDS, named, numbered
from highwater.checkers.run_tables import Tables
from highwater.checkers.spark.engine import Engine, Rows, collected
from highwater.harness.runs.history import OPERATIONS_TABLE

_WORDS_HERE: Final = 1_000_000
"""The greatest number of rows of a history that one query collects into this process, with names
and numbers."""

_ALL: Final = pa.unify_schemas([ROW, NAMES, WORDS, schema("word")])
_ADRIFT: Final = schema("key", "seen", "there", seen=pa.bool_())


class ClientHistory:
    """The clients' view of one or more histories. Each property is computed once, on first use.

    Args:
        engine: the session's engine.
        operations: rows with the columns ``harness.runs.history.OPERATIONS``, ``run`` and ``at``.
        size: the number of rows.
        final_read: whether the histories end with a final reader that had to read all acknowledged
            records.
        unsent: the runs in which other producers sent the records.
    """

    def __init__(
        self,
        engine: Engine,
        operations: DataFrame,
        size: int,
        *,
        final_read: bool = False,
        unsent: Collection[str] = (),
    ) -> None:
        self.engine = engine
        self.operations = operations
        self.size = size
        self.derived: dict[object, Any] = {}
        ignored = () if final_read else record_summaries.OF_FINAL_READS
        self._unsent = pa.array(unsent, pa.string())
        self._doubts = record_summaries.bits(*(name for name in DOUBTS if name not in ignored))

    @cached_property
    def _all(self) -> Rows:
        """Every row: columns of ``ROW``, ``NAMES`` and ``WORDS``; few rows are in memory."""
        frame = numbered(self.operations).withColumn("word", F.xxhash64("run", "topic", "value"))
        elsewhere = self.engine.there(frame.select(*_ALL.names), _ALL, self.size)
        few = self.size <= min(_WORDS_HERE, self.engine.here)
        return self.engine.table(elsewhere.table()) if few else elsewhere

    @cached_property
    def rows(self) -> Rows:
        """Every row, with the columns ``checkers.history.rows.ROW``."""
        rows = self._all.select(ROW.names)
        return rows if rows.here else self.engine.frame(rows.frame(), ROW, self.size)

    @property
    def everything(self) -> Rows:
        """Every row: columns of ``ROW``, ``NAMES`` and ``WORDS``. They may still be in Spark."""
        return self._all

    @property
    def words(self) -> Rows:
        """Every row, with the columns ``checkers.history.rows.WORDS``."""
        return self._all.select(WORDS.names)

    @cached_property
    def names(self) -> pa.Table:
        """The number (``slot``) and names of every partition: ``checkers.history.rows.NAMES``."""
        if self._all.here:
            return self._all.distinct(NAMES.names)
        # Compute hashes of the few distinct names, not of the many rows.
        return collected(named(self.operations.select(*OF_SLOT).distinct()), NAMES)

    @cached_property
    def _offset_runs(self) -> Rows:
        return self.rows.select(INPUT).map(offset_runs, OFFSET_RUN).persist()

    @cached_property
    def offset_runs(self) -> Rows:
        """The offset runs of all rows; see ``checkers.history.offset_runs``."""
        return self._offset_runs.but("what", COUNTED).but("what", WAITED).but("what", ACKNOWLEDGED)

    @cached_property
    def waits(self) -> pa.Table:
        """The times in which sends waited for a response, as ``send_waits.SPAN`` rows."""
        return self._spans(WAITED, within=send_waits.TOGETHER_NS)

    @cached_property
    def acknowledged(self) -> pa.Table:
        """The times in which a partition acknowledged sends without an outage, as ``SPAN``."""
        return self._spans(ACKNOWLEDGED, within=send_waits.SHORT_NS)

    def _spans(self, what: int, within: int) -> pa.Table:
        rows = numbers(self._offset_runs.only("what", what).table())
        return send_waits.merged(rows["slot"], rows["place"], rows["last_place"], within)

    @cached_property
    def _counted(self) -> pa.Table:
        return self._offset_runs.only("what", COUNTED).table()

    def tells(self, facts: int) -> bool:
        """Return whether any row has one of these flags."""
        return bool((self._counted["op"].to_numpy() & facts).any())

    @cached_property
    def grouped(self) -> frozenset[str]:
        """The runs whose histories name the consumer groups of their clients."""
        counted = self._counted
        joined = counted.filter(pc.not_equal(pc.bit_wise_and(counted["op"], flags.GROUPED), 0))
        slots = pc.is_in(self.names["slot"], joined["slot"])
        return frozenset(self.names["run"].filter(slots).to_pylist())

    @property
    def two_faced(self) -> bool:
        """True if any client both sends and reads."""
        return bool(len(self._two_faced))

    @cached_property
    def _two_faced(self) -> Ints:
        """The partitions of the clients that both send and read."""
        ordered = numbers(self._counted.sort_by("client"), ("client", "slot", "op"))
        client = Groups.of(ordered["client"])
        sends, reads = (
            client.any((ordered["op"] & bits) != 0) for bits in (flags.SENT, flags.SEEN)
        )
        slots: Ints = ordered["slot"][client.spread(sends & reads)]
        return slots

    @property
    def _of_records(self) -> Rows:
        return self.rows.where(flags.SENT | flags.SEEN)

    @cached_property
    def _tally(self) -> Rows:
        kernel = partial(record_summaries.tally, doubts=self._doubts)
        if len(self._unsent):
            slots = self.names.filter(pc.is_in(self.names["run"], self._unsent))["slot"]
            kernel = partial(kernel, unsent=slots.to_numpy())
        return self._of_records.by(["key"], kernel, TALLY).persist()

    @cached_property
    def sums(self) -> pa.Table:
        """The record counts of each partition, in ``checkers.history.record_summaries.SLOT``."""
        chunks = self._tally.not_null("sums").select(["sums"]).table()["sums"].combine_chunks()
        return record_summaries.summed(pa.table(chunks.flatten(), schema=SLOT))

    @cached_property
    def doubtful(self) -> Rows:
        """The ``checkers.history.record_summaries.DOUBTFUL`` rows of all doubtful records."""
        rows = self._tally.not_null("key").select(DOUBTFUL.names)
        if not self.tells(flags.SENT_INFO):
            return rows
        return rows.by(["operation"], _proven, DOUBTFUL).persist()

    @cached_property
    def records(self) -> Rows:
        """One row of ``checkers.history.record_summaries.RECORD`` for each record."""
        return self._of_records.by(["key"], record_summaries.records, RECORD).persist()

    @cached_property
    def judged(self) -> dict[str, int]:
        """The number of rows of each run that checkers judge, by the run's key."""
        counted = self._counted.select(["slot", "place", "last_place"]).group_by("slot")
        totals = counted.aggregate([("place", "sum"), ("last_place", "sum")])
        both = totals.join(self.names, "slot", join_type="left outer")
        both = both.join(self.sums.select(["slot", "rows"]), "slot", join_type="left outer")
        judged = Counter[str]()
        for row in both.to_pylist():
            judged[row["run"]] += row["place_sum"] - row["last_place_sum"] + (row["rows"] or 0)
        return dict(judged)

    @cached_property
    def suspects(self) -> dict[str, int]:
        """The sums of all partitions (``SUMS``), such as the number of records with each doubt."""
        if self._summed["own"] and not self.two_faced:
            return self._summed | {
                "own": 0
            }  # only a client that also sends can read its own records
        return self._summed

    @cached_property
    def _summed(self) -> dict[str, int]:
        return {name: pc.sum(self.sums[name]).as_py() or 0 for name in SUMS}

    @cached_property
    def entangled(self) -> frozenset[str]:
        """The runs that may have a cycle of write-read edges and real-time edges.

        A run has no such cycle if each client only sends or only reads, and no client read a record
        before its send began. The reason: let a send have the time of its begin, and a read the
        time of its end. Then every edge leads forward in time.
        """
        foreseen = self.sums.filter(pc.greater(self.sums["foreseen"], 0))["slot"].to_numpy()
        slots = pa.array(np.concatenate([foreseen, self._two_faced]))
        return frozenset(self.names["run"].filter(pc.is_in(self.names["slot"], slots)).to_pylist())

    @cached_property
    def placed(self) -> Rows:
        """The rows that prove a record's offset in the log. These offsets form the version order.

        These rows are the reads, and the sends that took effect and have an offset. Reads of failed
        operations are included, because a poll returns only committed records (Jepsen's
        ``version-orders``). A read with ``read_uncommitted`` is included only if its record's send
        took effect.
        """
        sure = self.rows.not_null("offset").where(flags.SENT_OK | flags.READ_BY_ANY)
        return sure.union(self.placed_late) if self.late else sure

    @property
    def late(self) -> bool:
        """True if ``placed_late`` may have rows."""
        return bool(self.suspects["stray"] or self.suspects["peeked"])

    @cached_property
    def placed_late(self) -> Rows:
        """The rows of ``placed`` that count only because other rows prove their record's send."""
        if not self.late:
            return self.engine.table(ROW.empty_table())
        rows = self.doubtful.by(["key"], _landed, ROW)
        if self.tells(flags.PEEK):
            peeks = self.rows.not_null("offset").where(flags.PEEK)
            rows = rows.union(peeks.join(self.doubtful.select(["key"]), ["key"], "anti"))
        return rows.persist()

    @cached_property
    def adrift(self) -> pa.Table:
        """The columns ``key, seen, there`` of every record that was sent to an unknown partition.

        Records with the same run, topic and value are the same record, in any partition. ``seen``
        is true if an operation that succeeded read such a record. ``there`` is the least offset at
        which the final read returned such a record.
        """
        if not self.tells(flags.ADRIFT):
            return _ADRIFT.empty_table()
        rows = self._all.select(["word", "key", "offset", "fact"])
        words = self.engine.table(rows.where(flags.ADRIFT).distinct(["word"]))
        touched = rows.where(flags.SENT | flags.SEEN).join(words, ["word"], "semi")
        return touched.by(["word"], _adrift, _ADRIFT).table()


@derived
def client_view(tables: Tables) -> ClientHistory:
    """Return the clients' view of the runs."""
    size = sum(case.operations for case in tables.cases)
    operations = tables.numbered(OPERATIONS_TABLE)
    unsent = [case.key for case in tables.cases if case.plan.read_only]
    return ClientHistory(tables.engine, operations, size, final_read=True, unsent=unsent)


def _proven(rows: pa.Table) -> pa.Table:
    """Return rows of ``DOUBTFUL`` with the flag ``PROVEN`` added to sends.

    All rows of one ``operation`` must be in one table.
    """
    fact, operation = (rows[name].to_numpy() for name in ("fact", "operation"))
    proven = np.isin(operation, operation[any_of(fact, flags.PROOF)]) & any_of(fact, flags.SENT)
    fact = fact | np.where(proven, flags.PROVEN, 0).astype(np.int32)
    return rows.set_column(rows.schema.get_field_index("fact"), "fact", pa.array(fact))


def _landed(rows: pa.Table) -> pa.Table:
    """Return the rows of ``DOUBTFUL`` whose offset counts because other rows prove the send.

    These are sends of unknown outcome, and reads with ``read_uncommitted``. All rows of one ``key``
    must be in one table.
    """
    columns, record = grouped(numbers(rows), "key")
    fact, operation = columns["fact"], columns["operation"]
    writer = record.spread(record.greatest(operation, any_of(fact, flags.SENT)))
    proven = any_of(fact, flags.PROVEN)
    landed = record.spread(record.any(proven & (operation == writer)))
    landed |= any_of(columns["facts"], flags.SENT_OK)
    located = proven & any_of(fact, flags.SENT_INFO) | any_of(fact, flags.PEEK) & landed
    return arrow(choose(columns, located & (columns["offset"] != NONE)), ROW)


def _adrift(rows: pa.Table) -> pa.Table:
    """Return the records (``key``) of each ``word``, as rows of ``ClientHistory.adrift``.

    All rows of one ``word`` must be in one table.
    """
    columns, word = grouped(numbers(rows), "word")
    seen = any_of(columns["fact"], flags.SEEN_OK)
    there = word.least(columns["offset"], record_summaries.read_at_the_end(columns))
    columns |= {"seen": word.spread(word.any(seen)), "there": word.spread(there)}
    return arrow(columns, _ADRIFT).group_by(_ADRIFT.names).aggregate([])

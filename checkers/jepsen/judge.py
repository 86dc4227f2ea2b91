"""Judge a Jepsen history: find its anomalies, and decide whether they break Kafka's guarantees.

The kinds that break no guarantee are those of Jepsen's ``allowed-error-types``
(``jepsen.tests.kafka``).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from highwater.checkers.anomalies.find import find
from highwater.checkers.anomalies.root_causes import caused, truncated_ranges
from highwater.checkers.anomaly_files import gather
from highwater.checkers.core.anomaly import SCHEMA
from highwater.checkers.cycles import cycles
from highwater.checkers.history.view import ClientHistory
from highwater.checkers.jepsen.final_coverage import short
from highwater.checkers.jepsen.history_file import History, Read
from highwater.checkers.jepsen.jepsen_fields import CYCLES, entry, key
from highwater.checkers.jepsen.untold import judged
from highwater.checkers.policy import Word
from highwater.checkers.run_rows import from_here, in_order
from highwater.checkers.spark.engine import Engine, Rows
from highwater.harness.runs.history import OK, SEND

MEANS: Final = {
    "lost-write": "a record was acknowledged and never read, although a reader read a later offset",
    "vanished": "a record was acknowledged and read, but the last reader skipped it",
    "unseen": (
        "a record was acknowledged and never read; no reader is known to have reached its offset"
    ),
    "phantom": "a record was read, but never sent",
    "duplicate": "a record is at several offsets",
    "inconsistent-offsets": "several records are at one offset",
    "G1a": "a record was read, although its transaction was aborted",
    "precommitted-read": "a record was read by the transaction that sent it, before the commit",
    "poll-skip": "a poll begins after records that its client should have read",
    "nonmonotonic-poll": "a poll begins at or before the end of its client's previous poll",
    "int-poll-skip": "one operation polls two records, but skips records between them",
    "int-nonmonotonic-poll": "one operation polls a record at or before a record that it has "
    "already polled",
    "nonmonotonic-send": "a client's records are not in the order in which it sent them",
    "int-nonmonotonic-send": "one operation's records are not in the order of its sends",
    "int-send-skip": "records of other operations are between the records of one operation",
    "G0": "operations precede each other in a cycle, by the order of their records in the log",
    "G1c": "operations precede each other in a cycle, by the records that they sent and read",
}
"""The kinds of anomaly in the order of the report, each with a description."""

for _kind in ("G0", "G1c"):
    MEANS[f"{_kind}-process"] = f"{MEANS[_kind]}, and by the order of each client's operations"
    MEANS[f"{_kind}-realtime"] = (
        f"{MEANS[_kind]}, and because one operation ended before another began"
    )

_ALWAYS_ALLOWED: Final = frozenset(("int-send-skip", "G0", "G0-process", "G0-realtime"))
_ALLOWED_TO_SUBSCRIBERS: Final = frozenset(("poll-skip", "nonmonotonic-poll"))
_UNREAD: Final = frozenset(("unseen",))  # not tested in a history without polls
_ALLOWED_WITH_WW: Final = frozenset(("G1c", "G1c-process", "G1c-realtime"))

OPERATIONS_FILE: Final = "history.parquet"
"""The file name of the history in the judgement's directory."""

_SHOWN_MAX: Final = 32
_STEPS_SHOWN: Final = (
    8  # for kinds with a delta, the anomalies with the greatest; for cycles, the shortest
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The result of judging a history.

    Attributes:
        history: the history that was judged.
        read: the result of reading the history.
        counts: the number of anomalies of each kind.
        breaking: the kinds in ``counts`` that break a guarantee.
        doubts: sentences that state why the history is not conclusive.
        reasons: the reasons for the verdict, including the doubts.
        verdict: ``unknown`` if a part of the history could not be read or was not judged. Otherwise
            ``invalid`` if a guarantee is broken, ``unknown`` if there are doubts, else ``valid``.
    """

    history: History
    read: Read
    counts: dict[str, int]
    breaking: tuple[str, ...]
    doubts: tuple[str, ...]
    reasons: tuple[str, ...]
    verdict: Word
    _anomalies: pa.Table | DataFrame

    def weight(self, kind: str) -> str:
        """Return ``breaks``, ``allowed`` or ``untested`` (``unseen`` records without polls)."""
        if kind in self.breaking:
            return "breaks"
        return "untested" if kind in _UNREAD else "allowed"

    def anomalies(self) -> Iterator[dict[str, Any]]:
        """Yield the anomalies, kind by kind, as ``jepsen_fields.entry`` returns them."""
        for row in _dicts(self._anomalies):
            yield entry(row, self.history)


def _dicts(table: pa.Table | DataFrame) -> Iterator[dict[str, Any]]:
    if isinstance(table, pa.Table):
        for batch in table.to_batches():
            yield from batch.to_pylist()
    else:
        for row in table.toLocalIterator():
            yield row.asDict(recursive=True)


def judge(
    history: History,
    read: Read,
    spark: SparkSession,
    folder: Path,
    *,
    every: bool = False,
    ww: bool = False,
) -> Judgement:
    """Find all anomalies in a history, and return the judgement.

    Args:
        history: the opened history.
        read: the result of ``history.to_parquet(folder / OPERATIONS_FILE)``.
        spark: the session from ``checkers.spark.session.spark``.
        folder: the directory with that file; do not delete it while the judgement is in use.
        every: whether to list all anomalies instead of the first few of each kind.
        ww: whether the order of records in the log also orders operations (Jepsen's ``ww-deps``).
    """
    path, name = folder / OPERATIONS_FILE, history.path.stem
    with Engine(spark) as engine:
        view = ClientHistory(engine, _operations(engine, path, name, read.rows), read.rows)
        rows: list[Rows] = [find(view)]
        rows += filter(None, [cycles.find(view, ww=ww)])
        anomalies, hidden = judged(gather(engine, rows), read.untold, path)
        grouped = anomalies.map(partial(caused, causes=truncated_ranges(anomalies)), SCHEMA)
        counted = {row["kind"]: row["count"] for row in grouped.counts(["kind"]).to_pylist()}
        counts = {kind: counted[kind] for kind in MEANS if kind in counted}
        listed = _in_order(grouped) if every else _sorted(_first(grouped))
        seen, ends = view.judged.get(name, 0), short(view)
        unsearched = cycles.unsearched(view, name, ww=ww)
    harmless = allowed(read.subscribed, ww=ww) | (_UNREAD if not read.polled else frozenset())
    breaking = tuple(kind for kind in counts if kind not in harmless)
    untested = _untested(_acknowledged(path), polled=read.polled)
    lost = "" if seen == read.rows else _lost(read.rows, seen)
    doubts = (
        *filter(None, (read.cut, lost, untested)),
        *([f"Cycles were not judged: {unsearched}."] if unsearched else []),
        *read.untold.doubts(hidden),
        *(_doubt(*end) for end in ends),
    )
    return Judgement(
        history=history,
        read=read,
        counts=counts,
        breaking=breaking,
        doubts=doubts,
        reasons=(*doubts, *(reason(kind, counts[kind]) for kind in breaking)),
        verdict="unknown"
        if read.cut or lost
        else "invalid"
        if breaking
        else "unknown"
        if doubts
        else "valid",
        _anomalies=listed,
    )


def _operations(engine: Engine, path: Path, name: str, rows: int) -> DataFrame:
    """Return a history's operations as a DataFrame. A small history is read by this process."""
    if rows > engine.here:
        return in_order(engine.spark.read.parquet(str(path))).withColumn("run", F.lit(name))
    return from_here(engine, path, name)


def allowed(subscribed: bool, *, ww: bool) -> frozenset[str]:
    """Return the kinds of anomaly that break no guarantee.

    Args:
        subscribed: whether clients were subscribed, so that a rebalance may revoke a partition.
        ww: whether cycles may have write-write edges, although Kafka does not isolate writes.
    """
    readers = _ALLOWED_TO_SUBSCRIBERS if subscribed else frozenset[str]()
    return _ALWAYS_ALLOWED | readers | (_ALLOWED_WITH_WW if ww else frozenset())


def reason(kind: str, count: int) -> str:
    """Return a sentence with the number of anomalies of a kind, and the meaning of the kind."""
    return f"{count} {kind}: {MEANS[kind]}."


def _acknowledged(path: Path) -> int:
    sent = (ds.field("kind").cast("string") == SEND) & (ds.field("outcome").cast("string") == OK)
    return int(ds.dataset(path, format="parquet").count_rows(filter=sent))


def _lost(read: int, judged: int) -> str:
    return f"The history has {read:,} rows, of which {judged:,} were judged."


_ORDER: Final = ("topic", "partition", "offset", "value")


def _sorted(table: pa.Table) -> pa.Table:
    kind = pc.index_in(table["kind"], pa.array(list(MEANS)))
    order = table.select(_ORDER).append_column("nth", kind)
    return table.take(pc.sort_indices(order, _ascending("nth", *_ORDER)))


def _in_order(rows: Rows) -> pa.Table | DataFrame:
    if rows.here:
        return _sorted(rows.table())
    nth: Column = F.array_position(F.array(*map(F.lit, MEANS)), F.col("kind"))
    return rows.frame().orderBy(nth, *_ORDER)


def _first(rows: Rows) -> pa.Table:
    few = rows.map(_foremost, SCHEMA).table()
    return _foremost(few) if len(few) else few


def _ascending(*names: str) -> list[tuple[str, str, str]]:
    return [(name, "ascending", "at_start") for name in names]


def _untested(acknowledged: int, *, polled: bool) -> str:
    """Return a sentence that states why a history tests no guarantee; empty if it tests one."""
    if not acknowledged:
        return "No send was acknowledged, so no guarantee was tested."
    if not polled:
        sends_acknowledged = (
            f"{acknowledged:,} send{'s were' if acknowledged > 1 else ' was'} acknowledged"
        )
        return (
            f"{sends_acknowledged}, but no poll succeeded: no reader checked whether the records"
            " exist."
        )
    return ""


def _doubt(topic: str, partition: int, offset: int) -> str:
    return (
        f"Key {key(topic, partition)}: offset {offset} was known, but no reader that later "
        "called seek to the beginning reached it again. The key's log may have been lost, its "
        "records may have expired, or its leader may not have responded: the history does not "
        "show the cause."
    )


def _foremost(table: pa.Table) -> pa.Table:
    """Return the first anomalies of each kind for the report, in Jepsen's order."""
    order = table.select(["kind", *_ORDER[:-1]])
    order = order.append_column("far", pc.abs(table["delta"]))
    order = order.append_column("steps", pc.list_value_length(table["steps"]))
    far = ("far", "descending", "at_end")
    keys = [*_ascending("kind"), far, *_ascending("steps", *_ORDER[:-1])]
    table = table.take(pc.sort_indices(order, keys))
    kind = table["kind"].combine_chunks().dictionary_encode().indices.to_numpy()
    rank = np.arange(len(kind)) - np.searchsorted(kind, kind)
    stepped = pc.or_(table["delta"].is_valid(), pc.is_in(table["kind"], pa.array(list(CYCLES))))
    most = np.where(stepped.to_numpy(), _STEPS_SHOWN, _SHOWN_MAX)
    return table.filter(pa.array(rank < most))

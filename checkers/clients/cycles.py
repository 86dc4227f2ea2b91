"""Cycles of operations: G0, G1c, and their -process and -realtime forms.

One operation comes before another when a record that it sent stands in the log just before one of
the other's (ww), when the other read what it sent (wr), or when it had ended before the other began
(process: of the same process; realtime: of any). That no operation comes before itself is what
Adya's isolation levels and strict serializability ask ("Weak Consistency", 1999, 4.2; Elle, VLDB
2020); the edges are those of Jepsen's ``jepsen.tests.kafka`` (``ww-graph``, ``wr-graph``), with two
exceptions: a record whose offset is another's as well, or that stands at two, is in no ww edge,
because its place is what is wrong with it; and a read under ``read_uncommitted`` is in no wr edge,
because it is promised nothing.

Kafka isolates no writes: transactions that run side by side may well stand in one partition in one
order and in another in the other, so that G0, and with ww edges G1c, are no broken promise.

Only the operations that ``checkers.clients.times`` leaves are put into a graph.
"""

import warnings
from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.pandas.types import from_arrow_schema

from checkers.anomaly import SCHEMA, anomalies
from checkers.clients.digraph import (
    NEVER,
    PROCESS,
    REALTIME,
    Bools,
    Dependencies,
    Ints,
    Operations,
    cycles,
)
from checkers.clients.facts import READ_BY_ANY, SEEN, SENT, has
from checkers.clients.times import READER, SENDER, keep, suspects
from checkers.clients.view import View
from checkers.clients.witness import none
from harness.history import OK, SEND

_GATHERED: Final = 1_000_000  # edges that are put into one graph, unless one segment has more

_WITNESS: Final = pa.schema(
    [
        ("segment", pa.int64()),
        ("cycle", pa.int64()),
        ("kind", pa.string()),
        ("place", pa.int64()),
        ("deed", pa.int64()),
        ("key", pa.int64()),
        ("sends", pa.bool_()),
        ("why", pa.string()),
    ]
)


def find(view: View, *, ww: bool = True) -> DataFrame:
    """Anomalies ``G0``, ``G1c``, ``G0-process`` and so on: a short cycle of each component.

    ``steps`` are two for each step of the cycle: what the one operation did, and what the next did
    for which it comes after. Two sends are a ww edge, a send and a read a wr edge; of an order in
    time both steps have the kind ``process`` or ``realtime`` and no record.

    Args:
        view: of any number of histories.
        ww: whether the log's order of records makes an order of operations (Jepsen's ``ww-deps``).
            Without it G0 cannot be found, and every G1c is one that no isolation level allows.
    """
    members = suspects(view, ww=ww)
    if members is None:
        return none(view)
    edges = _read_edges(view, members)
    if ww:
        edges = edges.unionByName(_log_edges(members))
    deeds = keep(view, "deeds", _deeds(view, members), ww=ww)
    for end in ("source", "target"):
        named = [F.col(name).alias(f"{end}_{name}") for name in ("client", "begun", "ended")]
        edges = edges.join(
            deeds.select("segment", F.col("deed").alias(end), *named), ["segment", end]
        )
    graphs = edges.repartition("segment").sortWithinPartitions("segment")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PySpark's own, about a pandas that is newer than it
        found = graphs.mapInArrow(_witnesses, from_arrow_schema(_WITNESS))
    return _told(view, keep(view, "found", found, ww=ww))


def _read_edges(view: View, members: DataFrame) -> DataFrame:
    """Each sender to those that read of it: ``segment, source, target, sent, met, wr``."""
    readers = members.where(F.col("rank") == READER).select("segment", "deed").distinct()
    reads = view.rows.where(has("fact", READ_BY_ANY)).join(readers, "deed")
    sends = members.where(F.col("rank") == SENDER)
    return (
        reads.select("segment", "key", F.col("deed").alias("target"))
        .join(sends.select("segment", "key", F.col("deed").alias("source")), ["segment", "key"])
        .where("source <> target")
        .select(
            "segment",
            "source",
            "target",
            F.col("key").alias("sent"),
            F.col("key").alias("met"),
            F.lit(True).alias("wr"),
        )
    )


def _log_edges(members: DataFrame) -> DataFrame:
    """Each sender to that of the next record in the log, where it is sure which that is.

    The next of the members: were one between them that is none, and in a cycle with both, then it
    would be a member.
    """
    here = Window.partitionBy("slot", "offset")
    alone = F.min("key").over(here) == F.max("key").over(here)
    sure = members.where(F.col("rank") == SENDER).withColumn("alone", alone)
    order = Window.partitionBy("slot").orderBy("offset")
    before = F.lag(F.struct("segment", "deed", "key")).over(order)
    return (
        sure.where("sure AND alone")
        .withColumn("before", before)
        .where("before.segment = segment AND before.deed <> deed")
        .select(
            "segment",
            F.col("before.deed").alias("source"),
            F.col("deed").alias("target"),
            F.col("before.key").alias("sent"),
            F.col("key").alias("met"),
            F.lit(False).alias("wr"),
        )
    )


def _deeds(view: View, members: DataFrame) -> DataFrame:
    """Whose each member is, and when: ``segment, deed, client, begun, ended``."""
    good = F.col("outcome") == OK
    times = view.rows.where(has("fact", SENT | SEEN)).join(
        members.select("segment", "deed").distinct(), "deed"
    )
    return times.groupBy("segment", "deed").agg(
        F.min("client").alias("client"),
        F.min("invoke_ns").alias("begun"),
        F.max(F.when(good, F.col("complete_ns"))).alias("ended"),
    )


def _witnesses(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The cycles among edges that come in the order of their segments, in ``_WITNESS``.

    Whole segments are gathered until they are many edges, because one large graph of many small
    ones is faster to search than each of them.
    """
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(map(len, held)) < _GATHERED:
            continue
        table = pa.Table.from_batches(held)
        segments = _ints(table, "segment")
        whole = int(np.searchsorted(segments == segments[-1], True))
        if whole:
            yield from _cycles(table.slice(0, whole)).to_batches()
            held = table.slice(whole).to_batches()
    if held:
        yield from _cycles(pa.Table.from_batches(held)).to_batches()


def _cycles(edges: pa.Table) -> pa.Table:
    """The cycles of whole segments: two rows for each step of each."""
    edges = edges.sort_by([(name, "ascending") for name in ("source", "target", "wr", "met")])
    ends = _ints(edges, "source"), _ints(edges, "target")
    names, first, places = np.unique(np.concatenate(ends), return_index=True, return_inverse=True)
    source, target = places[: len(edges)], places[len(edges) :]

    def told(name: str) -> pa.ChunkedArray:
        """Of each operation what its edges tell."""
        both = [*edges[f"source_{name}"].chunks, *edges[f"target_{name}"].chunks]
        return pa.chunked_array(both).take(first)

    segment = np.concatenate([_ints(edges, "segment")] * 2)[first]
    operations = Operations(
        history=np.unique(segment, return_inverse=True)[1],
        process=np.unique(told("client").to_numpy(), return_inverse=True)[1],
        begin=told("begun").to_numpy(),
        end=told("ended").fill_null(NEVER).to_numpy(),
    )
    wr = edges["wr"].to_numpy()
    found = cycles(operations, Dependencies(source=source, target=target, wr=wr))
    shown = _Shown(edges, source, target, wr)
    rows = [
        {
            "segment": int(segment[leg.source]),
            "cycle": number,
            "kind": kind,
            "place": 2 * place + end,
            "deed": int(names[deed]),
            "why": leg.why,
            **(shown.at(leg.edge, end) if leg.edge >= 0 else shown.of(deed)),
        }
        for number, (kind, legs) in enumerate(found)
        for place, leg in enumerate(legs)
        for end, deed in enumerate((leg.source, leg.target))
    ]
    return pa.Table.from_pylist(rows, schema=_WITNESS)


class _Shown:
    """Which record an operation is shown by; edges are in the order of their sources."""

    def __init__(self, edges: pa.Table, source: Ints, target: Ints, wr: Bools) -> None:
        self._keys = _ints(edges, "sent"), _ints(edges, "met")
        self._wr = wr
        self._source = source
        self._by_target = np.argsort(target, kind="stable")
        self._target = target[self._by_target]

    def at(self, edge: int, end: int) -> dict[str, object]:
        """The record at an edge's source (``end`` 0) or target (1)."""
        return {"key": int(self._keys[end][edge]), "sends": end == 0 or not self._wr[edge]}

    def of(self, deed: int) -> dict[str, object]:
        """Some record of an operation."""
        place = int(np.searchsorted(self._source, deed))
        if place < len(self._source) and self._source[place] == deed:
            return self.at(place, 0)
        return self.at(int(self._by_target[np.searchsorted(self._target, deed)]), 1)


def _told(view: View, found: DataFrame) -> DataFrame:
    """The cycles as anomalies, with what was recorded of each step."""
    sends = (F.col("kind") == SEND).alias("sends")
    recorded = view.rows.where(has("fact", SENT | SEEN)).join(
        found.select("deed", "key").distinct(), ["deed", "key"], "left_semi"
    )
    fields = SCHEMA.field("steps").type.value_type.names
    rows = recorded.groupBy("deed", "key", sends).agg(
        F.min(F.struct("at", "run", "topic", F.struct(*fields).alias("step"))).alias("row")
    )
    by_time = F.col("why").isin(PROCESS, REALTIME)
    step = F.col("row.step").withField(
        "kind", F.when(by_time, F.col("why")).otherwise(F.col("row.step.kind"))
    )
    for name in ("partition", "offset", "value"):
        step = step.withField(name, F.when(~by_time, F.col(f"row.step.{name}")))
    steps = F.sort_array(F.collect_list(F.struct("place", step.alias("step"))))
    told = found.withColumnRenamed("kind", "name").join(rows, ["deed", "key", "sends"])
    grouped = told.groupBy("segment", "cycle", "name").agg(
        F.min("row.run").alias("run"),
        F.min("row.topic").alias("topic"),
        steps.getField("step").alias("steps"),
    )
    return anomalies(grouped, F.col("name"))


def _ints(table: pa.Table, name: str) -> Ints:
    numbers: Ints = table[name].to_numpy()
    return numbers

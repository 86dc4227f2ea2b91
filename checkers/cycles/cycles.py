"""Cycles of operations: G0, G1c, and their -process and -realtime forms.

One operation comes before another when a record that it sent stands in the log just before one of
the other's (ww), when the other read what it sent (wr), or when it had ended before the other began
(process: of the same process; realtime: of any). Adya's isolation levels and strict serializability
require that no operation comes before itself ("Weak Consistency", 1999, 4.2; Elle, VLDB 2020); the
edges are those of Jepsen's ``jepsen.tests.kafka`` (``ww-graph``, ``wr-graph``), with two
exceptions: a record that shares its offset with another, or has two offsets, is in no ww edge,
because its place itself is wrong; and a read under ``read_uncommitted`` is in no wr edge, because
it has no promise.

Kafka does not isolate writes: concurrent transactions may have one order in one partition and the
    other order in another. So G0, and G1c with ww edges, break no promise.

Only the operations that ``checkers.cycles.candidates`` leaves are put into a graph.
"""

from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa

from highwater.checkers.core.anomaly import SCHEMA
from highwater.checkers.cycles.candidates import MEMBER, READER, SENDER, suspects
from highwater.checkers.cycles.search import PROCESS, REALTIME, Dependencies, Operations, cycles
from highwater.checkers.history import row_flags as flags
from highwater.checkers.history.columns import (
    NEVER,
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
    sort,
)
from highwater.checkers.history.rows import REFERENCE
from highwater.checkers.history.view import ClientHistory
from highwater.checkers.spark.engine import Rows

_OPERATION: Final = schema("segment", "operation")
_EDGE: Final = schema("segment", "source", "target", "sent", "met")
_WITNESS: Final = schema(
    *("segment", "cycle", "place", "kind", "why", "operation", "key", "sends"),
    kind=pa.string(),
    why=pa.string(),
    sends=pa.bool_(),
)
_WITNESS_KEY: Final = ("operation", "key", "sends")
_REFERENCE: Final = schema(*_WITNESS_KEY, *REFERENCE, sends=pa.bool_())
_STEP: Final = SCHEMA.field("steps").type.value_type.names


def find(view: ClientHistory, *, ww: bool = True) -> Rows | None:
    """Find anomalies ``G0``, ``G1c``, ``G0-process`` and so on: a short cycle of each component.

    ``steps`` has two rows for each step of the cycle: a row of the one operation, and the row of
    the next one that makes it come after. Two sends are a ww edge, a send and a read a wr edge; for
    an order in time both rows have the kind ``process`` or ``realtime`` and no record.

    Args:
        view: of any number of histories.
        ww: whether the log's order of records makes an order of operations (Jepsen's ``ww-deps``).
            Without it G0 cannot be found, and every G1c is one that no isolation level allows.

    Returns:
        Rows of ``checkers.core.anomaly.SCHEMA``; None if there are no cycles.
    """
    members = suspects(view, ww=ww)
    if members is None:
        return None
    ids = members.by(["operation"], _ids, _OPERATION)
    rows = view.rows.where(flags.SENT | flags.SEEN).join(ids, ["operation"]).persist()
    none = view.engine.table(_EDGE.empty_table())
    log = members.only("rank", SENDER).by(["slot"], _log_edges, _EDGE) if ww else none
    witnesses = members.union(rows, log).by(["segment"], _search, _WITNESS).table()
    return _tell(view, rows, witnesses) if len(witnesses) else None


def _ids(members: pa.Table) -> pa.Table:
    return members.group_by(_OPERATION.names).aggregate([])


def _log_edges(senders: pa.Table) -> pa.Table:
    """Link each sender to that of the next record in the log, where that is certain.

    A kernel by ``slot``. Only members count: a record between two members that formed a cycle with
    both would be a member too.
    """
    ordered, place = grouped(numbers(senders), "slot", "offset")
    alone = place.first[place.size == 1]
    ordered = choose(ordered, alone[ordered["sure"][alone]])
    before = {name: column[:-1] for name, column in ordered.items()}
    after = {name: column[1:] for name, column in ordered.items()}
    linked = (before["slot"] == after["slot"]) & (before["segment"] == after["segment"])
    linked &= before["operation"] != after["operation"]
    edges = {
        "segment": before["segment"],
        "source": before["operation"],
        "target": after["operation"],
    }
    edges |= {"sent": before["key"], "met": after["key"]}
    return arrow(choose(edges, linked), _EDGE)


def _read_edges(rows: Numbers, members: Numbers) -> Numbers:
    """Link each sender to the operations that read its record."""
    readers = members["operation"][members["rank"] == READER]
    senders = choose(members, members["rank"] == SENDER)
    reads = choose(
        rows, any_of(rows["fact"], flags.READ_BY_ANY) & np.isin(rows["operation"], readers)
    )
    place = look_up(senders["key"], reads["key"])
    reads, place = choose(reads, place != NONE), place[place != NONE]
    edges = {
        "segment": reads["segment"],
        "source": senders["operation"][place],
        "target": reads["operation"],
        "sent": reads["key"],
        "met": reads["key"],
    }
    linked = (senders["segment"][place] == reads["segment"]) & (
        edges["source"] != reads["operation"]
    )
    return choose(edges, linked)


def _search(graph: pa.Table) -> pa.Table:
    """Find the cycles of whole segments, two rows for each step of each; a kernel by ``segment``.

    Args:
        graph: rows of ``MEMBER``; of the history, with the ``segment`` of their operations; and of
            ``_EDGE``, the edges by the log.
    """

    def part(column: str, *names: str) -> Numbers:
        return numbers(graph.filter(graph[column].is_valid()), names)

    log, members = part("source", *_EDGE.names), part("rank", *MEMBER.names)
    names = ("segment", "operation", "key", "client", "fact", "invoke_ns", "complete_ns")
    rows = part("client", *names)
    read = _read_edges(rows, members)
    edges = {name: np.concatenate([log[name], read[name]]) for name in _EDGE.names}
    edges["wr"] = np.arange(len(edges["sent"])) >= len(log["sent"])
    edges = sort(edges, "source", "target", "wr", "met")
    ids, ends = np.unique(np.concatenate([edges["source"], edges["target"]]), return_inverse=True)
    if not len(ids):
        return _WITNESS.empty_table()
    source, target = np.split(ends, 2)
    operations, segment = _operations(rows, ids)
    all_cycles = cycles(operations, Dependencies(source=source, target=target, wr=edges["wr"]))
    witnesses_of = _Witnesses(edges, source, target)
    steps = [
        {
            "segment": int(segment[leg.source]),
            "cycle": number,
            "kind": kind,
            "place": 2 * place + end,
            "operation": int(ids[operation]),
            "why": leg.why,
            **(witnesses_of.at(leg.edge, end) if leg.edge >= 0 else witnesses_of.of(operation)),
        }
        for number, (kind, legs) in enumerate(all_cycles)
        for place, leg in enumerate(legs)
        for end, operation in enumerate((leg.source, leg.target))
    ]
    return pa.Table.from_pylist(steps, schema=_WITNESS)


def _operations(rows: Numbers, ids: Ints) -> tuple[Operations, Ints]:
    """Look up the processes and times of operations, and their segments."""
    rows, group = grouped(rows, "operation")
    answered = any_of(rows["fact"], flags.SENT_OK | flags.SEEN_OK)
    operation = {name: rows[name][group.first] for name in ("operation", "segment", "client")}
    operation |= {"begin": group.least(rows["invoke_ns"])}
    operation |= {"end": group.greatest(rows["complete_ns"], answered)}
    operation = choose(operation, look_up(operation["operation"], ids))
    history, process = (
        np.unique(operation[name], return_inverse=True)[1] for name in ("segment", "client")
    )
    # Lines of time do not lead through other segments: which of equally short cycles is shown would
    # depend on these.
    process = np.unique(history * len(process) + process, return_inverse=True)[1]
    end = np.where(operation["end"] == NONE, NEVER, operation["end"])
    operations = Operations(history=history, process=process, begin=operation["begin"], end=end)
    return operations, operation["segment"]


class _Witnesses:
    """The records by which edges show operations; edges are in order of their sources."""

    def __init__(self, edges: Numbers, source: Ints, target: Ints) -> None:
        self._edges = edges
        self._source = source
        self._by_target = np.argsort(target, kind="stable")
        self._target = target[self._by_target]

    def at(self, edge: int, end: int) -> dict[str, object]:
        """Return the record at an edge's source (``end`` 0) or target (1)."""
        key = self._edges["met" if end else "sent"][edge]
        return {"key": int(key), "sends": end == 0 or not self._edges["wr"][edge]}

    def of(self, operation: int) -> dict[str, object]:
        """Return some record of an operation."""
        place = int(np.searchsorted(self._source, operation))
        if place < len(self._source) and self._source[place] == operation:
            return self.at(place, 0)
        return self.at(int(self._by_target[np.searchsorted(self._target, operation)]), 1)


def _first_rows(rows: pa.Table) -> pa.Table:
    """Refer to the first row in which an operation sent, or read, each record; by ``operation``."""
    columns = numbers(rows)
    columns["sends"] = any_of(columns["fact"], flags.SENT)
    return arrow(first_of(columns, *_WITNESS_KEY), _REFERENCE)


def _tell(view: ClientHistory, rows: Rows, witnesses: pa.Table) -> Rows:
    """Make anomalies of cycles, with the recorded row of each step."""
    records = ["operation", "key"]
    witness_keys = view.engine.table(witnesses.select(records))
    first = rows.join(witness_keys, records, "semi").by(["operation"], _first_rows, _REFERENCE)
    words = view.words.join(first, REFERENCE).table().to_pylist()
    row_of = {itemgetter(*_WITNESS_KEY)(row): row for row in words}
    steps = sorted(witnesses.to_pylist(), key=itemgetter("segment", "cycle", "place"))
    anomalies = []
    for _, cycle in groupby(steps, itemgetter("segment", "cycle")):
        steps_and_rows = [(step, row_of[itemgetter(*_WITNESS_KEY)(step)]) for step in cycle]
        anomalies.append(
            {
                "kind": steps_and_rows[0][0]["kind"],
                "steps": [_step(row, step["why"]) for step, row in steps_and_rows],
                **{name: min(row[name] for _, row in steps_and_rows) for name in ("run", "topic")},
            }
        )
    return view.engine.table(pa.Table.from_pylist(anomalies, SCHEMA))


def _step(row: dict[str, Any], why: str) -> dict[str, Any]:
    step = {name: row[name] for name in _STEP}
    if why in (PROCESS, REALTIME):
        step |= {"kind": why, "partition": None, "offset": None, "value": None}
    return step

"""Cycles of operations: G0, G1c, and their -process and -realtime forms.

Operation A comes before operation B in these cases:

- ww: a record that A sent is in the log just before a record that B sent;
- wr: B read a record that A sent;
- process: A ended before B began, and both are in the same process;
- realtime: A ended before B began.

Adya's isolation levels and strict serializability require that no operation comes before itself
("Weak Consistency", 1999, 4.2; Elle, VLDB 2020). The edges are those of Jepsen's
``jepsen.tests.kafka`` (``ww-graph``, ``wr-graph``), with two exceptions. A record that shares its
offset with another record, or has two offsets, is in no ww edge, because its offset is wrong. A
read under ``read_uncommitted`` is in no wr edge, because Kafka guarantees nothing about such a
read.

Kafka does not isolate writes: concurrent transactions may have one order in one partition and the
opposite order in another partition. So G0, and G1c with ww edges, break no guarantee.

One process searches all operations of a history, so long histories are not searched
(``unsearched``).
"""

from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from highwater.checkers.core.anomaly import SCHEMA
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
from highwater.checkers.history.record_summaries import bits, records
from highwater.checkers.history.rows import REFERENCE
from highwater.checkers.history.view import ClientHistory
from highwater.checkers.spark.engine import Rows

ROWS_MAX: Final = 2_000_000
"""The greatest number of rows of a history that is searched for cycles."""

_SENDER: Final = schema("slot", "offset", "operation", "key", "sure", sure=pa.bool_())
"""A record in the log, and the operation that sent this record. ``offset`` is the first offset that
a client reported for the record. ``sure`` is true if no client reported a different offset."""

_EDGE: Final = schema("history", "source", "target", "sent", "met")
_WITNESS: Final = schema(
    *("history", "cycle", "place", "kind", "why", "operation", "key", "sends"),
    kind=pa.string(),
    why=pa.string(),
    sends=pa.bool_(),
)
_WITNESS_KEY: Final = ("operation", "key", "sends")
_REFERENCE: Final = schema(*_WITNESS_KEY, *REFERENCE, sends=pa.bool_())
_STEP: Final = SCHEMA.field("steps").type.value_type.names


def unsearched(view: ClientHistory, run: str, *, ww: bool = True) -> str:
    """Return why a run is not searched, as the end of a sentence; empty if it is searched.

    ``find`` describes ``ww``.
    """
    rows = view.judged.get(run, 0)
    if rows <= ROWS_MAX or not (ww or run in view.entangled):
        return ""
    return (
        f"the history has {rows:,} rows, and only histories of at most {ROWS_MAX:,} rows are "
        "searched for cycles"
    )


def find(view: ClientHistory, *, ww: bool = True) -> Rows | None:
    """Find anomalies ``G0``, ``G1c``, ``G0-process`` and so on: a short cycle of each component.

    Each step of the cycle has two rows in ``steps``: a row of its first operation, and a row of its
    second operation. Two sends show a ww edge; a send and a read show a wr edge. If only time
    orders the operations, both rows have the kind ``process`` or ``realtime``, and no record.

    Args:
        view: the clients' view of any number of histories. ``unsearched`` histories are ignored.
        ww: whether the search uses ww edges (Jepsen's ``ww-deps``). Without ww edges it finds no
            G0, and every G1c breaks isolation.

    Returns:
        Rows of ``checkers.core.anomaly.SCHEMA``; None if there are no cycles.
    """
    histories = _histories(view, ww=ww)
    if not len(histories):
        return None
    rows = view.rows.where(flags.SENT | flags.SEEN).join(histories, ["slot"])
    senders = _senders(view).join(histories, ["slot"]).persist()
    none = view.engine.table(_EDGE.empty_table())
    log = senders.by(["slot"], _log_edges, _EDGE) if ww else none
    witnesses = senders.union(rows, log).by(["history"], _search, _WITNESS).table()
    return _tell(view, rows, witnesses) if len(witnesses) else None


def _histories(view: ClientHistory, *, ww: bool) -> Rows:
    short = {run for run, rows in view.judged.items() if rows <= ROWS_MAX}
    runs = sorted(short if ww else short & view.entangled)
    names = view.names.filter(pc.is_in(view.names["run"], pa.array(runs, pa.string())))
    return view.engine.table(names.select(["slot", "history"]))


def _senders(view: ClientHistory) -> Rows:
    landed = view.records.where(flags.SENT_OK | flags.READ_BY_ANY, "facts").map(_sent, _SENDER)
    return landed.union(view.doubtful.where(bits("maybe"), "doubts").by(["key"], _proven, _SENDER))


def _sent(records: pa.Table) -> pa.Table:
    sent = numbers(records)
    sent = choose(sent, any_of(sent["facts"], flags.SENT) & (sent["first"] != NONE))
    named = {"offset": sent["first"], "operation": sent["writer"]}
    return arrow(sent | named | {"sure": sent["first"] == sent["last"]}, _SENDER)


def _proven(rows: pa.Table) -> pa.Table:
    """Return the ``DOUBTFUL`` records whose send other operations prove, as ``_SENDER`` rows.

    All rows of one ``key`` must be in one table.
    """
    sends, columns = records(rows), numbers(rows, ("operation", "fact"))
    proven = np.isin(sends["writer"], columns["operation"][any_of(columns["fact"], flags.PROVEN)])
    return _sent(sends.filter(pa.array(proven)))


def _log_edges(senders: pa.Table) -> pa.Table:
    """Return a ww edge from each record's sender to the sender of the next record in the log.

    All rows of one ``slot`` must be in one table.
    """
    ordered, place = grouped(numbers(senders), "slot", "offset")
    alone = place.first[place.size == 1]
    ordered = choose(ordered, alone[ordered["sure"][alone]])
    before = {name: column[:-1] for name, column in ordered.items()}
    after = {name: column[1:] for name, column in ordered.items()}
    linked = before["slot"] == after["slot"]
    linked &= before["operation"] != after["operation"]
    edges = {
        "history": before["history"],
        "source": before["operation"],
        "target": after["operation"],
    }
    edges |= {"sent": before["key"], "met": after["key"]}
    return arrow(choose(edges, linked), _EDGE)


def _read_edges(rows: Numbers, senders: Numbers) -> Numbers:
    """Return a wr edge from each sender to the operations that read its record."""
    reads = choose(rows, any_of(rows["fact"], flags.READ_BY_ANY))
    reads = choose(reads, np.isin(reads["operation"], reads["operation"][reads["offset"] != NONE]))
    place = look_up(senders["key"], reads["key"])
    reads, place = choose(reads, place != NONE), place[place != NONE]
    edges = {
        "history": reads["history"],
        "source": senders["operation"][place],
        "target": reads["operation"],
        "sent": reads["key"],
        "met": reads["key"],
    }
    return choose(edges, edges["source"] != reads["operation"])


def _search(graph: pa.Table) -> pa.Table:
    """Find the cycles of each history, as ``_WITNESS`` rows.

    All rows of one ``history`` must be in one table.

    Args:
        graph: the rows of ``_SENDER``, ``ROW`` and ``_EDGE``, each with its ``history``.

    Returns:
        Two rows for each step of each cycle.
    """

    def part(column: str, *names: str) -> Numbers:
        return numbers(graph.filter(graph[column].is_valid()), names)

    log, senders = part("source", *_EDGE.names), part("sure", "operation", "key")
    names = ("history", "operation", "key", "client", "offset", "fact", "invoke_ns", "complete_ns")
    rows = part("client", *names)
    read = _read_edges(rows, senders)
    edges = {name: np.concatenate([log[name], read[name]]) for name in _EDGE.names}
    edges["wr"] = np.arange(len(edges["sent"])) >= len(log["sent"])
    edges = sort(edges, "source", "target", "wr", "met")
    ids, ends = np.unique(np.concatenate([edges["source"], edges["target"]]), return_inverse=True)
    if not len(ids):
        return _WITNESS.empty_table()
    source, target = np.split(ends, 2)
    operations, history = _operations(rows, ids)
    all_cycles = cycles(operations, Dependencies(source=source, target=target, wr=edges["wr"]))
    witnesses_of = _Witnesses(edges, source, target)
    steps = [
        {
            "history": int(history[leg.source]),
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
    rows, group = grouped(rows, "operation")
    answered = any_of(rows["fact"], flags.SENT_OK | flags.SEEN_OK)
    operation = {name: rows[name][group.first] for name in ("operation", "history", "client")}
    operation |= {"begin": group.least(rows["invoke_ns"])}
    operation |= {"end": group.greatest(rows["complete_ns"], answered)}
    operation = choose(operation, look_up(operation["operation"], ids))
    history, process = (
        np.unique(operation[name], return_inverse=True)[1] for name in ("history", "client")
    )
    end = np.where(operation["end"] == NONE, NEVER, operation["end"])
    operations = Operations(history=history, process=process, begin=operation["begin"], end=end)
    return operations, operation["history"]


class _Witnesses:
    """The two records that show each edge: its operations sent or read them."""

    def __init__(self, edges: Numbers, source: Ints, target: Ints) -> None:
        self._edges = edges
        self._source = source
        self._by_target = np.argsort(target, kind="stable")
        self._target = target[self._by_target]

    def at(self, edge: int, end: int) -> dict[str, object]:
        key = self._edges["met" if end else "sent"][edge]
        return {"key": int(key), "sends": end == 0 or not self._edges["wr"][edge]}

    def of(self, operation: int) -> dict[str, object]:
        """Return the record (``key, sends``) of this operation in any edge."""
        place = int(np.searchsorted(self._source, operation))
        if place < len(self._source) and self._source[place] == operation:
            return self.at(place, 0)
        return self.at(int(self._by_target[np.searchsorted(self._target, operation)]), 1)


def _first_rows(rows: pa.Table) -> pa.Table:
    columns = numbers(rows)
    columns["sends"] = any_of(columns["fact"], flags.SENT)
    return arrow(first_of(columns, *_WITNESS_KEY), _REFERENCE)


def _tell(view: ClientHistory, rows: Rows, witnesses: pa.Table) -> Rows:
    keys = ["operation", "key"]
    witness_keys = view.engine.table(witnesses.select(keys))
    first = rows.join(witness_keys, keys, "semi").by(["operation"], _first_rows, _REFERENCE)
    words = view.words.join(first, REFERENCE).table().to_pylist()
    row_of = {itemgetter(*_WITNESS_KEY)(row): row for row in words}
    steps = sorted(witnesses.to_pylist(), key=itemgetter("history", "cycle", "place"))
    anomalies = []
    for _, cycle in groupby(steps, itemgetter("history", "cycle")):
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

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

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.anomaly import SCHEMA
from checkers.clients.columns import (
    NONE,
    Numbers,
    any_of,
    greatest,
    groups,
    least,
    nullable,
    numbers,
)
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
from checkers.clients.facts import PEEK_OK, READ_BY_ANY, READ_OK, SEEN, SENT, SENT_OK
from checkers.clients.findings import STEP_NAMES
from checkers.clients.kernels import choose, first_of, sort
from checkers.clients.rows import REFERENCE
from checkers.clients.times import READER, SENDER, suspects
from checkers.clients.view import View
from checkers.engine import Rows

_EDGE: Final = pa.schema(
    [
        *((name, pa.int64()) for name in ("segment", "source", "target", "sent", "met")),
        ("wr", pa.bool_()),
    ]
)
"""The operation ``target`` comes after ``source``: it ``met`` a record that ``source`` ``sent``,
or, if not ``wr``, the next one in the log."""

_DEED: Final = pa.schema(
    [(name, pa.int64()) for name in ("segment", "deed", "client", "begun", "ended")]
)
"""Whose an operation is, and when."""

_WITNESS: Final = pa.schema(
    [
        ("segment", pa.int64()),
        ("cycle", pa.int64()),
        ("name", pa.string()),
        ("place", pa.int64()),
        ("deed", pa.int64()),
        ("key", pa.int64()),
        ("sends", pa.bool_()),
        ("why", pa.string()),
    ]
)
_SHOWN: Final = pa.schema(
    [
        *((name, pa.int64()) for name in ("deed", "key")),
        ("sends", pa.bool_()),
        *((name, pa.int64()) for name in REFERENCE),
    ]
)
"""The row that shows what an operation did with a record."""


def find(view: View, *, ww: bool = True) -> Rows | None:
    """Anomalies ``G0``, ``G1c``, ``G0-process`` and so on: a short cycle of each component.

    ``steps`` are two for each step of the cycle: what the one operation did, and what the next did
    for which it comes after. Two sends are a ww edge, a send and a read a wr edge; of an order in
    time both steps have the kind ``process`` or ``realtime`` and no record.

    Args:
        view: of any number of histories.
        ww: whether the log's order of records makes an order of operations (Jepsen's ``ww-deps``).
            Without it G0 cannot be found, and every G1c is one that no isolation level allows.

    Returns:
        Rows of ``checkers.anomaly.SCHEMA``; None: there are no cycles.
    """
    members = suspects(view, ww=ww)
    if members is None:
        return None
    edges = _read_edges(view, members)
    if ww:
        edges = edges.union(members.only("rank", SENDER).by(["slot"], log_edges, _EDGE))
    own = members.select(["segment", "deed"])
    rows = view.rows.where(SENT | SEEN).join(own.by(["deed"], distinct, own.schema), ["deed"])
    both = edges.union(rows.by(["deed"], deeds, _DEED))
    found = both.by(["segment"], witnesses, _WITNESS).kept()
    return view.engine.table(_told(view, found.table())) if len(found) else None


def _read_edges(view: View, members: Rows) -> Rows:
    """Each sender to those that read of it."""
    own = members.only("rank", READER).select(["segment", "deed"])
    targets = own.by(["deed"], distinct, own.schema)
    reads = view.rows.where(READ_BY_ANY).select(["key", "deed"]).join(targets, ["deed"])
    sends = members.only("rank", SENDER).select(["segment", "key", "deed"])
    met = reads.renamed({"deed": "target"}).join(
        sends.renamed({"deed": "source"}), ["segment", "key"]
    )
    return met.map(read_edges, _EDGE)


def distinct(rows: pa.Table) -> pa.Table:
    """Rows, once each. A kernel by some of their columns."""
    return rows.group_by(rows.column_names).aggregate([])


def read_edges(rows: pa.Table) -> pa.Table:
    """``segment, source, target, key`` as edges. A kernel."""
    found = numbers(rows, ("segment", "source", "target", "key"))
    found = choose(found, found["source"] != found["target"])
    columns = [found[name] for name in ("segment", "source", "target", "key", "key")]
    return pa.table([*columns, np.ones(len(columns[0]), np.bool_)], names=_EDGE.names)


def log_edges(members: pa.Table) -> pa.Table:
    """Each sender to that of the next record in the log, where it is sure which that is.

    The next of the members: were one between them that is none, and in a cycle with both, then it
    would be a member. A kernel by ``slot`` from ``checkers.clients.times.MEMBER``.
    """
    found = numbers(members, ("segment", "slot", "offset", "deed", "key", "sure"))
    found = choose(found, np.lexsort((found["key"], found["offset"], found["slot"])))
    first = groups(found["slot"], found["offset"])
    size = np.diff(np.append(first, len(found["key"])))
    alone = np.repeat(found["key"][first] == found["key"][first + size - 1], size)
    found = choose(found, found["sure"] & alone)
    before, after = (
        {name: column[part] for name, column in found.items()}
        for part in (slice(-1), slice(1, None))
    )
    near = (before["slot"] == after["slot"]) & (before["segment"] == after["segment"])
    near &= before["deed"] != after["deed"]
    columns = [after["segment"], before["deed"], after["deed"], before["key"], after["key"]]
    told = [column[near] for column in columns]
    return pa.table([*told, np.zeros(len(told[0]), np.bool_)], names=_EDGE.names)


def deeds(rows: pa.Table) -> pa.Table:
    """Whose each operation is, and when, in ``_DEED``. A kernel by ``deed``.

    Args:
        rows: in ``checkers.clients.rows.ROW``, with their ``segment``.
    """
    found = sort(numbers(rows), "segment", "deed")
    first = groups(found["segment"], found["deed"])
    every = np.ones(len(found["deed"]), np.bool_)
    good = any_of(found["fact"], SENT_OK | READ_OK | PEEK_OK)
    columns = [found["segment"][first], found["deed"][first], least(first, found["client"], every)]
    columns.append(least(first, found["invoke_ns"], found["invoke_ns"] != NONE))
    columns.append(greatest(first, found["complete_ns"], good))
    return pa.table([nullable(column) for column in columns], names=_DEED.names)


def witnesses(rows: pa.Table) -> pa.Table:
    """The cycles among edges, in ``_WITNESS``: two rows for each step of each.

    A kernel by ``segment``. One large graph of many small ones is faster to search than each.

    Args:
        rows: of ``_EDGE``, and of ``_DEED``, whose ``source`` is null.
    """
    of_deeds = rows["source"].is_null()
    known = numbers(rows.filter(of_deeds), _DEED.names)
    known = choose(known, np.argsort(known["deed"]))
    edges = rows.filter(pc.invert(of_deeds)).select(_EDGE.names)
    return _cycles(edges, known) if len(edges) else _WITNESS.empty_table()


def _cycles(edges: pa.Table, known: Numbers) -> pa.Table:
    edges = edges.sort_by([(name, "ascending") for name in ("source", "target", "wr", "met")])
    ends = _ints(edges, "source"), _ints(edges, "target")
    names, first, places = np.unique(np.concatenate(ends), return_index=True, return_inverse=True)
    source, target = places[: len(edges)], places[len(edges) :]

    segment = np.concatenate([_ints(edges, "segment")] * 2)[first]
    own = np.searchsorted(known["deed"], names)
    operations = Operations(
        history=np.unique(segment, return_inverse=True)[1],
        process=np.unique(known["client"][own], return_inverse=True)[1],
        begin=known["begun"][own],
        end=np.where(known["ended"][own] == NONE, NEVER, known["ended"][own]),
    )
    wr = edges["wr"].to_numpy()
    found = cycles(operations, Dependencies(source=source, target=target, wr=wr))
    shown = _Shown(edges, source, target, wr)
    rows = [
        {
            "segment": int(segment[leg.source]),
            "cycle": number,
            "name": kind,
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


def _told(view: View, found: pa.Table) -> pa.Table:
    """The cycles as anomalies, with what was recorded of each step."""
    asked = found.select(["deed", "key"]).group_by(["deed", "key"]).aggregate([])
    rows = view.rows.where(SENT | SEEN).join(view.engine.table(asked), ["deed", "key"], "semi")
    first = rows.by(["deed", "key"], first_rows, _SHOWN).kept()
    shown = first.join(view.words, REFERENCE).table()
    known = {(row["deed"], row["key"], row["sends"]): row for row in shown.to_pylist()}
    told: dict[tuple[int, int, str], list[dict[str, Any]]] = {}
    for row in found.sort_by("place").to_pylist():
        step = known[row["deed"], row["key"], row["sends"]]
        if row["why"] in (PROCESS, REALTIME):
            none = dict.fromkeys(("partition", "offset", "value"))
            step = step | none | {"kind": row["why"]}
        told.setdefault((row["segment"], row["cycle"], row["name"]), []).append(step)
    anomalies = [
        {
            "run": min(step["run"] for step in steps),
            "kind": name,
            "topic": min(step["topic"] for step in steps),
            "steps": [{each: step[each] for each in STEP_NAMES} for step in steps],
        }
        for (_, _, name), steps in told.items()
    ]
    return pa.Table.from_pylist(anomalies, SCHEMA)


def first_rows(rows: pa.Table) -> pa.Table:
    """The first row of what each operation did with each record, in ``_SHOWN``.

    A kernel by ``deed`` and ``key`` from ``checkers.clients.rows.ROW``.
    """
    found = numbers(rows, ("deed", "key", "fact", *REFERENCE))
    found["sends"] = any_of(found["fact"], SENT)
    found = first_of(found, "deed", "key", "sends")
    return pa.table([found[name] for name in _SHOWN.names], names=_SHOWN.names)


def _ints(table: pa.Table, name: str) -> Ints:
    numbers: Ints = table[name].to_numpy()
    return numbers

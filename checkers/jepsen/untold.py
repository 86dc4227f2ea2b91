"""Missing results: operations that completed as ``:ok``, but without a result in the history.

``[[:poll]]`` in a completion does not mean an empty poll: the history does not show which records
the poll read. Final polls of Maelstrom's histories look like this. An anomaly is not reported if a
missing result may explain it:

- lost-write, unseen and vanished mean that no reader, or no later reader, read a record. A poll
  without a result may have read it if three conditions hold. The poll ended after the record was
  sent (for vanished: after the last read of the record). Its client may have been assigned to the
  key. The client had not read beyond the record, or its position changed afterwards.
- poll-skip and int-poll-skip mean that a client skipped a record between two operations. In one of
  these operations, or between them, the client may have a poll without a result.
- phantom means that no producer sent a record. The records of an earlier send may be missing.

The other kinds of anomaly need only recorded results. The verdict on a history with a missing
result is never ``valid``.
"""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from highwater.checkers.core.anomaly import SCHEMA
from highwater.checkers.history.columns import NEVER
from highwater.checkers.jepsen import edn_operations as o
from highwater.checkers.jepsen import edn_scanner as s
from highwater.checkers.jepsen.edn_tokens import NONE
from highwater.checkers.jepsen.to_table import OperationBatch
from highwater.checkers.spark.engine import Rows
from highwater.harness.base.wording import count
from highwater.harness.runs.history import ASSIGN, FAIL, OK, READ, REBALANCE, SEEK, SUBSCRIBE

_UNMET: Final = {"lost-write": 0, "unseen": 0, "vanished": 1}
"""The kinds of anomaly that mean that no reader, or no later reader, read a record. The number is
the index of the step after which a read is missing."""

_PASSED: Final = ("poll-skip", "int-poll-skip")
_UNSENT: Final = "phantom"

Key = tuple[str, int]
Row = dict[str, Any]


@dataclass(slots=True)
class Untold:
    """The operations that completed as ``:ok``, but with a missing or incomplete result.

    Attributes:
        polls: process, end in ns, and first byte of each operation that lacks polled records.
        sends: the begin, in ns, of each operation that lacks sent records, whatever its outcome.
        offsets: the number of operations that sent or polled a record without an offset.
        moves: the number of assignments and subscriptions that lack their keys.
    """

    polls: list[tuple[int, int, int]] = field(default_factory=list)
    sends: list[int] = field(default_factory=list)
    offsets: int = 0
    moves: int = 0

    def note(self, batch: OperationBatch) -> None:
        """Add the next completed operations of the history."""
        ops = batch.ops
        ok = ops[:, o.TYPE] == o.OK
        moved = np.isin(ops[:, o.F], (o.ASSIGN, o.SUBSCRIBE))
        self.moves += int((ok & moved & (ops[:, o.NILS] > 0)).sum())
        polls = ops[ok & (ops[:, o.UNTOLD] > 0)][:, (o.PROCESS, o.TIME, o.START)]
        self.polls += map(tuple, polls.tolist())
        unsent = ops[:, o.UNSENT] > 0
        self.sends += batch.begun[unsent].tolist()
        records = np.isin(batch.rows[:, s.KIND], (o.SEND, o.READ))
        nowhere = batch.rows[records & (batch.rows[:, s.OFFSET] == NONE), s.OP]
        self.offsets += int(ok[np.unique(nowhere)].sum())

    def doubts(self, hidden: Counter[str]) -> list[str]:
        """Return a sentence for each sort of missing result.

        Args:
            hidden: the number of anomalies of each kind that ``judged`` did not return.
        """
        sentences = []
        if self.polls:
            names = ", ".join(f"{number} {kind}" for kind, number in sorted(hidden.items()))
            sentences.append(
                f"{_operations(len(self.polls))} polled, but the history does not "
                "list the polled records. Records that no other poll read may be in "
                f"the log or lost{f' ({names} not counted)' if names else ''}."
            )
        if self.sends:
            sentences.append(
                f"{count(len(self.sends), 'operation')} sent records, but the history does not "
                "list them. It does not show whether the log has these records, and whether a "
                "producer sent every record that was read."
            )
        if self.offsets:
            sentences.append(
                f"{_operations(self.offsets)} did not return the offset of each record. The "
                "history does not show whether these records are in order, and whether each has "
                "only one offset."
            )
        if self.moves:
            sentences.append(
                f"{_operations(self.moves)} assigned or subscribed, but the history lacks the "
                "keys. It does not show which records these clients skipped."
            )
        return sentences


def _operations(number: int) -> str:
    return f"{count(number, 'operation')} that succeeded"


def judged(anomalies: Rows, untold: Untold, path: Path) -> tuple[Rows, Counter[str]]:
    """Return the anomalies that missing results cannot explain, and count the others by kind.

    Args:
        anomalies: the anomalies in ``checkers.core.anomaly.SCHEMA``.
        untold: the missing results of the same history.
        path: the history's file of ``OPERATIONS``.
    """
    if not (untold.polls or untold.sends):
        return anomalies, Counter()
    hides = Hiding(untold, path)
    hidden = anomalies.map(partial(chosen, hides=hides, hidden=True), SCHEMA).counts(["kind"])
    standing = anomalies.map(partial(chosen, hides=hides, hidden=False), SCHEMA)
    return standing, Counter({row["kind"]: row["count"] for row in hidden.to_pylist()})


def chosen(table: pa.Table, *, hides: Callable[[Row], bool], hidden: bool) -> pa.Table:
    """Return the anomalies that a missing result may explain (``hidden``), or the others."""
    few = table.select(["kind", "topic", "partition", "offset", "steps"])
    mask = np.zeros(len(table), bool)
    for kind in (*_UNMET, *_PASSED, _UNSENT):
        for place in np.flatnonzero(pc.equal(table["kind"], kind)):
            mask[place] = hides(few.slice(place, 1).to_pylist()[0])
    return table.filter(pa.array(mask == hidden))


class Hiding:
    """Decides whether a missing result may explain an anomaly."""

    def __init__(self, untold: Untold, path: Path) -> None:
        self._sends = min(untold.sends, default=None)
        self._polls: dict[str, list[int]] = defaultdict(list)
        ends: dict[tuple[str, int], int] = {}
        for process, end, start in untold.polls:
            self._polls[str(process)].append(start)
            ends[str(process), start] = end
        self._readers = _readers(ends, path) if ends else []
        self._by_key: dict[Key, tuple[list[int], list[int]]] = {}

    def __call__(self, anomaly: Row) -> bool:
        """Return whether a missing result may explain the anomaly."""
        kind, steps = anomaly["kind"], anomaly["steps"]
        if kind in _UNMET:
            key, since = (anomaly["topic"], anomaly["partition"]), steps[_UNMET[kind]]["invoke_ns"]
            ends, least = self._met_by(key)
            later = bisect_right(ends, since)
            offset = anomaly["offset"]
            return later < len(ends) and (offset is None or least[later] <= offset)
        if kind in _PASSED:
            polls = self._polls.get(steps[0]["process"], [])
            first, last = steps[0]["op"], steps[-1]["op"]
            return bisect_left(polls, first) < bisect_right(polls, last)
        return self._sends is not None and self._sends < steps[-1]["complete_ns"]

    def _met_by(self, key: Key) -> tuple[list[int], list[int]]:
        """Return the ends of a key's polls, and the least offset of each and later polls."""
        if key not in self._by_key:
            ends, least, lowest = [], [], NEVER
            for reader in reversed(self._readers):
                if reader.keys is None or key in reader.keys:
                    lowest = min(lowest, reader.positions.get(key, 0))
                    ends.append(reader.end)
                    least.append(lowest)
            self._by_key[key] = ends[::-1], least[::-1]
        return self._by_key[key]


@dataclass(frozen=True, slots=True)
class _Reader:
    """The state of a client at a poll whose result is missing.

    Attributes:
        end: the end of the poll, in ns.
        keys: all keys that the client was assigned to; None if unknown.
        positions: for each key, the first offset that the poll may have read.
    """

    end: int
    keys: frozenset[Key] | None
    positions: dict[Key, int]


def _readers(ends: dict[tuple[str, int], int], path: Path) -> list[_Reader]:
    """Return a ``_Reader`` for each poll. ``ends``: the polls' ends by process and first byte."""
    processes = sorted({process for process, _ in ends})
    steps: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in _moves_and_reads(processes, path):
        steps[row["process"], row["op"]].append(row)
    readers: list[_Reader] = []
    keys: frozenset[Key] | None = None
    positions: dict[Key, int] = {}
    process = ""
    for place in sorted(steps.keys() | ends.keys()):
        if process != place[0]:
            process, keys, positions = place[0], None, {}
        rows = steps[place]
        moves = [row for row in rows if row["kind"] != READ]
        if moves:
            positions = {}
        if any(row["kind"] in (ASSIGN, SUBSCRIBE) for row in moves):
            keys = _assigned(moves)
        if place in ends:
            readers.append(_Reader(ends[place], keys, positions))
        reads = [row for row in rows if row["kind"] == READ]
        if reads and not moves:
            positions = positions | {_key(row): row["last"] + 1 for row in reads}
    return sorted(readers, key=lambda reader: reader.end)


def _moves_and_reads(processes: list[str], path: Path) -> list[Row]:
    names = ["process", "op", "kind", "outcome", "topic", "partition"]
    rows = ds.dataset(path, format="parquet")
    kind, outcome = (ds.field(name).cast("string") for name in ("kind", "outcome"))
    of_clients = ds.field("process").cast("string").isin(processes)
    moved = kind.isin([ASSIGN, SUBSCRIBE, SEEK, REBALANCE]) & (outcome != FAIL)
    read = (kind == READ) & (outcome == OK) & ds.field("offset").is_valid()
    table = rows.to_table([*names, "offset"], filter=of_clients & (moved | read))
    words = {name: table[name].cast("string") for name in ("process", "kind", "outcome", "topic")}
    plain = pa.table({name: words.get(name, table[name]) for name in table.column_names})
    grouped = plain.group_by(names).aggregate([("offset", "max")])
    return list(grouped.rename_columns([*names, "last"]).to_pylist())


def _assigned(moves: list[Row]) -> frozenset[Key] | None:
    """Return the keys of an assignment; None for a subscription, and for unknown keys."""
    sure = all(row["outcome"] == OK and row["partition"] is not None for row in moves)
    if not sure or any(row["kind"] == SUBSCRIBE for row in moves):
        return None
    return frozenset(map(_key, moves))


def _key(row: Row) -> Key:
    return row["topic"], row["partition"]

"""Findings become anomalies by Spark's tasks, which look the rows of a history up themselves.

Spark's own join and grouping of 250,000 findings with two rows each took 12 CPU seconds; a task
that takes rows out of Arrow's columns by their places needs 1.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from checkers import leaves
from checkers.anomaly import SCHEMA
from checkers.clients.numbers import Ints
from checkers.clients.picks import ROW, Among, Held, distinct, one

Share: TypeAlias = tuple[int, int]
"""Which of several tasks it is, and how many there are."""

FINDINGS: Final = 50_000
"""So many are told at once: so much memory it takes, and the rows are gone through as often."""

FINDING: Final = pa.schema(
    [
        ("kind", pa.string()),
        ("ends", pa.list_(pa.struct([("at", pa.int64()), ("client", pa.int64())]))),
        ("offset", pa.int64()),
        ("value", pa.string()),
        ("named", pa.bool_()),
        ("delta", pa.int64()),
        (
            "copies",
            pa.list_(
                pa.struct([("offset", pa.int64()), ("value", pa.string()), ("note", pa.string())])
            ),
        ),
    ]
)
"""A finding: its kind, the rows that show it, and the record at fault. Where that is not ``named``
it is the record of the last row."""

_STEP: Final = SCHEMA.field("steps").type.value_type
_COPY: Final = SCHEMA.field("copies").type.value_type

SHOWN: Final = tuple(dict.fromkeys(("run", "topic", "partition", "acks", "at", *_STEP.names)))
"""What an anomaly tells of the rows that show it."""


class Telling:
    """A task of Spark's: some findings with the rows that show them, as anomalies.

    Args:
        findings: folders of files, in columns of ``FINDING``.
        rows: folders of Arrow files that ``checkers.clients.picks.Picking`` left.
        folder: where to leave the anomalies, in columns of ``checkers.anomaly.SCHEMA``.
    """

    def __init__(self, findings: Sequence[Path], rows: Sequence[Path], folder: Path) -> None:
        self._findings = tuple(findings)
        self._rows = tuple(rows)
        self._folder = folder

    def __call__(self, number: int, share: Share) -> None:
        """Tell what falls to one task, whose number its file bears."""
        held = Held(self._rows)
        with leaves.writer(self._folder, number, SCHEMA) as writer:
            for batch in portions(self._findings, share):
                shown = batch.filter(pc.greater(pc.list_value_length(batch["ends"]), 0))
                if len(shown):
                    writer.write_batch(_told(shown, held))


def portions(folders: Iterable[Path], share: Share = (0, 1)) -> Iterator[pa.RecordBatch]:
    """What falls to one task of the rows of folders, ``FINDINGS`` at a time."""
    task, tasks = share
    turns = itertools.count()
    for folder in folders:
        for path in leaves.leaves(folder):
            for batch in leaves.batches(path, FINDINGS):
                if next(turns) % tasks == task:
                    yield batch


def _told(found: pa.RecordBatch, held: Held) -> pa.RecordBatch:
    ends = pc.list_flatten(found["ends"])
    at, client = (pc.struct_field(ends, name).to_numpy() for name in ROW)
    rows, place = _looked_up(held, at, one({"at": at, "client": client}))
    starts = np.concatenate([[0], np.cumsum(pc.list_value_length(found["ends"]).to_numpy())])
    steps = _steps(rows).take(pa.array(place))
    last = pa.array(place[starts[1:] - 1])
    fault = {name: rows[name].take(last) for name in ("partition", "offset", "value")}
    named = found["named"]
    columns = {
        "run": rows["run"].take(last),
        "kind": found["kind"],
        "topic": rows["topic"].take(last),
        "partition": fault["partition"],
        "offset": pc.if_else(named, found["offset"], fault["offset"]),
        "value": pc.if_else(named, found["value"], fault["value"]),
        "acks": _greatest(rows["acks"], place, starts),
        "copies": _copies(found["copies"], fault["partition"]),
        "steps": pa.ListArray.from_arrays(pa.array(starts, pa.int32()), steps),
        "delta": found["delta"],
        "cause": pa.nulls(len(found), pa.string()),
    }
    return pa.record_batch([columns[name] for name in SCHEMA.names], schema=SCHEMA)


def _looked_up(held: Held, at: Ints, numbers: Ints) -> tuple[pa.RecordBatch, Ints]:
    """The rows of some numbers, which are ``at`` these places, and which of them each number's is.

    Steps are in the order of a history, and so are rows: most files have none of them.
    """
    asked = Among(distinct(numbers))
    parts = []
    for batch in held.between("at", at.min(), at.max()):
        among = asked(batch["one"].to_numpy())
        if among.any():
            parts.append(batch.filter(pa.array(among)))
    (rows,) = pa.Table.from_batches(parts).combine_chunks().to_batches()
    known = rows["one"].to_numpy()
    order = np.argsort(known)
    return rows, order[np.searchsorted(known[order], numbers)]


def _steps(rows: pa.RecordBatch) -> pa.StructArray:
    op = pc.coalesce(rows["op"], rows["at"])
    columns = [op if name == "op" else rows[name] for name in _STEP.names]
    return pa.StructArray.from_arrays(columns, fields=list(_STEP))


def _greatest(words: pa.Array, place: NDArray[Any], starts: NDArray[Any]) -> pa.Array:
    """The greatest of the words of each finding's rows; null where none has any."""
    known = pc.unique(words.drop_null()).sort()
    rank = pc.index_in(words, known).fill_null(-1).to_numpy()
    most = np.maximum.reduceat(rank[place], starts[:-1])
    return known.take(pa.array(most, mask=most < 0))


def _copies(told: pa.ListArray, partition: pa.Array) -> pa.ListArray:
    """Copies of records that clients met: they stand on no broker that we know of."""
    each = pc.list_flatten(told)
    given = {name: pc.struct_field(each, name) for name in ("offset", "value", "note")}
    given["partition"] = partition.take(pc.list_parent_indices(told))
    columns = [given.get(field.name, pa.nulls(len(each), field.type)) for field in _COPY]
    starts = np.concatenate([[0], np.cumsum(pc.list_value_length(told).fill_null(0).to_numpy())])
    return pa.ListArray.from_arrays(
        pa.array(starts, pa.int32()),
        pa.StructArray.from_arrays(columns, fields=list(_COPY)),
        mask=told.is_null(),
    )

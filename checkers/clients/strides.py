"""Rows in order, shortened to strides: a billion records in order are a few thousand rows.

A *stride* is a stretch of one client's rows in one slot in which nothing can be wrong: a reader's
offsets go up by one from row to row, a producer's go up from operation to operation and by one
within one. Whatever a client did out of order therefore lies between one stride and the next, and
no row inside one has to be looked at again. Rows are shortened as they are read from the file, by
numpy, without moving any of them to another place.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import types as T  # noqa: N812 - PySpark's own convention
from pyspark.sql.pandas.types import from_arrow_schema

from checkers.clients.facts import ASSIGNED, PEEK, SEEN_OK, SENT_OK

KNOWN: Final = 0
READS: Final = 1
SENDS: Final = 2
"""``what`` a row is: a stretch of a log that sends tell to be there, a stride of a reader or one of
a producer. A row of the history that moved a reader is passed on as it is, with its fact."""

INPUT: Final = ("client", "slot", "op", "at", "offset", "fact")
SCHEMA: Final = pa.schema(
    [
        ("what", pa.int32()),
        ("client", pa.int64()),
        ("slot", pa.int64()),
        ("ok", pa.bool_()),  # its operations ended well; those of a longer stride always did
        ("sure", pa.bool_()),  # what it read was committed
        ("op", pa.int64()),
        ("at", pa.int64()),
        ("place", pa.int64()),  # the first row's offset
        ("last_op", pa.int64()),
        ("last_at", pa.int64()),
        ("last_place", pa.int64()),
    ]
)
COLUMNS: Final[T.StructType] = from_arrow_schema(SCHEMA)

_ROWS: Final = 500_000  # that are shortened at once: the more, the fewer strides are cut in two
_Rows = dict[str, NDArray[Any]]


def shortened(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Strides of rows in columns of ``INPUT``, in the order of the file; for ``mapInArrow``."""
    gathered: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        gathered.append(batch)
        rows += batch.num_rows
        if rows >= _ROWS:
            yield from _shorten(pa.Table.from_batches(gathered))
            gathered, rows = [], 0
    if rows:
        yield from _shorten(pa.Table.from_batches(gathered))


def _shorten(table: pa.Table) -> Iterator[pa.RecordBatch]:
    fact = table["fact"].to_numpy()
    moves = fact >= ASSIGNED
    if moves.any():
        yield _moves(table.filter(pa.array(moves)))
    if moves.all():
        return
    told = table.filter(pa.array(~moves))
    rows: _Rows = {name: told[name].to_numpy() for name in INPUT}
    rows["pair"] = _codes(_codes(rows["client"]) * np.int64(1 << 32) + _codes(rows["slot"]))
    sent = rows["fact"] == SENT_OK
    if sent.any():
        sends = {name: column[sent] for name, column in rows.items()}
        yield _known(sends)
        yield _strides(sends, SENDS)
    if not sent.all():
        yield _strides({name: column[~sent] for name, column in rows.items()}, READS)


def _codes(numbers: NDArray[Any]) -> NDArray[Any]:
    """Small numbers for large ones, by which sorting is much faster."""
    codes = pc.dictionary_encode(pa.array(numbers)).indices.to_numpy()
    few = len(codes) == 0 or codes.max() < np.iinfo(np.int16).max
    small: NDArray[Any] = codes.astype(np.int16 if few else np.int32)
    return small


def _strides(rows: _Rows, what: int) -> pa.RecordBatch:
    """Strides of rows that are all sends, or all reads."""
    order = np.argsort(rows["pair"], kind="stable")
    if not _in_order(rows, order):
        order = np.lexsort((rows["at"], rows["op"], rows["pair"]))
    rows = {name: column[order] for name, column in rows.items()}
    pair, op, place = rows["pair"], rows["op"], rows["offset"]
    ok = (rows["fact"] & (SENT_OK | SEEN_OK)) != 0
    sure = (rows["fact"] & PEEK) == 0
    same = op[1:] == op[:-1]
    step = place[1:] == place[:-1] + 1
    if what == SENDS:
        step |= ~same & (place[1:] > place[:-1])
    goes_on = (pair[1:] == pair[:-1]) & step & (ok[1:] == ok[:-1]) & (sure[1:] == sure[:-1])
    goes_on &= ok[1:] | same
    first, last = _stretches(goes_on)
    return _batch(
        what=what,
        client=rows["client"][first],
        slot=rows["slot"][first],
        ok=ok[first],
        sure=sure[first],
        op=op[first],
        at=rows["at"][first],
        place=place[first],
        last_op=op[last],
        last_at=rows["at"][last],
        last_place=place[last],
    )


def _in_order(rows: _Rows, order: NDArray[Any]) -> bool:
    """Whether rows that were recorded later belong to later operations, as is usual."""
    pair, op = rows["pair"][order], rows["op"][order]
    return bool(((op[1:] >= op[:-1]) | (pair[1:] != pair[:-1])).all())


def _known(sends: _Rows) -> pa.RecordBatch:
    """Stretches of offsets that acknowledged sends, whoever's, say are taken."""
    order = np.lexsort((sends["offset"], _codes(sends["slot"])))
    slot, place = sends["slot"][order], sends["offset"][order]
    first, last = _stretches((slot[1:] == slot[:-1]) & (place[1:] <= place[:-1] + 1))
    return _batch(what=KNOWN, slot=slot[first], place=place[first], last_place=place[last])


def _stretches(goes_on: NDArray[np.bool_]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The first and last rows of stretches, from whether each row but the first goes on."""
    breaks = np.flatnonzero(~goes_on) + 1
    first = np.concatenate(([0], breaks))
    last = np.concatenate((breaks - 1, [len(goes_on)]))
    return first, last


def _moves(rows: pa.Table) -> pa.RecordBatch:
    names = {"what": "fact", "place": "offset"}
    columns = {name: rows[names.get(name, name)] for name in ("client", "slot", "op", "at", *names)}
    return _batch(**{name: column.combine_chunks() for name, column in columns.items()})


def _batch(**columns: Any) -> pa.RecordBatch:  # noqa: ANN401 - arrays of all types
    """Columns of ``SCHEMA``: arrays, one value for all rows, or nothing, which is null."""
    size = len(columns["slot"])
    arrays = []
    for field in SCHEMA:
        column = columns.get(field.name)
        if column is None or isinstance(column, int):
            arrays.append(pa.repeat(pa.scalar(column, field.type), size))
        else:
            arrays.append(pa.array(column, field.type))
    return pa.record_batch(arrays, schema=SCHEMA)

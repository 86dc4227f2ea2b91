"""Rows in order, shortened to strides: a billion records in order are a few thousand rows.

A *stride* is a stretch of one client's rows in one slot in which nothing can be wrong: a reader's
offsets go up by one from row to row, a producer's go up from operation to operation and by one
within one. Whatever a client did out of order therefore lies between one stride and the next, and
no row inside one has to be looked at again. Rows are shortened as they are read from the file,
without moving any of them to another place.
"""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import types as T  # noqa: N812 - PySpark's own convention
from pyspark.sql.pandas.types import from_arrow_schema

from checkers.clients.facts import ADRIFT, BLIND, ENDED, MOVES, PEEK, SEEN, SEEN_OK, SENT_OK
from checkers.clients.numbers import NONE, Numbers, Rows

KNOWN: Final = 0
READS: Final = 1
SENDS: Final = 2
"""``what`` a row is: a stretch of a log that sends tell to be there, a stride of a reader or one of
a producer. A row of the history that moved a reader, or tells where a log ended, is passed on as it
is, with its fact."""

SCHEMA: Final = pa.schema(
    [
        ("what", pa.int32()),
        ("client", pa.int64()),
        ("slot", pa.int64()),
        ("sent", pa.bool_()),  # whether it is a stride of a producer, null if it is none at all
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

_INPUT: Final = ("client", "slot", "pair", "place", "op", "at", "offset", "fact")


def strides(rows: Rows) -> Iterator[pa.RecordBatch]:
    """The strides of rows, in ``SCHEMA``."""
    fact = rows.fact
    moves = (fact & (MOVES | ENDED)) != 0
    if moves.any():
        yield _moves(rows.columns(_INPUT, moves))
    told = ((fact & (SENT_OK | SEEN)) != 0) & ((fact & (BLIND | ADRIFT)) == 0)
    told &= rows.offset != NONE
    sent = told & ((fact & SENT_OK) != 0)
    if sent.any():
        sends = rows.columns(_INPUT, sent)
        yield _known(sends)
        yield _strides(sends, SENDS)
    seen = told & ~sent
    if seen.any():
        yield _strides(rows.columns(_INPUT, seen), READS)


def _strides(rows: Numbers, what: int) -> pa.RecordBatch:
    """Strides of rows that are all sends, or all reads."""
    order = _sorted(rows["pair"], rows["op"], rows["at"])
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
        sent=what == SENDS,
        ok=ok[first],
        sure=sure[first],
        op=op[first],
        at=rows["at"][first],
        place=place[first],
        last_op=op[last],
        last_at=rows["at"][last],
        last_place=place[last],
    )


def _sorted(groups: NDArray[Any], *by: NDArray[Any]) -> NDArray[Any]:
    """The order of rows by small numbers and then by others, which mostly is that of the rows."""
    order = np.argsort(groups, kind="stable")
    group = groups[order]
    same, grows = group[1:] == group[:-1], np.zeros(max(len(group) - 1, 0), np.bool_)
    for column in reversed(by):
        told = column[order]
        grows = (told[1:] > told[:-1]) | ((told[1:] == told[:-1]) & grows)
    return order if bool((grows | ~same).all()) else np.lexsort((*reversed(by), groups))


def _known(sends: Numbers) -> pa.RecordBatch:
    """Stretches of offsets that acknowledged sends, whoever's, say are taken."""
    order = _sorted(sends["place"], sends["offset"])
    slot, place = sends["slot"][order], sends["offset"][order]
    first, last = _stretches((slot[1:] == slot[:-1]) & (place[1:] <= place[:-1] + 1))
    return _batch(what=KNOWN, slot=slot[first], place=place[first], last_place=place[last])


def _stretches(goes_on: NDArray[np.bool_]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The first and last rows of stretches, from whether each row but the first goes on."""
    breaks = np.flatnonzero(~goes_on) + 1
    first = np.concatenate(([0], breaks))
    last = np.concatenate((breaks - 1, [len(goes_on)]))
    return first, last


def _moves(rows: Numbers) -> pa.RecordBatch:
    offset = rows["offset"]
    return _batch(
        what=rows["fact"],
        place=pa.array(offset, mask=offset == NONE),
        **{name: rows[name] for name in ("client", "slot", "op", "at")},
    )


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

"""Convert the rows of numbers of the EDN scanner to a table of Highwater's operations."""

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from highwater.checkers.jepsen import edn_operations as o
from highwater.checkers.jepsen import edn_scanner as s
from highwater.checkers.jepsen.edn_tokens import NONE
from highwater.harness.runs.history import (
    ASSIGN,
    END,
    FAIL,
    INFO,
    OK,
    OPERATIONS,
    READ,
    REBALANCE,
    RUN,
    SEEK,
    SEND,
    SUBSCRIBE,
)

Numbers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Bytes: TypeAlias = np.ndarray[Any, np.dtype[np.uint8]]

TOPIC: Final = "jepsen"
"""The topic of all keys that are numbers: such a key is a partition of this topic. Every other
key is its own topic."""

_KINDS: Final = (SEND, READ, ASSIGN, SUBSCRIBE, SEEK, REBALANCE, END)
_OUTCOMES: Final = (INFO, OK, FAIL, INFO)  # in the order of operations.INVOKE, OK, FAIL, INFO
_KEY_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class OperationBatch:
    """A batch of operations, with their sent or polled records and their assignments.

    Attributes:
        ops: one row for each operation, in columns ``edn_operations.START …``.
        rows: one row for each micro-operation, in columns ``edn_scanner.OP …``.
        begun: the time of each operation's invocation; NONE if unknown.
    """

    ops: Numbers
    rows: Numbers
    begun: Numbers


class StrictClock:
    """A clock whose times strictly increase from one operation in the history to the next.

    Jepsen's real-time order is the order of operations in its history. Times in the history may be
    equal; a handwritten history may have no times. The clock changes each time as little as
    possible.
    """

    def __init__(self) -> None:
        self._last = -1

    def set(self, ops: Numbers) -> None:
        """Correct the times of the history's next operations, including invocations."""
        if len(ops):
            place = np.arange(len(ops))
            floor = np.maximum(np.maximum(ops[:, o.TIME], 0) - place, self._last + 1)
            ops[:, o.TIME] = np.maximum.accumulate(floor) + place
            self._last = int(ops[-1, o.TIME])


class Pairs:
    """Find the invocation of every completion, across batches."""

    def __init__(self) -> None:
        self.waiting: Numbers = np.empty((0, o.OP_COLUMNS), np.int64)
        """The invocations whose processes have no later operation yet."""

    def add(self, ops: Numbers) -> tuple[Numbers, Numbers]:
        """Add the next operations of the history.

        Returns:
            The invocation of each operation (NONE in all columns without one), and the invocations
                that will never be completed, because their process began another operation.
        """
        before = len(self.waiting)
        both = np.concatenate([self.waiting, ops])
        clients = np.flatnonzero(both[:, o.PROCESS] != NONE)
        order = clients[np.argsort(both[clients, o.PROCESS], kind="stable")]
        process, invokes = both[order, o.PROCESS], both[order, o.TYPE] == o.INVOKE
        follows = np.zeros(len(order), bool)
        follows[1:] = process[1:] == process[:-1]
        paired = follows & ~invokes
        paired[1:] &= invokes[:-1]
        begun = np.full(both.shape, NONE)
        begun[order[paired]] = both[order[np.flatnonzero(paired) - 1]]
        last = np.ones(len(order), bool)
        last[:-1] = ~follows[1:]
        answered = np.zeros(len(order), bool)
        answered[:-1] = paired[1:]
        self.waiting = both[order[last & invokes]]
        return begun[before:], both[order[invokes & ~answered & ~last]]


def with_records(text: Bytes, rows: Numbers, requests: Numbers, places: Numbers) -> Numbers:
    """Return ``rows`` with a row for every requested send, even if the send has no result.

    A result that has no offset and matches no request is ignored, because it is no record.

    Args:
        text: the whole file.
        rows: micro-operations in columns ``edn_scanner.OP …``.
        requests: rows of invocations, whose ``OP`` is an index in ``places``.
        places: the operations whose results lack requested records.
    """
    requests = requests.copy()
    requests[:, s.OP] = places[requests[:, s.OP]]
    of_sends = np.isin(rows[:, s.OP], places) & (rows[:, s.KIND] == o.SEND)
    told_sends = {_record(text, row): row for row in rows[of_sends]}
    # Keep the order of the request, which is the order in which the operation sent its records.
    sends = [told_sends.pop(_record(text, row), row) for row in requests]
    sends += [row for row in told_sends.values() if row[s.OFFSET] != NONE]
    rows = np.concatenate([*(row[None] for row in sends), rows[~of_sends]])
    return rows[np.argsort(rows[:, s.OP], kind="stable")]


def _record(text: Bytes, row: Numbers) -> tuple[int, bytes, bytes]:
    key, record = ((s.KEY_AT, s.KEY_END), (s.RECORD_AT, s.RECORD_END))
    spans = [text[row[start] : row[end]].tobytes() for start, end in (key, record)]
    return int(row[s.OP]), spans[0], spans[1]


def table(text: Bytes, batch: OperationBatch) -> pa.Table:
    """Return the micro-operations of a batch in columns of ``harness.runs.history.OPERATIONS``.

    Args:
        text: the whole file.
    """
    ops, rows = batch.ops[batch.rows[:, s.OP]], batch.rows
    begun = batch.begun[batch.rows[:, s.OP]]
    unanswered = ops[:, o.TYPE] == o.INVOKE
    columns = {
        "process": pa.array(ops[:, o.PROCESS]).cast(pa.string()).dictionary_encode(),
        "kind": _word(rows[:, s.KIND], _KINDS),
        "phase": _word(np.zeros(len(rows), np.int64), (RUN,)),
        "outcome": _word(ops[:, o.TYPE], _OUTCOMES),
        "invoke_ns": np.where(unanswered, ops[:, o.TIME], np.where(begun == NONE, 0, begun)),
        "complete_ns": pa.array(ops[:, o.TIME], mask=unanswered),
        **_places(text, rows),
        "offset": pa.array(rows[:, s.OFFSET], mask=rows[:, s.OFFSET] == NONE),
        "value": _strings(text, rows[:, s.RECORD_AT], rows[:, s.RECORD_END]),
        "op": ops[:, o.START],
    }
    arrays = [
        pa.array(columns[field.name]).cast(field.type)
        if field.name in columns
        else pa.nulls(len(rows), field.type)
        for field in OPERATIONS
    ]
    return pa.Table.from_arrays(arrays, schema=OPERATIONS)


def _word(codes: Numbers, words: tuple[str, ...]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(words))


def _places(text: Bytes, rows: Numbers) -> dict[str, pa.Array]:
    """Return each key as ``topic`` and ``partition``; a row without a key has no partition."""
    key, none = rows[:, s.KEY], rows[:, s.KEY_AT] == NONE
    is_partition = (key >= 0) & (key <= _KEY_MAX)
    named = ~is_partition & ~none
    topics = np.zeros(len(rows), np.int64)
    words = pa.array([TOPIC])
    if named.any():
        encoded = _strings(text, rows[named, s.KEY_AT], rows[named, s.KEY_END]).dictionary_encode()
        topics[named] = encoded.indices.to_numpy() + 1
        words = pa.concat_arrays([words, encoded.dictionary])
    return {
        "topic": pa.DictionaryArray.from_arrays(pa.array(topics, pa.int32()), words),
        "partition": pa.array(np.where(is_partition, key, 0).astype(np.int32), mask=none),
    }


def _strings(text: Bytes, starts: Numbers, ends: Numbers) -> pa.Array:
    """Return the text from each start to its end; null if the start is NONE.

    Raises:
        pa.ArrowInvalid: the text is not UTF-8.
    """
    lengths = np.where(starts == NONE, 0, ends - starts)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    places = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
    buffers = (pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(text[places]))
    array = pa.StringArray.from_buffers(len(starts), *buffers)
    array.validate(full=True)
    return array

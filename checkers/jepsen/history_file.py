"""Read a Jepsen history from its file: the complete history as a table, or one operation."""

import mmap
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numba
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from highwater.checkers.jepsen import edn_operations as o
from highwater.checkers.jepsen import edn_scanner as s
from highwater.checkers.jepsen import edn_tokens
from highwater.checkers.jepsen.edn_tokens import (
    COMPLAINTS,
    CUT,
    NO_EDN,
    NONE,
    MalformedError,
    blank,
    opens,
)
from highwater.checkers.jepsen.to_table import (
    Bytes,
    Numbers,
    OperationBatch,
    Pairs,
    StrictClock,
    table,
    with_records,
)
from highwater.checkers.jepsen.untold import Untold
from highwater.checkers.spark.numba_cache import cached_compilation
from highwater.harness.base.errors import UsageError
from highwater.harness.runs.history import OPERATIONS

_BATCH: Final = 200_000  # the number of operations in a batch, including invocations
_COMPILED_FROM: Final = (
    4 << 20
)  # bytes; plain Python reads a smaller file faster than Numba compiles
_HINT: Final = "Write the path of a history.edn of jepsen.tests.kafka."
_SHOWN_BYTES: Final = 60  # bytes of the malformed text that an error shows
_TYPES: Final = ("invoke", "ok", "fail", "info")
_FUNCTIONS: Final = {
    o.SEND: "send",
    o.READ: "poll",
    o.TXN: "txn",
    o.ASSIGN: "assign",
    o.SUBSCRIBE: "subscribe",
    o.END: "debug-topic-partitions",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """An operation of the history: its ``:index``, ``:process``, ``:type`` and ``:f``."""

    index: int | None
    process: int
    type: str
    f: str


@dataclass(slots=True, kw_only=True)
class Read:
    """The result of reading a history.

    Attributes:
        operations: the number of sends, polls and transactions that clients invoked.
        rows: the number of rows in ``OPERATIONS``.
        subscribed: whether any client was subscribed to topics.
        polled: whether any poll completed as ``:ok``, with or without records.
        untold: the operations whose result is missing or incomplete in the history.
        cut: a sentence about the end of the history, if it could not be read; else empty.
    """

    operations: int = 0
    rows: int = 0
    subscribed: bool = False
    polled: bool = False
    untold: Untold = field(default_factory=Untold)
    cut: str = ""


class History:
    """A history in a file, which is mapped into memory and may be larger than the memory.

    Args:
        path: ``history.edn``, or the folder of a run that contains this file.

    Raises:
        UsageError: the file is missing, is empty, or cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path / "history.edn" if path.is_dir() else path
        try:
            with self.path.open("rb") as file:
                self._text = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:
            raise UsageError(f"{self.path} is empty.", hint=_HINT) from None
        except OSError as error:
            raise UsageError(f"{self.path} cannot be read: {error.strerror}.", hint=_HINT) from None

    def to_parquet(self, target: Path) -> Read:
        """Write the clients' operations as ``OPERATIONS``. ``op`` is an operation's first byte.

        A completion begins at the time of its invocation. An invocation without a completion has an
        unknown outcome; its values are the records to send.

        Raises:
            UsageError: the file is not EDN, or not a history of ``jepsen.tests.kafka``.
        """
        read = Read()
        try:
            with pq.ParquetWriter(target, OPERATIONS, compression="lz4") as writer:
                for batch in self._operations(read):
                    functions = batch.ops[:, o.F]
                    read.operations += int(np.isin(functions, (o.SEND, o.READ, o.TXN)).sum())
                    read.subscribed |= bool((functions == o.SUBSCRIBE).any())
                    read.polled = read.polled or self._polled(batch)
                    rows = table(self._bytes, batch)
                    read.rows += len(rows)
                    writer.write_table(rows)
        except MalformedError as error:
            raise self._malformed(*error.args) from None
        except pa.ArrowInvalid:
            raise UsageError(f"{self.path} is not UTF-8.", hint=_HINT) from None
        if not read.operations:
            what = f"{self.path} has no :send, :poll or :txn of a client."
            raise UsageError(f"{what} {read.cut}".rstrip(), hint=_HINT)
        return read

    def operation(self, at: int) -> Operation:
        """Return the operation that begins at the byte ``at``."""
        row = np.empty(o.OP_COLUMNS, np.int64)
        o.operation(self._text, at, row)
        return Operation(
            index=None if row[o.INDEX] == NONE else int(row[o.INDEX]),
            process=int(row[o.PROCESS]),
            type=_TYPES[row[o.TYPE]],
            f=_FUNCTIONS[row[o.F]],
        )

    @cached_property
    def _bytes(self) -> Bytes:
        return np.frombuffer(self._text, np.uint8)

    def _operations(self, read: Read) -> Iterator[OperationBatch]:
        """Yield batches of clients' completions, and of invocations that have no completion."""
        clock, pairs = StrictClock(), Pairs()
        for ops, rows in self._scanned(read):
            clock.set(ops)
            invoked, lone = pairs.add(ops)
            yield self._filled(ops, rows, invoked, read.untold)
            yield self._unanswered(lone, read.untold)
        yield self._unanswered(pairs.waiting, read.untold)

    def _scanned(self, read: Read) -> Iterator[tuple[Numbers, Numbers]]:
        text, scan = self._scanner
        begin = blank(text, 0)
        in_vector = begin < len(text) and text[begin] != ord("{") and bool(opens(text[begin]))
        at = begin + 1 if in_vector else begin
        ops = np.empty((_BATCH, o.OP_COLUMNS), np.int64)
        rows = np.empty((_BATCH, s.COLUMNS), np.int64)
        count = -1
        while count:
            at, count, used, rows, state = scan(text, at, ops, rows, False)
            yield ops[:count].copy(), rows[:used].copy()
            if state == CUT:
                break
        read.cut = self._finish(at, in_vector=in_vector, cut=state == CUT)

    def _finish(self, at: int, *, in_vector: bool, cut: bool) -> str:
        """Return a sentence about the truncated end of the file; empty if the file is complete."""
        if cut:
            where = f"on line {self._line(at)} (byte {at})"
            return (
                f"The file ends within the operation {where}: only earlier operations were judged."
            )
        if in_vector and at >= len(self._text):
            return (
                "The file ends before the vector's closing bracket: all operations in it "
                "were judged."
            )
        at = blank(self._text, at + 1) if in_vector else at
        if at < len(self._text):
            raise self._malformed(at, NO_EDN)
        return ""

    def _polled(self, batch: OperationBatch) -> bool:
        """Return whether a poll, alone or in a transaction, completed as ``:ok`` in a batch."""
        ended = batch.ops[batch.ops[:, o.TYPE] == o.OK]
        if (ended[:, o.F] == o.READ).any():
            return True
        transactions = ended[ended[:, o.F] == o.TXN][:, (o.START, o.STOP)]
        return any(b":poll" in self._text[start:stop] for start, stop in transactions.tolist())

    def _filled(
        self, ops: Numbers, rows: Numbers, invoked: Numbers, untold: Untold
    ) -> OperationBatch:
        """Return the completed operations. Each operation has all records of its request.

        Args:
            ops: the operations of a batch, including invocations.
            rows: the rows of the completed operations.
            invoked: the invocation of each operation, as ``Pairs.add`` returns it.
            untold: gets the operations whose result is missing.
        """
        ended = (ops[:, o.TYPE] != o.INVOKE) & (ops[:, o.PROCESS] != NONE)
        short = np.flatnonzero(ended & (invoked[:, o.SENDS] > ops[:, o.SENDS]))
        short = np.union1d(short, self._of_another_form(ops, rows, invoked))
        if len(short):
            requests = self._unanswered(invoked[short]).rows
            rows = with_records(self._bytes, rows, requests, short)
        has_request = np.maximum(invoked[:, o.SENDS], 0) + np.maximum(invoked[:, o.POLLS], 0) > 0
        ops[has_request, o.UNSENT] = 0
        ops[:, o.UNTOLD] += ended & (invoked[:, o.POLLS] > ops[:, o.POLLS])
        guessed = ended & ~has_request & (ops[:, o.NILS] > 0)
        ops[:, o.UNSENT] += guessed & np.isin(ops[:, o.F], (o.SEND, o.TXN))
        ops[:, o.UNTOLD] += guessed & np.isin(ops[:, o.F], (o.READ, o.TXN))
        for place in np.flatnonzero(ended & (ops[:, o.F] == o.OTHER)):
            ops[place, o.UNSENT] += self._has(b":send", ops[place], invoked[place])
            ops[place, o.UNTOLD] += self._has(b":poll", ops[place], invoked[place])
        batch = _completed(OperationBatch(ops, rows, invoked[:, o.TIME]))
        untold.note(batch)
        return batch

    def _of_another_form(self, ops: Numbers, rows: Numbers, invoked: Numbers) -> Numbers:
        """Return the indices of ``:ok`` operations with a send that differs from the request."""
        sends = rows[(rows[:, s.KIND] == o.SEND) & (rows[:, s.OFFSET] == NONE)]
        of_ops = sends[:, s.OP]
        sends = sends[(ops[of_ops, o.TYPE] == o.OK) & (invoked[of_ops, o.SENDS] > 0)]
        places = set()
        for op, begin, end in sends[:, (s.OP, s.KEY_AT, s.RECORD_END)].tolist():
            moved = int(invoked[op, o.VALUE_AT] - ops[op, o.VALUE_AT])
            if self._text[begin:end] != self._text[begin + moved : end + moved]:
                places.add(op)
        return np.array(sorted(places), np.int64)

    def _has(self, word: bytes, *ops: Numbers) -> bool:
        spans = [(op[o.VALUE_AT], op[o.STOP]) for op in ops if op[o.VALUE_AT] != NONE]
        return any(word in self._text[start:stop] for start, stop in spans)

    def _unanswered(self, invocations: Numbers, untold: Untold | None = None) -> OperationBatch:
        """Return operations without a completion, with the records of their requests.

        Args:
            invocations: the rows of the operations' invocations.
            untold: gets the operations whose request has no records.
        """
        if untold is not None:
            sending = np.isin(invocations[:, o.F], (o.SEND, o.TXN))
            unsent = (invocations[:, o.UNSENT] > 0) | (sending & (invocations[:, o.NILS] > 0))
            for other in np.flatnonzero(invocations[:, o.F] == o.OTHER):
                unsent[other] = self._has(b":send", invocations[other])
            untold.sends += invocations[unsent, o.TIME].tolist()
        blocks = [np.empty((0, s.COLUMNS), np.int64)]
        op_row, rows = np.empty((1, o.OP_COLUMNS), np.int64), np.empty((16, s.COLUMNS), np.int64)
        for place, start in enumerate(invocations[:, o.START].tolist()):
            _, _, used, rows, _ = s.scan(self._text, start, op_row, rows, True)
            blocks.append(rows[:used].copy())
            blocks[-1][:, s.OP] = place
        return OperationBatch(invocations, np.concatenate(blocks), np.full(len(invocations), NONE))

    @cached_property
    def _scanner(self) -> tuple[Any, Any]:
        """Return the file's bytes and their scanner: plain Python, or compiled for a large file."""
        if len(self._text) < _COMPILED_FROM:
            return self._text, s.scan
        with cached_compilation(
            "jepsen", (Path(edn_tokens.__file__), Path(o.__file__), Path(s.__file__))
        ):
            return self._bytes, numba.njit(nogil=True, cache=True)(s.scan)

    def _line(self, at: int) -> int:
        return self._text[:at].count(b"\n") + 1

    def _malformed(self, at: int, complaint: int) -> UsageError:
        excerpt = self._text[at : at + _SHOWN_BYTES].split(b"\n")[0].decode(errors="replace")
        where = f"{self.path}, line {self._line(at)} (byte {at})"
        return UsageError(f"{where}: {excerpt!r} {COMPLAINTS[complaint]}.", hint=_HINT)


def _completed(batch: OperationBatch) -> OperationBatch:
    clients = (batch.ops[:, o.PROCESS] != NONE) & (batch.ops[:, o.TYPE] != o.INVOKE)
    place = np.cumsum(clients) - 1
    rows = batch.rows.copy()
    rows[:, s.OP] = place[rows[:, s.OP]]
    return OperationBatch(batch.ops[clients], rows, batch.begun[clients])

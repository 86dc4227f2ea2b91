"""A buffer for a transactional client's operations. A transaction's rows are added at its end."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from highwater.harness.clients.libraries.interfaces import (
    ClientError,
    DeliveredRecord,
    OnDelivery,
    ReadRecord,
)
from highwater.harness.clients.libraries.keyed import read_values
from highwater.harness.clients.operation_buffers import Places
from highwater.harness.runs.history import (
    OK,
    OPERATIONS,
    READ,
    RUN,
    SEND,
    SUBSCRIBE,
    record_id,
)
from highwater.harness.runs.recorder import FLUSH_S, Recorder

_ROWS: Final = 4_096

Row = dict[str, Any]


class TransactionBuffer:
    """The buffer of one transactional client. Only the client's thread uses it, also in callbacks.

    Args:
        group: the name of the group that the client joins; empty if it does not read.
    """

    def __init__(
        self, recorder: Recorder, *, process: str, topic: str, isolation: str, group: str = ""
    ) -> None:
        self._recorder = recorder
        self._row = {"process": process, "phase": RUN, "topic": topic}
        self._isolation = isolation
        self._group = group
        self._op = 0
        self._rows: list[Row] = []
        self._written_ns = recorder.clock()
        self._current: OpenTransaction | None = None

    def begin(self) -> "OpenTransaction":
        """Record that a transaction begins now."""
        self._op += 1
        row = {**self._row, "invoke_ns": self._recorder.clock(), "op": self._op}
        self._current = OpenTransaction(row, self._isolation, self._group, self._ended)
        return self._current

    def moved(self, kind: str, places: Places, *, within: bool) -> None:
        """Record a change of the reader's position or partitions. A transaction may be open."""
        del within  # every poll is within a transaction
        if self._current is not None:
            self._current.moved(kind, places)
            return
        entry = self.begin()
        entry.moved(kind, places)
        entry.end(OK)

    def turn(self) -> None:
        """Write the buffered rows if they are old. The client calls this method regularly."""
        if self._rows and self._recorder.clock() - self._written_ns >= FLUSH_S * 1e9:
            self.close()

    def close(self) -> None:
        """Write all waiting rows."""
        self._written_ns = self._recorder.clock()
        if self._rows:
            rows, self._rows = self._rows, []
            self._recorder.operations(
                {name: [row.get(name) for row in rows] for name in OPERATIONS.names}
            )

    def _ended(self, rows: list[Row], answered: bool) -> None:
        now = self._recorder.clock()
        self._current = None
        self._rows += [{**row, "complete_ns": now if answered else None} for row in rows]
        if len(self._rows) >= _ROWS:
            self.close()
        self.turn()


class OpenTransaction:
    """One transaction that has not ended yet."""

    def __init__(
        self, row: Row, isolation: str, group: str, ended: Callable[[list[Row], bool], None]
    ) -> None:
        self._row = row
        self._isolation = isolation
        self._group = group
        self._ended = ended
        self._rows: list[Row] = []

    def send(self, value: str, partition: int) -> OnDelivery:
        """Record that a record is sent. Return the callback for its delivery report.

        The callback records only the offset or the error, because the record's outcome is the
        transaction's.
        """
        row = {**self._row, "kind": SEND, "acks": "all", "value": value, "partition": partition}
        self._rows.append(row)

        def delivered(error: ClientError | None, message: DeliveredRecord) -> None:
            offset = message.offset()
            if error is not None:
                row["error"] = error.name()
            elif offset is not None and offset >= 0:
                row["offset"] = offset

        return delivered

    def read(self, messages: Sequence[ReadRecord]) -> None:
        """Record the records that a poll within the transaction returned."""
        self._rows += [
            {
                **self._row,
                "kind": READ,
                "isolation": self._isolation,
                "partition": message.partition(),
                "offset": message.offset(),
                "leader_epoch": message.leader_epoch(),
                "value": record_id(value or b""),
            }
            for message, value in zip(messages, read_values(messages), strict=True)
        ]

    def moved(self, kind: str, places: Places) -> None:
        """Record a change of position or partitions. It is ok even if the transaction fails."""
        value = self._group if kind == SUBSCRIBE else ""
        done = {**self._row, "kind": kind, "value": value, "outcome": OK}
        self._rows += [
            {**done, "partition": partition, "offset": offset}
            for partition, offset in places.items()
        ]

    def end(self, outcome: str, error: str | None = None, *, answered: bool = True) -> None:
        """Give the transaction's outcome to all of its sends and reads, and add the rows.

        Args:
            answered: whether EndTxn got a response.
        """
        fate = {"outcome": outcome, "error": error}
        self._ended([{**fate, **row} for row in self._rows], answered)

"""Write events to the run's tables during the run, at little cost for the caller.

A background thread appends single rows. Operation buffers append thousands of rows themselves. No
row stays in memory for long.

When the disk is full, the run must end: ``failed`` is set, and ``check`` and every later call raise
an error. Earlier rows stay readable.
"""

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa

from highwater.harness.base.errors import HarnessError
from highwater.harness.runs import history
from highwater.harness.runs.history import (
    ANSWERS_TABLE,
    DECIDED,
    DECISIONS_TABLE,
    FETCHES_TABLE,
    GROUPS_TABLE,
    INSTANCES_TABLE,
    LOOKUPS_TABLE,
    MESSAGES_TABLE,
    OPERATIONS,
    OPERATIONS_TABLE,
    OUTPUTS_TABLE,
    QUORUM_TABLE,
    REQUESTS_TABLE,
    STEPS_TABLE,
    WIRE_TABLE,
)
from highwater.harness.runs.store import Run

FLUSH_S: Final = 0.2
_OF_WIRE: Final = {WIRE_TABLE: history.WIRE, MESSAGES_TABLE: history.MESSAGES}

Columns = dict[str, Any]
"""Column name to one value for all rows, or to a list with a value for each row. A missing column
is null."""


class Clock:
    """A monotonic clock: nanoseconds since the run's start.

    Attributes:
        started_at_ns: the wall clock at time 0, in nanoseconds since the epoch.
        zero_ns: the machine's monotonic clock at time 0. All processes on the machine share this
            clock.
    """

    __slots__ = ("started_at_ns", "zero_ns")

    def __init__(self) -> None:
        self.started_at_ns = time.time_ns()
        self.zero_ns = time.monotonic_ns()

    def __call__(self) -> int:
        """Return the nanoseconds since the run's start."""
        return time.monotonic_ns() - self.zero_ns

    def step_ns(self) -> int:
        """Return by how many ns the machine's wall clock was moved since the run's start."""
        return time.time_ns() - self.started_at_ns - self()


class Recorder:
    """Writes the streams of one run. Threads may share it.

    Args:
        clock: nanoseconds since the run's start.
        wired: whether a relay reports messages.
        racked: whether readers are in racks, and report the brokers from which they fetch.
        grouped: whether group members report their records.
        answers: whether the run records the coordinators' states at its end.
        lookups: whether the run records offsets of times at its end.
        program: whether there is a program under test.

    Attributes:
        failed: set when no more rows can be recorded. Code that waits should check ``failed``, too.
    """

    def __init__(
        self,
        run: Run,
        clock: Callable[[], int],
        *,
        wired: bool = False,
        racked: bool = False,
        grouped: bool = False,
        answers: bool = False,
        lookups: bool = False,
        program: bool = False,
    ) -> None:
        self.clock = clock
        self.failed = threading.Event()
        self._error: HarnessError | None = None
        self._counts: Counter[tuple[str, str]] = Counter()
        self._words: dict[str, dict[str, int]] = {}
        tables = {**history.TABLES, STEPS_TABLE: history.STEPS, **DECIDED}
        tables |= _OF_WIRE if wired else {}
        tables |= {FETCHES_TABLE: history.FETCHES} if racked else {}
        tables |= {GROUPS_TABLE: history.GROUPS} if grouped or program else {}
        tables |= {ANSWERS_TABLE: history.ANSWERS} if answers else {}
        tables |= {LOOKUPS_TABLE: history.LOOKUPS} if lookups else {}
        tables |= history.OF_PROGRAM if program else {}
        # The queues have no lock: after a fatal error, a client's callback would never release it.
        self._rows: dict[str, deque[dict[str, object]]] = {table: deque() for table in tables}
        self._operations_lock = threading.Lock()
        self._closing = threading.Event()
        pa.array([0])  # imports pandas, which takes a second, before the run waits for anything
        self._where = run.path
        try:
            self._streams = {
                table: history.StreamWriter(run.stream(table), schema)
                for table, schema in tables.items()
            }
        except OSError as error:
            self._fail(error)
        self.check()
        self._thread = threading.Thread(target=self._write, name="recorder", daemon=True)
        self._thread.start()

    def operation(self, **row: object) -> None:
        """Record one operation with columns of ``OPERATIONS``.

        The row is on disk after ``FLUSH_S`` seconds. For thousands of operations per second, use an
        operation buffer instead.
        """
        self._add(OPERATIONS_TABLE, row)

    def fault(
        self, name: str, phase: str, says: str, broker: int | None = None, **fields: object
    ) -> None:
        """Record a row of ``FAULTS``; ``phase`` is inject, heal or note.

        The row is on disk when the method returns.
        """
        row = {"fault": name, "phase": phase, "says": says, "broker": broker, **fields}
        self._append_now("events/faults", row)

    def step(self, event: str, **row: object) -> None:
        """Record a row of ``STEPS``. The row is on disk when the method returns."""
        self._append_now(STEPS_TABLE, {"event": event, **row})

    def partition(self, **row: object) -> None:
        """Record a row of ``PARTITIONS``; ``time_ns`` is by default the present time."""
        self._add("events/partitions", {"time_ns": self.clock(), **row})

    def replica(self, **row: object) -> None:
        """Record a row of ``REPLICAS``; ``time_ns`` is by default the present time."""
        self._add("events/replicas", {"time_ns": self.clock(), **row})

    def decision(self, evidence: str, kind: str, subject: str, **row: object) -> None:
        """Record a row of ``DECISIONS``. The row is on disk when the method returns."""
        self._append_now(
            DECISIONS_TABLE, {"evidence": evidence, "kind": kind, "subject": subject, **row}
        )

    def controller(self, **row: object) -> None:
        """Record a row of ``QUORUM`` with the current time."""
        self._add(QUORUM_TABLE, {"time_ns": self.clock(), **row})

    def fetch(self, **row: object) -> None:
        """Record a row of ``FETCHES`` with the current time."""
        self._add(FETCHES_TABLE, {"time_ns": self.clock(), **row})

    def group(self, row: dict[str, object]) -> None:
        """Record a row of ``GROUPS``; the row contains its times."""
        self._add(GROUPS_TABLE, row)

    def answer(self, row: dict[str, object]) -> None:
        """Record a row of ``ANSWERS``; the row contains its times."""
        self._add(ANSWERS_TABLE, row)

    def lookup(self, row: dict[str, object]) -> None:
        """Record a row of ``LOOKUPS``; the row contains its times."""
        self._add(LOOKUPS_TABLE, row)

    def output(self, row: dict[str, object]) -> None:
        """Record a row of ``OUTPUTS``."""
        self._add(OUTPUTS_TABLE, row)

    def instance(self, event: str, **row: object) -> None:
        """Record a row of ``INSTANCES``. The row is on disk when the method returns."""
        self._append_now(INSTANCES_TABLE, {"event": event, **row})

    def request(self, row: dict[str, object]) -> None:
        """Record a row of ``REQUESTS``; the row contains its times."""
        self._add(REQUESTS_TABLE, row)

    def wire(self, row: dict[str, object]) -> None:
        """Record a row of ``WIRE``; the row contains its time."""
        self._add(WIRE_TABLE, row)

    def message(self, row: dict[str, object]) -> None:
        """Record a row of ``MESSAGES``; the row contains its time."""
        self._add(MESSAGES_TABLE, row)

    def log_lines(self, rows: Sequence[dict[str, object]]) -> None:
        """Record rows of ``LOG_LINES``."""
        for row in rows:
            self._add("events/log_lines", row)

    def counts(self) -> dict[tuple[str, str], int]:
        """Return (kind, outcome) -> number of operations, up to ``FLUSH_S`` seconds old."""
        return dict(self._counts.copy())

    def rows(self) -> dict[str, int]:
        """Return table -> number of rows written so far."""
        return {table: stream.rows for table, stream in self._streams.items()}

    def _append_now(self, table: str, row: Mapping[str, object]) -> None:
        """Write a row with the current time at once. Other waiting rows are written later."""
        stamped = {"time_ns": self.clock(), **row}
        self.check()
        try:
            self._streams[table].append_rows([stamped])
        except OSError as error:
            self._fail(error)
        self.check()

    def check(self) -> None:
        """Raise an error with the run and the reason if a row could not be written."""
        if self._error is not None:
            raise self._error

    def operations(self, columns: Columns) -> None:
        """Record thousands of operations at once. The caller's own thread writes them to disk.

        A background thread would compete with the caller for Python's global lock.
        """
        self.check()
        try:
            self._append(columns)
        except Exception as error:  # noqa: BLE001 - any error must end the run
            self._fail(error)
        self.check()

    def close(self) -> None:
        """Write all waiting rows and end the streams. May be called twice.

        Raises:
            HarnessError: a row could not be written, now or before.
        """
        self._closing.set()
        self._thread.join()
        self.check()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is None:
            self.close()
        else:  # report the current error, not a second error about the same disk
            self._closing.set()
            self._thread.join()

    def _add(self, table: str, row: dict[str, object]) -> None:
        self.check()
        self._rows[table].append(row)

    def _write(self) -> None:
        try:
            while not self._closing.wait(FLUSH_S):
                self._write_rows()
            self._write_rows()
            for stream in self._streams.values():
                stream.close()
        except Exception as error:  # noqa: BLE001 - any error must end the run
            self._fail(error)
            for stream in self._streams.values():
                stream.abandon()

    def _write_rows(self) -> None:
        queued = {
            table: [rows.popleft() for _ in range(len(rows))]
            for table, rows in self._rows.items()
            if rows
        }
        if operations := queued.pop(OPERATIONS_TABLE, []):
            names = OPERATIONS.names
            self._append({name: [row.get(name) for row in operations] for name in names})
        for table, rows in queued.items():
            self._streams[table].append_rows(rows)

    def _append(self, columns: Columns) -> None:
        size = len(columns["invoke_ns"])
        with self._operations_lock:
            arrays = [self._array(field, columns.get(field.name), size) for field in OPERATIONS]
            batch = pa.RecordBatch.from_arrays(arrays, schema=OPERATIONS)
            self._streams[OPERATIONS_TABLE].append(batch)
            if isinstance(columns["outcome"], str):
                self._counts[columns["kind"], columns["outcome"]] += size
            else:
                self._counts.update(zip(columns["kind"], columns["outcome"], strict=True))

    def _array(self, field: pa.Field, column: Any, size: int) -> pa.Array:  # noqa: ANN401 - Arrow's
        """Return a column as an Arrow array, with dictionary codes if its field needs them."""
        if column is None:
            return pa.nulls(size, field.type)
        if not pa.types.is_dictionary(field.type):
            return column if isinstance(column, pa.Array) else pa.array(column, field.type)
        words = self._words.setdefault(field.name, {})
        if isinstance(column, str):
            codes = pa.array(np.full(size, words.setdefault(column, len(words)), np.int32))
        else:
            codes = pa.array(
                [None if word is None else words.setdefault(word, len(words)) for word in column],
                pa.int32(),
            )
        return pa.DictionaryArray.from_arrays(codes, pa.array(list(words), pa.string()))

    def _fail(self, error: Exception) -> None:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else repr(error)
        failure = HarnessError(
            f"the run {self._where} cannot be recorded any more: {reason}",
            hint="Free disk space, or choose another folder with --store. Earlier rows are saved.",
        )
        failure.__cause__ = error
        self._error = self._error or failure
        self.failed.set()

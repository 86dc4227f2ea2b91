"""Buffers of operations. Producers and readers append operations; the buffers make rows later."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from highwater.harness.clients.delivery_outcomes import REFUSED_LOCALLY
from highwater.harness.clients.libraries.interfaces import (
    ClientError,
    DeliveredRecord,
    Outcomes,
    ReadRecord,
)
from highwater.harness.clients.libraries.librdkafka import LIBRDKAFKA
from highwater.harness.clients.read_names import Names, by_values
from highwater.harness.runs.history import OK, READ, RUN, SEND, SUBSCRIBE
from highwater.harness.runs.plan import Topic
from highwater.harness.runs.recorder import FLUSH_S, Columns, Recorder

TAPE_ROWS: Final = 8192
_WIDTH: Final = 3
_NOT_TOLD: Final = -1  # the broker returned no offset (acks=0)
Places = Mapping[int, int | None] | Mapping[None, None]
"""Offsets by partition. None means an unknown offset. ``{None: None}`` means no partitions."""
Answered = Callable[[int, ClientError | None, DeliveredRecord], None]
"""A function that gets a record's sequence number, its error or None, and its delivery report."""


class SendBuffer:
    """The buffer of one producer, which sends its records to the partitions in turn.

    A record's name is ``<prefix>-<sequence>``. Only the producer's thread uses the buffer, also in
    callbacks.

    To save time, a response is stored as three integers in a list. Names and partitions are
    computed from the sequence numbers later. The buffer reads the clock once before it sends a
    group of records (a burst), and once after each poll. So a recorded interval may be longer than
    the real interval, but never shorter. At a low rate, a burst has one record and a poll handles
    one response.

    Args:
        named: sequence number to record name, if names have another form.
    """

    def __init__(
        self,
        recorder: Recorder,
        *,
        process: str,
        topic: Topic,
        acks: str,
        prefix: str,
        outcomes: Outcomes = LIBRDKAFKA.outcomes,
        named: Callable[[int], str] | None = None,
    ) -> None:
        self._outcomes = outcomes
        self._named = named
        self._recorder = recorder
        self._clock = recorder.clock
        self._row = {
            "process": process, "kind": SEND, "phase": RUN, "topic": topic.name, "acks": acks
        }  # fmt: skip
        # With acks=0 no broker responds. librdkafka adds a record's place in its batch to -1001, so
        # it reports offsets from 0 on in a batch of more than 1,001 records.
        self._untold = acks == "0"
        self._partitions = topic.partitions
        self._prefix = prefix
        self._answers: list[int] = []
        self._polls: list[tuple[int, int]] = []
        self._written_ns = self._clock()

    def burst(self) -> Answered:
        """Begin a burst. Return the callback for the delivery reports of its records."""
        invoke_ns = self._clock()

        def answered(sequence: int, error: ClientError | None, message: DeliveredRecord) -> None:
            if error is None:
                offset = message.offset()
                self._answers.extend((invoke_ns, sequence, _NOT_TOLD if offset is None else offset))
            else:
                self._lost(invoke_ns, sequence, error, message)

        return answered

    def refused(self, sequence: int, partition: int, error: ClientError) -> None:
        """Record that the client refused to queue a record."""
        now = self._clock()
        self._recorder.operation(
            **self._row, outcome=REFUSED_LOCALLY, invoke_ns=now, complete_ns=now,
            partition=partition, value=self._name(sequence), error=error.name(), op=sequence,
        )  # fmt: skip

    def turn(self) -> None:
        """Record that a poll has ended. If the buffered rows are many or old, write them.

        The producer calls this method after every poll.
        """
        now, answers = self._clock(), len(self._answers)
        if answers and (not self._polls or self._polls[-1][0] < answers):
            self._polls.append((answers, now))
        if answers >= _WIDTH * TAPE_ROWS or now - self._written_ns >= FLUSH_S * 1e9:
            self.close()

    def close(self) -> None:
        """Write all waiting rows."""
        self._written_ns = self._clock()
        if not self._answers:
            return
        if not self._polls or self._polls[-1][0] < len(self._answers):
            self._polls.append((len(self._answers), self._written_ns))
        answers, polls = self._answers, self._polls
        self._answers, self._polls = [], []
        self._recorder.operations(self._columns(answers, polls))

    def _lost(
        self, invoke_ns: int, sequence: int, error: ClientError, message: DeliveredRecord
    ) -> None:
        """Record a delivery error. Without a response (a purged record), it has no end time."""
        outcome = self._outcomes.delivered(error, retries=True)
        self._recorder.operation(
            **self._row, outcome=outcome, invoke_ns=invoke_ns,
            complete_ns=None if self._outcomes.unanswered(error) else self._clock(),
            partition=message.partition(), value=self._name(sequence),
            error=error.name(), op=sequence,
        )  # fmt: skip

    def _name(self, sequence: int) -> str:
        return self._named(sequence) if self._named else f"{self._prefix}-{sequence}"

    def _columns(self, answers: list[int], polls: list[tuple[int, int]]) -> Columns:
        invoke_ns, sequence, offset = np.array(answers, np.int64).reshape(-1, _WIDTH).T
        ends = np.array([end // _WIDTH for end, _ in polls])
        times = np.array([time_ns for _, time_ns in polls])
        return {
            **self._row,
            "outcome": OK,
            "invoke_ns": np.ascontiguousarray(invoke_ns),
            "complete_ns": np.repeat(times, np.diff(ends, prepend=0)),
            "partition": (sequence % self._partitions).astype(np.int32),
            "offset": pa.array(np.ascontiguousarray(offset), mask=(offset < 0) | self._untold),
            "value": self._values(np.ascontiguousarray(sequence)),
            "op": np.ascontiguousarray(sequence),
        }

    def _values(self, sequence: NDArray[np.int64]) -> pa.Array:
        if self._named is not None:
            return pa.array(map(self._named, sequence.tolist()), pa.string())
        numbers = pa.array(sequence).cast(pa.string())
        return pc.binary_join_element_wise(self._prefix, numbers, "-")


class ReadBuffer:
    """The buffer of one reader. It gets complete batches of records from the client.

    Args:
        group: the name of the group that the reader joins; empty for no group.
        names: the records' names in the history.
    """

    def __init__(
        self,
        recorder: Recorder,
        *,
        process: str,
        phase: str,
        topic: str,
        isolation: str,
        group: str = "",
        names: Names = by_values,
    ) -> None:
        self._recorder = recorder
        self._row = {"process": process, "phase": phase, "topic": topic, "outcome": OK}
        self._isolation = isolation
        self._group = group
        self._names = names
        self._op = 0
        self._begun = False

    def moved(self, kind: str, places: Places, *, within: bool) -> None:
        """Record a change of position or partitions; ``within`` if it happens during a poll."""
        if not (within and self._begun):
            self._op += 1
        self._begun = within
        now = self._recorder.clock()
        self._recorder.operations(
            {
                **self._row,
                "kind": kind,
                "invoke_ns": [now] * len(places),
                "complete_ns": [now] * len(places),
                "partition": list(places),
                "offset": list(places.values()),
                "value": [self._group if kind == SUBSCRIBE else ""] * len(places),
                "op": [self._op] * len(places),
            }
        )

    def read(self, messages: Sequence[ReadRecord], invoke_ns: int) -> None:
        """Record the records of a poll that began at ``invoke_ns`` and ends now."""
        complete_ns = self._recorder.clock()
        begun, self._begun = self._begun, False
        size = len(messages)
        if not size:
            return
        self._op += not begun
        self._recorder.operations(
            {
                **self._row,
                "kind": READ,
                "isolation": self._isolation,
                "invoke_ns": np.full(size, invoke_ns),
                "complete_ns": np.full(size, complete_ns),
                "partition": np.array([message.partition() for message in messages], np.int32),
                "offset": pa.array([message.offset() for message in messages], pa.int64()),
                "leader_epoch": [message.leader_epoch() for message in messages],
                "value": self._names(messages),
                "op": np.full(size, self._op),
            }
        )

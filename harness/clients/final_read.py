"""The final read: write a fence record into every partition, then read up to it.

The fence is a partition's last record. A reader that has read the fence has passed every earlier
offset. So a record that the reader did not return is not in the log, or its transaction was not
committed. The reader is read_committed, so it stops at the last stable offset: there the first open
transaction begins. All transactions must end within a time limit. If the last stable offset still
does not move, the final read of the partition ends there. The memory does not grow with the log.

A run that only reads a topic writes no fence. It reads the offsets of the run again, from the first
offset that is still in the log to the last stable offset after the healing (``read_again``).
"""

import contextlib
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from highwater.harness.base.errors import WaitTimeoutError
from highwater.harness.base.waiting import await_condition
from highwater.harness.clients.client_config import Settings
from highwater.harness.clients.libraries.consumers.librdkafka_consumer import Consumer
from highwater.harness.clients.libraries.interfaces import (
    ReaderLibrary,
    ReadRecord,
    RecordConsumer,
)
from highwater.harness.clients.libraries.keyed import KEYED
from highwater.harness.clients.libraries.librdkafka import LIBRDKAFKA
from highwater.harness.clients.operation_buffers import ReadBuffer
from highwater.harness.clients.read_names import Names, names_for
from highwater.harness.clients.record_sender import Sender
from highwater.harness.runs.faults.facts import facts_of
from highwater.harness.runs.history import ASSIGN, END, FINAL, OK, READ_COMMITTED, SEEK
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.recorder import Recorder
from highwater.harness.runs.steps import fault_in
from highwater.harness.runs.store import StandingEnd

_TRY_S: Final = 5.0
_SETTLED_S: Final = 1.0
_RETRY_S: Final = 0.2
_POLL_S: Final = 0.1
_REFUSED_S: Final = 5.0
"""The time after which a leader that refuses an offset of the remote tier will always refuse it. A
new leader may refuse offsets at first, because it does not know the remote segments yet."""

_READ_AT_ONCE: Final = 5_000
_ENDS_S: Final = 30.0
_TIMES: Final = 16
_EVERY: Final = 32
_EOF: Final = KafkaError._PARTITION_EOF  # noqa: SLF001 - that is its public name
_OUT: Final = KafkaError._AUTO_OFFSET_RESET  # noqa: SLF001 - as well


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRead:
    """The progress of the final read in one partition.

    Attributes:
        complete: whether the fence was acknowledged, and all records up to the fence were read.
        problem: reason why the read is not complete, as a sentence. None if it is complete, or if
            an open transaction ended it.
        standing: set if an open transaction ended the read before the fence.
        times: timestamps of some records, in ms since the epoch, in increasing order.
    """

    partition: int
    complete: bool
    problem: str | None = None
    standing: StandingEnd | None = None
    times: tuple[int, ...] = ()


class LastStableOffsets:
    """The partitions in which a reader waits at the last stable offset, before the fence.

    A read_committed reader stops before the first open transaction of a partition (KIP-98). The
    reader does not know whether that transaction will end. But a coordinator aborts a transaction
    after a time limit. A transaction that is still open after this limit never ends.

    Args:
        fences: partition to the offset of its fence record; None if no fence was acknowledged.
        limit_s: seconds after which all transactions must have ended. If None, no partition is
            ``standing``.
        ask: requests the last stable offset from a partition's leader; -1 without a response.
        clock: monotonic time in seconds.

    Attributes:
        standing: the partitions, by number, in which the last stable offset did not move.
    """

    def __init__(
        self,
        fences: Mapping[int, int | None],
        limit_s: float | None,
        ask: Callable[[int], int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.standing: dict[int, StandingEnd] = {}
        self._fences = fences
        self._limit_s = limit_s
        self._ask = ask
        self._clock = clock
        self._ends: dict[int, tuple[int, float]] = {}

    def reached(self, partition: int, offset: int) -> None:
        """Record that the reader waits at ``offset``: all earlier records are read."""
        fence = self._fences[partition]
        if fence is not None and 0 <= offset <= fence and self._at(partition) != offset:
            self._ends[partition] = (offset, self._clock())

    def silent(self, partitions: Iterable[int]) -> None:
        """Ask leaders for last stable offsets at which the reader may not be able to arrive.

        Compaction may have removed the records just below that offset. Then the reader stays before
        the gap: it gets no record and no end of the partition.
        """
        if self._limit_s is None:
            return
        for partition in partitions:
            if self._fences[partition] is not None and partition not in self._ends:
                self.reached(partition, self._ask(partition))

    def moved(self, partition: int) -> None:
        """Record that the reader got another record of the partition."""
        self._ends.pop(partition, None)

    def look(self) -> None:
        """Find partitions without progress for the time limit.

        If the leader still returns the same last stable offset, the partition becomes ``standing``.
        """
        if self._limit_s is None:
            return
        for partition, (offset, since) in list(self._ends.items()):
            seconds = self._clock() - since
            fence = self._fences[partition]
            if partition in self.standing or fence is None or seconds < self._limit_s:
                continue
            if self._ask(partition) == offset:
                self.standing[partition] = StandingEnd(
                    partition=partition, lso=offset, fence=fence, seconds=round(seconds, 1)
                )
            else:
                self._ends[partition] = (offset, self._clock())

    def _at(self, partition: int) -> int:
        return self._ends.get(partition, (-1, 0.0))[0]


class ReadTimes:
    """Timestamps of some of the records that the final read returned."""

    def __init__(self) -> None:
        self._times: dict[int, set[int]] = defaultdict(set)

    def add(self, messages: Sequence[ReadRecord]) -> None:
        """Add the timestamps of every ``_EVERY``-th record of a poll, and of its last record."""
        for message in (*messages[::_EVERY], *messages[-1:]):
            self._times[message.partition() or 0].add(message.timestamp()[1])

    def sample(self, partition: int) -> tuple[int, ...]:
        """Return about ``_TIMES`` timestamps of a partition, in increasing order."""
        times = sorted(time for time in self._times[partition] if time > 0)
        return tuple(dict.fromkeys((*times[:: len(times) // _TIMES + 1], *times[-1:])))


def final_read(
    plan: Plan,
    recorder: Recorder,
    fence: Settings,
    reader: Settings,
    *,
    limit_s: float,
    open_s: float | None = None,
    library: ReaderLibrary = LIBRDKAFKA,
) -> tuple[PartitionRead, ...]:
    """Write a fence record into every partition of the plan's topic, and read up to the fence.

    At most half of the time limit is for writing the fences. So a partition without a leader does
    not prevent the read of the other partitions.

    Args:
        fence: settings for a producer with acks=all.
        reader: settings for a consumer that reports an offset out of range instead of moving on.
        open_s: seconds after which all transactions must have ended; None if unknown.
        library: the reader's library. With transactions it must be librdkafka, because the
            positions of other libraries stop at transaction markers.
    """
    started = time.monotonic()
    client = library.consumer({**reader, "enable.partition.eof": True})
    try:
        if plan.workload.acks == "0":
            _settle(plan, recorder, client, started + limit_s / 4)
        fences = _fence(plan, recorder, fence, started + limit_s / 2)
        ends = LastStableOffsets(
            fences,
            open_s,
            lambda partition: readable_end(client, plan.topic.name, partition),
        )
        times = ReadTimes()
        reached = _read(plan, recorder, client, fences, ends, times, started + limit_s)
    finally:
        client.close()
    return tuple(
        PartitionRead(partition=partition, complete=False, standing=ends.standing[partition])
        if partition in ends.standing
        else _judge(plan, partition, fences[partition], reached[partition], times, limit_s)
        for partition in range(plan.topic.partitions)
    )


def read_again(
    plan: Plan,
    recorder: Recorder,
    reader: Settings,
    places: Mapping[int, tuple[int, int]],
    *,
    names: Names,
    limit_s: float,
) -> tuple[PartitionRead, ...]:
    """Read again what the run's readers have read in a topic to which other producers write.

    The end of a log is recorded as ``END`` if the reader reaches it. If it is below the position of
    a reader after ``_ENDS_S``, the log has become shorter.

    Args:
        reader: settings for a consumer that reports an offset out of range instead of moving on.
        places: partition to the offset at which the run began, and the readers' last position.
        names: the function that named the run's records.
    """
    started = time.monotonic()
    topic, ends = plan.topic.name, dict[int, int]()
    client = LIBRDKAFKA.consumer({**reader, "enable.partition.eof": True})
    try:
        for partition, (_, position) in places.items():
            end = _end_from(client, topic, partition, position, started + _ENDS_S)
            if end is not None:
                ends[partition] = end
        reached = _read_range(
            *(plan, recorder, client, {p: places[p][0] for p in ends}, ends, names),
            started + limit_s,
        )
    finally:
        client.close()
    problems = {
        partition: f"no broker returned the end of {topic}-{partition} within {_ENDS_S:g} s"
        for partition in places
        if partition not in ends
    }
    problems |= {
        partition: f"the final read reached offset {reached[partition]} of {topic}-{partition} in"
        f" {limit_s:g} s, not {end - 1}"
        for partition, end in ends.items()
        if reached[partition] < end - 1
    }
    return tuple(
        PartitionRead(partition=p, complete=p not in problems, problem=problems.get(p))
        for p in places
    )


def _end_from(
    client: RecordConsumer, topic: str, partition: int, position: int, deadline: float
) -> int | None:
    """Return the last stable offset as soon as it is at least ``position``, or at the deadline.

    A new leader's HW, and so its last stable offset, may be too low for a short time. The result is
    None if no broker responds.
    """
    try:
        return await_condition(
            partial(readable_end, client, topic, partition),
            lambda end: end >= position,
            what=f"the end of {topic}-{partition}",
            limit_s=max(deadline - time.monotonic(), _RETRY_S),
        )
    except WaitTimeoutError as late:
        return late.seen if isinstance(late.seen, int) and late.seen >= 0 else None


def _read_range(
    plan: Plan,
    recorder: Recorder,
    client: RecordConsumer,
    starts: Mapping[int, int],
    ends: Mapping[int, int],
    names: Names,
    deadline: float,
) -> dict[int, int]:
    """Read every partition from its start to its end; return partition -> last offset read.

    If retention removes records before the reader gets them, it continues at the log's beginning.
    Each beginning is recorded as ``SEEK``.
    """
    topic = plan.topic.name
    tape = ReadBuffer(
        recorder, process="reader", phase=FINAL, topic=topic, isolation=READ_COMMITTED, names=names
    )
    tape.moved(ASSIGN, dict.fromkeys(starts), within=False)
    begins = {p: max(at, _first_offset(client, topic, p, deadline)) for p, at in starts.items()}
    reached = {partition: begin - 1 for partition, begin in begins.items()}
    fences: dict[int, int | None] = dict.fromkeys(starts)
    stable = LastStableOffsets(fences, None, lambda _: -1)
    tape.moved(SEEK, begins, within=False)
    moved = begins
    while unread := [p for p, end in ends.items() if reached[p] < end - 1]:
        if moved:
            client.assign([TopicPartition(topic, p, reached[p] + 1) for p in unread])
        if time.monotonic() >= deadline:
            break
        invoke_ns = recorder.clock()
        answers = client.consume(_READ_AT_ONCE, _POLL_S)
        messages = [message for message in answers if message.error() is None]
        reached |= {message.partition() or 0: message.offset() or 0 for message in messages}
        _pass_ends(answers, fences, reached, stable)
        tape.read(messages, invoke_ns)
        firsts = {p: _first_offset(client, topic, p, deadline) for p, _ in _out(answers)}
        moved = {p: first for p, first in firsts.items() if first > reached[p] + 1}
        if moved:
            tape.moved(SEEK, moved, within=False)
        reached |= {partition: begin - 1 for partition, begin in moved.items()}
        recorder.check()
    whole = {p: end for p, end in ends.items() if reached[p] >= end - 1}
    tape.moved(END, whole, within=False)
    return reached


def _settle(plan: Plan, recorder: Recorder, client: RecordConsumer, deadline: float) -> None:
    """Wait until all partitions have had the same ends for ``_SETTLED_S``, or until the deadline.

    With acks=0 a record counts as sent as soon as it is in the socket, but the broker may not have
    read it yet. The fence arrives on another connection. Without this wait, the fence could get a
    smaller offset than the record.
    """
    topic, partitions = plan.topic.name, range(plan.topic.partitions)
    ends: list[int] = []
    since = time.monotonic()
    while time.monotonic() < min(deadline, since + _SETTLED_S):
        offsets = [_last_offset(client, topic, partition) for partition in partitions]
        if offsets != ends:
            ends, since = offsets, time.monotonic()
        if recorder.failed.wait(_POLL_S):
            return


def _fence(
    plan: Plan, recorder: Recorder, settings: Settings, deadline: float
) -> dict[int, int | None]:
    """Write the fence records; return their offsets by partition, None without a response.

    Every attempt sends a record with a new name, and the client never sends a record twice.
    """
    row = {"process": "fence", "phase": FINAL, "topic": plan.topic.name}
    settings = {**settings, "linger.ms": 0, "message.timeout.ms": int(_TRY_S * 1000)}
    sender = Sender(
        recorder,
        settings,
        row,
        size=plan.workload.record_bytes,
        retries=False,
        library=KEYED if plan.workload.keys else LIBRDKAFKA,
    )
    fences: dict[int, int | None] = dict.fromkeys(range(plan.topic.partitions))
    attempt = 0
    try:
        while None in fences.values() and time.monotonic() < deadline:
            if attempt and recorder.failed.wait(_RETRY_S):
                break
            attempt += 1
            for partition in [p for p, offset in fences.items() if offset is None]:
                left = min(2 * _TRY_S, deadline - time.monotonic())
                answer = sender.send(f"fence-{partition}-{attempt}", partition, limit_s=left)
                fences[partition] = answer.offset if answer.outcome == OK else None
    finally:
        sender.close(limit_s=_TRY_S)
    return fences


def _read(
    plan: Plan,
    recorder: Recorder,
    client: RecordConsumer,
    fences: dict[int, int | None],
    stable: LastStableOffsets,
    times: ReadTimes,
    deadline: float,
) -> dict[int, int]:
    """Read every partition to its fence or its end; return partition -> last offset read, or -1.

    If a partition's last stable offset does not move, the read of the partition ends there.
    """
    topic = plan.topic.name
    reached: dict[int, int] = dict.fromkeys(fences, -1)
    tape = ReadBuffer(
        recorder,
        process="reader",
        phase=FINAL,
        topic=topic,
        isolation=READ_COMMITTED,
        names=names_for(plan),
    )
    ends = {p: _last_offset(client, topic, p) if f is None else f for p, f in fences.items()}
    if isinstance(client, Consumer):
        # Request the leaders now. Otherwise librdkafka may learn them 1 s after the assignment.
        with contextlib.suppress(KafkaException):
            client.list_topics(topic, timeout=_TRY_S)
    tape.moved(ASSIGN, dict.fromkeys(fences), within=False)
    tape.moved(SEEK, dict.fromkeys(fences, 0), within=False)
    named = {fault_in(word) for word in plan.nemesis} | {step.fault for step in plan.steps}
    deletes = any(facts_of(fault).deletes for fault in named)
    shortened = plan.tiered or plan.topic.expires or deletes
    begins = {p: _first_offset(client, topic, p, deadline) if shortened else 0 for p in fences}
    client.assign([TopicPartition(topic, partition, at) for partition, at in begins.items()])
    refused = RefusedOffsets()
    while time.monotonic() < deadline and any(
        reached[p] < end for p, end in ends.items() if p not in stable.standing
    ):
        invoke_ns = recorder.clock()
        answers = client.consume(_READ_AT_ONCE, _POLL_S)
        messages = [message for message in answers if message.error() is None]
        for message in messages:
            reached[message.partition() or 0] = message.offset() or 0
            stable.moved(message.partition() or 0)
            refused.moved(message.partition() or 0)
        if len(messages) < len(answers):
            _pass_ends(answers, fences, reached, stable)
            if plan.tiered and (out := _out(answers)):
                for p, at in out:
                    first = _first_offset(client, topic, p, deadline)
                    reached[p] = max(refused.next(p, at), first) - 1
                client.assign([TopicPartition(topic, p, reached[p] + 1) for p in fences])
        if not answers and plan.workload.keys:
            stable.silent(p for p, end in ends.items() if reached[p] < end)
        tape.read(messages, invoke_ns)
        times.add(messages)
        stable.look()
        recorder.check()
    return reached


class RefusedOffsets:
    """The offsets that leaders refuse, although their logs begin earlier (KIP-405).

    A leader refuses the offset of a record that is only in the remote tier if it finds no segment
    with this offset. Then the reader asks again, and after a time limit continues at the next
    offset.

    Args:
        limit_s: seconds since the first refusal after which the reader passes over offsets.
        clock: monotonic time in seconds.
    """

    def __init__(
        self, limit_s: float = _REFUSED_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit_s = limit_s
        self._clock = clock
        self._since: dict[int, float] = {}

    def next(self, partition: int, offset: int) -> int:
        """Return the offset at which the reader continues after the refusal of an offset."""
        since = self._since.setdefault(partition, self._clock())
        return offset + (self._clock() - since >= self._limit_s)

    def moved(self, partition: int) -> None:
        """Record that the reader got a record of the partition."""
        self._since.pop(partition, None)


def _pass_ends(
    answers: Sequence[ReadRecord],
    fences: dict[int, int | None],
    reached: dict[int, int],
    stable: LastStableOffsets,
) -> None:
    """Handle the client's reports that it has reached the end of a partition.

    The last offset before the end may be a transaction marker, which a reader never gets. So if the
    partition has no fence, the offset before the end counts as reached.
    """
    for answer in answers:
        error, partition = answer.error(), answer.partition() or 0
        if error is None or error.code() != _EOF:
            continue
        stable.reached(partition, answer.offset() or 0)
        if fences[partition] is None:
            reached[partition] = max(reached[partition], (answer.offset() or 0) - 1)


def _out(answers: Sequence[ReadRecord]) -> set[tuple[int, int]]:
    """Return (partition, offset) of each position that a leader refused as outside its log."""
    return {
        (answer.partition() or 0, answer.offset() or 0)
        for answer in answers
        if (error := answer.error()) and error.code() == _OUT
    }


def _last_offset(client: RecordConsumer, topic: str, partition: int) -> int:
    """Return the last offset that a consumer may read; -1 if the partition is empty or unknown."""
    return max(readable_end(client, topic, partition) - 1, -1)


def _first_offset(client: RecordConsumer, topic: str, partition: int, deadline: float) -> int:
    """Return a partition's first offset, because a reader at an earlier offset gets an error.

    The result is 0 if the first offset is unknown. The first offset is above 0 only with a remote
    tier, or after records expired or a fault deleted records.
    """
    with contextlib.suppress(WaitTimeoutError):
        bounds = await_condition(
            lambda: client.get_watermark_offsets(TopicPartition(topic, partition), timeout=_TRY_S),
            lambda bounds: bounds is not None,
            what=f"the leader to return the first offset of {topic}-{partition}",
            limit_s=max(deadline - time.monotonic(), 0),
            passing=(KafkaException,),
        )
        return max(bounds[0], 0) if bounds else 0
    return 0


def readable_end(client: RecordConsumer, topic: str, partition: int) -> int:
    """Return the end offset for the client's isolation level; -1 if unknown."""
    try:
        bounds = client.get_watermark_offsets(TopicPartition(topic, partition), timeout=_TRY_S)
    except KafkaException:
        return -1
    return bounds[1] if bounds else -1


def _judge(
    plan: Plan,
    partition: int,
    fence: int | None,
    reached: int,
    times: ReadTimes,
    limit_s: float,
) -> PartitionRead:
    where = f"{plan.topic.name}-{partition}"
    if fence is None:
        problem = f"no broker acknowledged a fence record on {where} within {limit_s / 2:g} s"
    elif reached < fence:
        problem = f"the reader reached offset {reached} of {where} in {limit_s:g} s, not {fence}"
        if plan.workload.transactions:
            problem += "; an open transaction may prevent it from reading further"
    else:
        return PartitionRead(partition=partition, complete=True, times=times.sample(partition))
    return PartitionRead(partition=partition, complete=False, problem=problem)

"""Who writes and who reads while the faults happen, and the final read when they are over.

Producers send records of their own names round robin to every partition, each a process of the
history; consumers poll every partition from its beginning. Both go on through every fault: an error
is written down, never fatal.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Final, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from clusters.versions import release
from harness.clients import settings as clients
from harness.clients.final_read import PartitionRead, final_read
from harness.clients.sender import Answer, Sender
from harness.clients.tapes import ReadTape, SendTape, Tape
from harness.direct import DirectSender
from harness.errors import HarnessError
from harness.history import FAIL, INFO, OK, READ, RUN, SEND, record_value
from harness.plan import Plan
from harness.recorder import Recorder
from harness.store import Run

_POLL_S: Final = 0.05
_BURST: Final = 100
_CATCH_UP_S: Final = 1.0
_READ_AT_ONCE: Final = 5_000
_GRACE_S: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """A snapshot for a progress line; outcomes are up to 0.2 s behind what was sent."""

    sent: int
    ok: int
    fail: int
    info: int
    read: int


class Pace:
    """Says how many records are due, so that a rate is kept on average.

    After a stall it makes up for one second of the lost time, not for all of it.

    Args:
        rate: records per second; 0 is as fast as possible.
        clock: nanoseconds.
    """

    def __init__(self, rate: float, clock: Callable[[], int]) -> None:
        self._rate = rate
        self._clock = clock
        self._credit = 0.0
        self._last_ns = clock()

    def due(self) -> int:
        """How many to send now."""
        if self._rate <= 0:
            return _BURST
        now = self._clock()
        self._credit += (now - self._last_ns) * 1e-9 * self._rate
        self._last_ns = now
        whole = int(self._credit)
        self._credit -= whole
        return min(whole, max(1, int(self._rate * _CATCH_UP_S)))

    def wait_s(self) -> float:
        """How long until the next record is due."""
        return 0.0 if self._rate <= 0 else min((1.0 - self._credit) / self._rate, _POLL_S)


class ProducerLoop:
    """One producer: sends until told to stop, then waits for its answers. Runs in its own thread.

    Args:
        prefix: of its records' names, ``<prefix>-<sequence>``.
        tape: where it reports; used from this thread alone.
    """

    def __init__(
        self, settings: clients.Settings, plan: Plan, tape: Tape, prefix: str, pace: Pace
    ) -> None:
        self.sent = 0
        self._settings = settings
        self._plan = plan
        self._tape = tape
        self._prefix = prefix
        self._pace = pace
        self._client = Producer(settings)

    def run(self, stop: threading.Event, answer_limit_s: Callable[[], float]) -> None:
        """Send until ``stop`` is set; then wait so long at most for outstanding answers."""
        while not stop.is_set():
            self._send(self._pace.due(), stop)
            self._client.poll(self._pace.wait_s())
            self._tape.turn()
        self._drain(answer_limit_s())
        self._tape.close()

    def _send(self, size: int, stop: threading.Event) -> None:
        """Send a burst; a full queue is waited out, because such a record was never invoked."""
        topic, partitions = self._plan.topic.name, self._plan.topic.partitions
        record_bytes = self._plan.workload.record_bytes
        answered = self._tape.burst()
        for _ in range(size):
            value = record_value(f"{self._prefix}-{self.sent}", record_bytes)
            partition = self.sent % partitions
            while True:
                try:
                    self._client.produce(
                        topic,
                        value,
                        partition=partition,
                        on_delivery=partial(answered, self.sent),
                    )
                except BufferError:
                    if stop.is_set():
                        return
                    self._client.poll(_POLL_S)
                    self._tape.turn()
                    answered = self._tape.burst()
                except KafkaException as error:
                    self._refused(self.sent, value, partition, error.args[0])
                    break
                else:
                    break
            self.sent += 1

    def _refused(self, sequence: int, value: bytes, partition: int, error: KafkaError) -> None:
        """Record a local refusal; a client that refuses for ever (a fatal error) is replaced."""
        self._tape.refused(sequence, value, partition, error)
        if error.fatal() or error.code() == KafkaError._FATAL:  # noqa: SLF001 - its public name
            self._drain(0.0)
            self._client = Producer(self._settings)
        self._client.poll(_POLL_S)  # or a refusal that stays would fill the history

    def _drain(self, limit_s: float) -> None:
        """Wait for answers, then give up on the rest: each becomes a report that says so."""
        deadline = time.monotonic() + limit_s
        while len(self._client) and time.monotonic() < deadline:
            self._client.poll(_POLL_S)
            self._tape.turn()
        self._client.purge()
        self._client.flush(_GRACE_S)


class ConsumerLoop:
    """One reader of every partition. Runs in its own thread.

    A position beyond the log's end (the log was cut) moves to its end, by ``auto.offset.reset``, so
    that a truncation does not make it read everything again.
    """

    def __init__(
        self, settings: clients.Settings, plan: Plan, recorder: Recorder, process: str
    ) -> None:
        topic = plan.topic
        self._clock = recorder.clock
        self._tape = ReadTape(recorder, process=process, phase=RUN, topic=topic.name)
        self._log = settings["logger"]
        self._process = process
        self._client = Consumer(settings)
        self._client.assign([TopicPartition(topic.name, p, 0) for p in range(topic.partitions)])

    def run(self, stop: threading.Event) -> None:
        """Poll until ``stop`` is set."""
        try:
            while not stop.is_set():
                invoke_ns = self._clock()
                messages = self._client.consume(_READ_AT_ONCE, 2 * _POLL_S)
                for message in messages:
                    if (error := message.error()) is not None:
                        self._log.warning("%s: %s", self._process, error)
                self._tape.read([m for m in messages if m.error() is None], invoke_ns)
        finally:
            self._client.close()


class Workload:
    """The clients of one run. Start and stop it, or use it as a context manager.

    Args:
        plan: what to send and how.
        bootstrap: ``host:port,...`` of the brokers.
        recorder: where operations go.
        run: whose ``logs/clients.log`` has what the clients said.

    Attributes:
        direct: sends to named brokers, beside all others.
    """

    def __init__(self, plan: Plan, bootstrap: str, recorder: Recorder, run: Run) -> None:
        self._plan = plan
        self._bootstrap = bootstrap
        self._recorder = recorder
        self._log = clients.open_log(run.logs / "clients.log")
        self._stop = threading.Event()
        self._answer_limit_s = plan.workload.delivery_timeout_s + _GRACE_S
        self._producers: list[ProducerLoop] = []
        self._threads: list[threading.Thread] = []
        self._senders: dict[str, Sender] = {}
        self._senders_lock = threading.Lock()
        self.direct = DirectSender(plan, recorder)
        self._failure: BaseException | None = None

    def start(self) -> None:
        """Start every producer and consumer of the plan."""
        workload = self._plan.workload
        for index in range(workload.consumers):
            process = f"consumer-{index}"
            settings = clients.consumer(self._common(process), reset="latest")
            loop = ConsumerLoop(settings, self._plan, self._recorder, process)
            self._spawn(process, partial(loop.run, self._stop))
        for index in range(workload.producers):
            process = f"producer-{index}"
            tape = SendTape(
                self._recorder,
                process=process,
                topic=self._plan.topic,
                acks=workload.acks,
                prefix=f"p{index}",
            )
            settings = clients.producer(self._plan, self._common(process))
            pace = Pace(workload.rate / workload.producers, self._recorder.clock)
            producer = ProducerLoop(settings, self._plan, tape, f"p{index}", pace)
            self._producers.append(producer)
            self._spawn(process, partial(producer.run, self._stop, lambda: self._answer_limit_s))

    def stop(self, *, answer_limit_s: float | None = None) -> None:
        """Stop sending and reading, wait for outstanding answers, end every client.

        May be called twice. What is never answered is recorded as ``info`` without a completion.

        Args:
            answer_limit_s: how long to wait for answers; by default the delivery timeout and a
                little, within which each record has one. Less when the run is broken off.
        """
        if answer_limit_s is not None:
            self._answer_limit_s = answer_limit_s
        self._stop.set()
        deadline = time.monotonic() + self._answer_limit_s + 5 * _GRACE_S
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        stuck = [thread.name for thread in self._threads if thread.is_alive()]
        self._threads = []
        with self._senders_lock:
            for sender in self._senders.values():
                sender.close(limit_s=self._answer_limit_s)
        self.direct.close(limit_s=self._answer_limit_s)
        if stuck:
            raise HarnessError(
                f"{', '.join(stuck)} did not end within {self._answer_limit_s + 5 * _GRACE_S:g} s",
                hint="See logs/clients.log of the run.",
            )

    def check(self) -> None:
        """Go on if every client still runs and everything could be recorded.

        Raises:
            HarnessError: not so.
        """
        self._recorder.check()
        if self._failure is not None:
            raise HarnessError(f"a client thread died: {self._failure!r}") from self._failure

    def counts(self) -> Counts:
        """A cheap snapshot of what was done so far; fences count among outcomes, not as sent."""
        found = self._recorder.counts()
        ok, fail, info = (found.get((SEND, outcome), 0) for outcome in (OK, FAIL, INFO))
        with self._senders_lock:
            told = sum(sender.sent for sender in self._senders.values())
        sent = told + self.direct.sent + sum(producer.sent for producer in self._producers)
        return Counts(sent=sent, ok=ok, fail=fail, info=info, read=found.get((READ, OK), 0))

    def warm_up(self, *, acks: str | None = None, limit_s: float = 30.0) -> None:
        """Connect the client that ``send`` uses to every leader, so that its first ack is fast.

        Raises:
            WaitTimeoutError: some leader was not reached.
        """
        self._sender(acks or self._plan.workload.acks).warm_up(limit_s=limit_s)

    def send(
        self,
        value: str,
        partition: int = 0,
        *,
        acks: str | None = None,
        limit_s: float | None = None,
    ) -> Answer:
        """Send one record of that name and wait for its fate; process ``story`` of the history.

        Args:
            value: the record's name, its own in this run.
            partition: where to.
            acks: the plan's, unless told.
            limit_s: after this long without an answer it is ``info``; the delivery timeout, unless
                told. An answer that comes later is in the history all the same.
        """
        limit_s = self._answer_limit_s if limit_s is None else limit_s
        return self._sender(acks or self._plan.workload.acks).send(
            value, partition, limit_s=limit_s
        )

    def final_read(self, *, limit_s: float = 120.0) -> tuple[PartitionRead, ...]:
        """Fence every partition and read it whole; see ``harness.clients.final_read``."""
        fence = clients.producer(self._plan, self._common("fence"), acks="all")
        reader = clients.consumer(self._common("reader"), reset="error")
        return final_read(self._plan, self._recorder, fence, reader, limit_s=limit_s)

    def close(self) -> None:
        """Stop, and close the clients' log."""
        try:
            self.stop()
        finally:
            clients.close_log(self._log)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self._answer_limit_s = 0.0
        self.close()

    def _common(self, client_id: str) -> clients.Settings:
        quirks = release(self._plan.kafka).client
        return clients.common(self._bootstrap, client_id, self._log, quirks=quirks)

    def _sender(self, acks: str) -> Sender:
        with self._senders_lock:
            if acks not in self._senders:
                row = {"process": "story", "phase": RUN, "topic": self._plan.topic.name}
                settings = clients.producer(self._plan, self._common(f"story-{acks}"), acks=acks)
                size = self._plan.workload.record_bytes
                self._senders[acks] = Sender(self._recorder, settings, row, size=size)
            return self._senders[acks]

    def _spawn(self, name: str, loop: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                loop()
            except BaseException as error:  # noqa: BLE001 - check() raises it where it is heard
                self._failure = self._failure or error

        thread = threading.Thread(target=guarded, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

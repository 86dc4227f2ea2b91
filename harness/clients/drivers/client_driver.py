"""Clients in another process, in any language: client drivers (docs/driver.md).

A driver reads requests as JSON lines. The driver responds to each request once, in any order. A
driver has one producer, or one consumer. To crash the client, the harness kills the driver's
process.
"""

import itertools
import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from io import FileIO
from typing import Final, Literal, Protocol, TypeVar

import msgspec
from confluent_kafka import KafkaException

from highwater.harness.base.errors import HarnessError
from highwater.harness.clients.client_config import Settings
from highwater.harness.clients.drivers.driver_errors import DriverError
from highwater.harness.clients.libraries.library_producer import NO_NUMBER

PROTOCOL: Final = 1
Role = Literal["producer", "consumer"]
Result = TypeVar("Result")
OPENS_S: Final = 30.0
ENDED: Final = "DriverEnded"
SETTINGS: Final = (
    "isolation.level",
    *("bootstrap.servers", "client.id", "acks", "enable.idempotence", "compression.type"),
    *("message.timeout.ms", "request.timeout.ms", "linger.ms", "retries"),
    *("socket.timeout.ms", "retry.backoff.ms", "transactional.id", "transaction.timeout.ms"),
)
"""The settings that every driver gets, with librdkafka's names. ``retries`` is sent only if it is
0."""

OF_MEMBERS: Final = (
    "group.id",
    "group.protocol",
    "session.timeout.ms",
    "heartbeat.interval.ms",
)
"""The additional settings of a driver whose consumer joins a group."""


class DriverRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record that a driver has read.

    Attributes:
        value: None for a tombstone.
        epoch: leader epoch of the record; None if the library does not report it.
        timestamp_ms: 0 if the library does not report it.
    """

    partition: int
    offset: int
    value: str | None
    epoch: int | None = None
    key: str | None = None
    timestamp_ms: int = 0


class DriverAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A driver's response to the request with the same id, or an event in its consumer's group.

    Attributes:
        library: the library and its version, such as ``franz-go 1.20.7``; only for ``open``.
        offset: the record's offset, only for ``send``; None if the broker did not return it.
        error: the library's name of the error; empty if the request succeeded.
        code: Kafka's error code; -1 for an error of the client itself.
        queued: False if the record was certainly not sent.
        fatal: whether the producer cannot be used any more.
        again: whether the harness may send the same request again. The driver's client then
            continues the earlier call.
        records: the next records, only for ``poll``.
        out_of_range: partition to a position that is not in the log, only for ``poll``.
        first: the first offset of a partition's log, only for ``bounds``.
        end: the end offset of a partition's log for this reader, only for ``bounds``.
        offsets: the group's committed offsets by partition, only for ``committed``.
        member: only for ``member``: the group metadata that a producer of this driver sends with
            offsets, in the driver's own form.
        event: the kind of event; empty for a response. The driver numbers its events. After each
            event it waits for a request ``handled`` with the event's number.
        generation: the group's generation, or the member's epoch; 0 if it is not known.
    """

    id: int
    library: str = ""
    offset: int | None = None
    error: str = ""
    code: int = NO_NUMBER
    queued: bool = True
    fatal: bool = False
    again: bool = False
    message: str = ""
    records: tuple[DriverRecord, ...] = ()
    out_of_range: dict[int, int] = {}
    first: int = 0
    end: int = 0
    offsets: dict[int, int] = {}
    member: object = None
    event: Literal["", "assigned", "revoked", "lost"] = ""
    partitions: tuple[int, ...] = ()
    generation: int = 0

    def as_error(self) -> DriverError:
        """Return the response's error."""
        return DriverError(
            kind=self.error,
            message=self.message,
            number=self.code,
            queued=self.queued,
            ended=self.fatal,
            again=self.again,
        )


def given_settings(settings: Settings, *, member: bool = False, every: bool = False) -> Settings:
    """Return the settings that the harness sends to a driver.

    Args:
        member: whether the driver's consumer joins a group.
        every: whether to include settings that are not in the specification.
    """
    names = tuple(settings) if every else SETTINGS + OF_MEMBERS
    return {
        name: settings[name]
        for name in names
        if isinstance(settings.get(name), (str, int, float)) and (member or name not in OF_MEMBERS)
    }


class DriverProcess(Protocol):
    """A running driver. ``requests`` is its standard input."""

    requests: FileIO

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of the driver's standard output until its end. Then close the output."""

    def last_words(self) -> str:
        """Return the last line of the driver's standard error, or an empty text."""

    def kill(self) -> None:
        """Kill the driver. Never raises an error. A second call does nothing."""


class ClientDriver:
    """The requests to one driver, and the driver's responses. Threads can share this object.

    Attributes:
        broken: reason why the driver cannot be used any more; empty if it can be used.
        library: the driver's name of its library; empty until ``open`` has returned.
        happened: called with each event in the consumer's group, in another thread.
    """

    def __init__(self, process: DriverProcess) -> None:
        self.broken = ""
        self.library = ""
        self.happened: Callable[[DriverAnswer], None] | None = None
        self._ended = False
        self._process = process
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._waiting: dict[int, Callable[[DriverAnswer], None]] = {}
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        for work in (self._write, self._read):
            threading.Thread(target=work, name="client-driver", daemon=True).start()

    def ask(self, op: str, answered: Callable[[DriverAnswer], None], **words: object) -> None:
        """Send a request. Another thread passes the response to ``answered``."""
        with self._lock:
            number = next(self._numbers)
            if not self.broken:
                self._waiting[number] = answered
                self._lines.put(msgspec.json.encode({"id": number, "op": op, **words}))
                return
        answered(DriverAnswer(id=number, error=ENDED, message=self.broken, queued=False))

    def call(self, op: str, **words: object) -> "Future[DriverAnswer]":
        """Send a request. Return a Future of its response."""
        future: Future[DriverAnswer] = Future()
        self.ask(op, future.set_result, **words)
        return future

    def open(
        self,
        settings: Settings,
        role: Role = "producer",
        *,
        member: bool = False,
        every: bool = False,
    ) -> "Future[DriverAnswer]":
        """Open the producer or the consumer with the settings of ``given_settings``."""
        config = given_settings(settings, member=member, every=every)
        return self.call("open", protocol=PROTOCOL, role=role, config=config)

    def fulfil(
        self, op: str, result: Callable[[DriverAnswer], Result], **words: object
    ) -> "Future[Result]":
        """Send a request. Return a Future of ``result(response)``.

        Raises:
            HarnessError: the driver has ended by itself, or has broken its specification.
        """
        self.check()
        done: Future[Result] = Future()

        def answered(given: DriverAnswer) -> None:
            if given.error:
                done.set_exception(KafkaException(given.as_error()))
            else:
                done.set_result(result(given))

        self.ask(op, answered, **words)
        return done

    def check(self) -> None:
        """Raise an error if the driver cannot be used.

        Raises:
            HarnessError: the driver has ended by itself, or has broken its specification.
        """
        if self.broken and not self._ended:
            raise HarnessError(f"the client driver cannot be used: {self.broken}")

    def kill(self) -> None:
        """Kill the driver, as in a crash. Never raises an error. A second call does nothing."""
        self._ended = True
        self._fail("the harness ended the driver")

    def _write(self) -> None:
        """Write requests until the end, many at once: the driver may read slowly."""
        with self._process.requests:
            while True:
                lines = [self._lines.get()]
                while not self._lines.empty():
                    lines.append(self._lines.get())
                requests = [line for line in lines if line is not None]
                if len(requests) < len(lines):
                    return  # the harness ended the driver
                try:
                    _write_all(self._process.requests, b"\n".join([*requests, b""]))
                except (OSError, ValueError):  # the driver has ended, which ``_read`` finds
                    return

    def _read(self) -> None:
        why = ""
        for line in self._process.lines():
            why = self._take(line)
            if why:
                break
        if not why:
            last_line = self._process.last_words()
            why = f"the driver ended by itself. Its last error line is: {last_line or '(none)'}"
        self._fail(why)

    def _take(self, line: bytes) -> str:
        """Handle one line of the driver. Return an error text if it breaks the specification."""
        try:
            answer = msgspec.json.decode(line, type=DriverAnswer)
        except msgspec.MsgspecError as error:
            return f"not a response: {line[:80].decode('utf-8', 'replace')!r}: {error}"
        if answer.event:
            if self.happened is None:
                return f"the driver reports {answer.event} partitions, but is not in a group"
            self.happened(answer)
            return ""
        with self._lock:
            answered = self._waiting.pop(answer.id, None)
        if answered is None:
            return (
                f"the driver responded to request {answer.id}, which does not wait for a response"
            )
        answered(answer)
        return ""

    def _fail(self, why: str) -> None:
        with self._lock:
            self.broken = self.broken or why
            waiting, self._waiting = self._waiting, {}
        self._lines.put(None)
        self._process.kill()
        for number, answered in waiting.items():
            answered(DriverAnswer(id=number, error=ENDED, message=self.broken))


def _write_all(pipe: FileIO, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[pipe.write(view) or 0 :]


def opened(
    process: DriverProcess,
    settings: Settings,
    role: Role,
    *,
    member: bool = False,
    every: bool = False,
) -> ClientDriver:
    """Start a driver's client with the settings of ``given_settings``; return the driver.

    Raises:
        HarnessError: the driver did not open its client, or not in time.
    """
    driver = ClientDriver(process)
    try:
        answer = driver.open(settings, role, member=member, every=every).result(OPENS_S)
    except TimeoutError as late:
        driver.kill()
        raise HarnessError(f"the client driver did not respond within {OPENS_S:g} s") from late
    if answer.error:
        driver.kill()
        raise HarnessError(f"the client driver cannot open a {role}: {answer.as_error()}")
    driver.library = answer.library
    return driver

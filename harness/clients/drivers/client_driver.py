"""Producers in another process, in any language: client drivers (docs/driver.md).

A driver reads requests as JSON lines, and answers each of them once, in any order. It has one
producer. A crash of the client is the end of its process.
"""

import itertools
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from io import FileIO
from typing import Any, Final, NoReturn, Protocol

import msgspec
from confluent_kafka import KafkaException, TopicPartition

from highwater.harness.base.errors import HarnessError
from highwater.harness.clients.client_config import Settings
from highwater.harness.clients.libraries.library_producer import NO_NUMBER
from highwater.harness.clients.libraries.python_errors import PythonError
from highwater.harness.clients.libraries.python_producer import Answer, PythonClients

PROTOCOL: Final = 1
OPENS_S: Final = 30.0
ENDED: Final = "DriverEnded"
SETTINGS: Final = (
    *("bootstrap.servers", "client.id", "acks", "enable.idempotence", "compression.type"),
    *("message.timeout.ms", "request.timeout.ms", "linger.ms", "retries"),
)
"""The settings that a driver gets, by librdkafka's names; ``retries`` only if it is 0."""


class DriverAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A driver's answer to the request with the same id.

    Attributes:
        library: the library and its version, as in ``franz-go 1.20.7``; of ``open`` alone.
        offset: the record's offset, of ``send`` alone; None if the broker did not tell it.
        error: the library's name of the error; empty if the request succeeded.
        code: Kafka's number of the error; -1 if it is the client's own.
        queued: False if the record was certainly not sent.
        fatal: the producer cannot be used any more.
    """

    id: int
    library: str = ""
    offset: int | None = None
    error: str = ""
    code: int = NO_NUMBER
    queued: bool = True
    fatal: bool = False
    message: str = ""

    def as_error(self) -> PythonError:
        """Return the answer's error."""
        return PythonError(
            kind=self.error,
            message=self.message,
            number=self.code,
            queued=self.queued,
            ended=self.fatal,
        )


def given_settings(settings: Settings) -> Settings:
    """Return the settings that a driver gets."""
    return {name: settings[name] for name in SETTINGS if settings.get(name) is not None}


class DriverProcess(Protocol):
    """A running driver."""

    requests: FileIO

    def lines(self) -> Iterator[bytes]:
        """Return the lines of its standard output, until it has ended."""

    def last_words(self) -> str:
        """Return the last line of its standard error; empty if there is none."""

    def kill(self) -> None:
        """Kill it. Never raises; may be called twice."""


class ClientDriver:
    """The requests to one driver, and its answers. Safe to use from several threads.

    Attributes:
        broken: why the driver cannot be used any more; empty if it can.
    """

    def __init__(self, process: DriverProcess) -> None:
        self.broken = ""
        self._process = process
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._waiting: dict[int, Callable[[DriverAnswer], None]] = {}
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        for work in (self._write, self._read):
            threading.Thread(target=work, name="client-driver", daemon=True).start()

    def ask(self, op: str, answered: Callable[[DriverAnswer], None], **words: object) -> None:
        """Send a request; ``answered`` gets the answer in another thread."""
        with self._lock:
            number = next(self._numbers)
            if not self.broken:
                self._waiting[number] = answered
                self._lines.put(msgspec.json.encode({"id": number, "op": op, **words}))
                return
        answered(DriverAnswer(id=number, error=ENDED, message=self.broken, queued=False))

    def call(self, op: str, **words: object) -> "Future[DriverAnswer]":
        """Send a request; return its answer as a Future."""
        future: Future[DriverAnswer] = Future()
        self.ask(op, future.set_result, **words)
        return future

    def open(self, settings: Settings) -> "Future[DriverAnswer]":
        """Open the producer."""
        config = given_settings(settings)
        return self.call("open", protocol=PROTOCOL, role="producer", config=config)

    def kill(self) -> None:
        """End the driver as in a crash. Never raises; may be called twice."""
        self._fail("it was ended")

    def _write(self) -> None:
        """Write the requests, as many at a time as there are: a driver may read slowly."""
        while (line := self._lines.get()) is not None:
            lines = [line]
            while not self._lines.empty() and (more := self._lines.get()) is not None:
                lines.append(more)
            try:
                _write_all(self._process.requests, b"\n".join([*lines, b""]))
            except (OSError, ValueError):  # it has ended, which ``_read`` finds
                return

    def _read(self) -> None:
        why = ""
        for line in self._process.lines():
            why = self._take(line)
            if why:
                break
        if not why:
            last_line = self._process.last_words()
            why = f"it ended by itself, and said last: {last_line or 'nothing'}"
        self._fail(why)

    def _take(self, line: bytes) -> str:
        """Pass on an answer; return what is wrong with it."""
        try:
            answer = msgspec.json.decode(line, type=DriverAnswer)
        except msgspec.MsgspecError as error:
            return f"its line {line[:80].decode('utf-8', 'replace')!r} is no answer: {error}"
        with self._lock:
            answered = self._waiting.pop(answer.id, None)
        if answered is None:
            return f"it answered request {answer.id}, which does not wait for an answer"
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


class _Producer:
    """A driver's producer, as a client that works in its own thread."""

    def __init__(self, settings: Settings, process: DriverProcess) -> None:
        self._driver = ClientDriver(process)
        self._ended = False
        try:
            answer = self._driver.open(settings).result(OPENS_S)
        except TimeoutError as late:
            self.end()
            raise HarnessError(f"the client driver did not answer within {OPENS_S:g} s") from late
        if answer.error:
            self.end()
            raise HarnessError(f"the client driver opens no producer: {answer.as_error()}")

    def send(self, topic: str, value: bytes, partition: int, answer: Answer) -> None:
        if self._driver.broken and not self._ended:
            raise HarnessError(f"the client driver cannot be used: {self._driver.broken}")

        def answered(given: DriverAnswer) -> None:
            if given.error:
                answer(given.as_error(), None)
            else:
                answer(None, given.offset)

        text = value.decode()
        self._driver.ask("send", answered, topic=topic, partition=partition, value=text)

    def call(self, method: str, *words: object) -> Future[object]:
        if method != "partitions_for":
            raise HarnessError(f"a client driver has no {method}")
        done: Future[object] = Future()

        def answered(given: DriverAnswer) -> None:
            if given.error:
                done.set_exception(KafkaException(given.as_error()))
            else:
                done.set_result(None)

        self._driver.ask("reach", answered, topic=words[0])
        return done

    def offsets(self, _: Iterable[TopicPartition]) -> NoReturn:
        raise HarnessError("a client driver has no transactions")

    def end(self) -> None:
        self._ended = True
        self._driver.kill()


def driver_clients(start: Callable[[], DriverProcess]) -> PythonClients:
    """Return the clients of a driver; each has a process of its own.

    Args:
        start: starts a process.
    """

    def no_consumer(*_: Any) -> NoReturn:  # noqa: ANN401 - a consumer's settings
        raise HarnessError("a client driver has no consumers")

    return PythonClients(lambda settings: _Producer(settings, start()), no_consumer)

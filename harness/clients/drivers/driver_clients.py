"""A client driver's producers and consumers, as clients of a library."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Final, NoReturn

from confluent_kafka import KafkaException, TopicPartition

from highwater.harness.base.errors import HarnessError
from highwater.harness.clients.drivers.client_driver import (
    ClientDriver,
    DriverAnswer,
    DriverProcess,
    opened,
)
from highwater.harness.clients.libraries.consumers.python_consumer import Events, Polled
from highwater.harness.clients.libraries.consumers.read_message import ReadMessage, stranded
from highwater.harness.clients.libraries.python_producer import Answer, PythonClients

_OPS: Final = {
    "partitions_for": "reach",
    "init_transactions": "init",
    "begin_transaction": "begin",
    "commit_transaction": "commit",
    "abort_transaction": "abort",
}
"""The requests for the calls of a producer."""


class _Producer:
    """A driver's producer."""

    def __init__(self, driver: ClientDriver) -> None:
        self._driver = driver
        self.end = driver.kill

    def send(self, topic: str, value: bytes, partition: int, answer: Answer) -> None:
        self._driver.check()

        def answered(given: DriverAnswer) -> None:
            if given.error:
                answer(given.as_error(), None)
            else:
                answer(None, given.offset)

        text = value.decode()
        self._driver.ask("send", answered, topic=topic, partition=partition, value=text)

    def call(self, method: str, *words: object) -> Future[object]:
        topic = {"topic": words[0]} if words else {}
        return self._driver.fulfil(_OPS[method], lambda _: None, **topic)

    def offsets(self, _: Iterable[TopicPartition]) -> NoReturn:
        raise HarnessError("a client driver commits no offsets in transactions")


class _Consumer:
    """A driver's consumer, which reads partitions, and joins no group.

    Args:
        post: called with the result of every poll.
    """

    def __init__(self, driver: ClientDriver, post: Callable[[Polled], None]) -> None:
        self._driver, self._post = driver, post
        self._topic = ""
        self._seeks: dict[int, int] = defaultdict(int)
        self.crash = driver.kill

    def assign(self, topic: str, _: list[int]) -> None:
        self._topic = topic  # a seek follows, with the offsets

    def poll(self, most: int, wait_s: float) -> None:
        self._driver.check()
        self._driver.ask("poll", self._polled, max=most, wait_ms=int(wait_s * 1000))

    def _polled(self, given: DriverAnswer) -> None:
        raised = KafkaException(given.as_error()) if given.error else None
        messages = [stranded(*place, "out of range") for place in given.out_of_range.items()]
        messages += [
            ReadMessage(
                record.partition, record.offset, record.value.encode(), leader_epoch=record.epoch
            )
            for record in given.records
        ]
        self._post(Polled(messages=messages, raised=raised, seeks=dict(self._seeks)))

    def seek(self, offsets: Mapping[int, int]) -> Future[None]:
        def count(_: DriverAnswer) -> None:
            for partition in offsets:
                self._seeks[partition] += 1

        return self._driver.fulfil("seek", count, topic=self._topic, offsets=offsets)

    def bounds(self, topic: str, partition: int) -> Future[tuple[int, int]]:
        return self._driver.fulfil(
            "bounds", lambda given: (given.first, given.end), topic=topic, partition=partition
        )

    def leave(self) -> Future[None]:
        left: Future[None] = Future()
        left.set_result(None)
        return left

    def epoch(self) -> int:
        return 0

    def subscribe(self, topic: str, events: Events) -> NoReturn:
        raise HarnessError(f"a client driver joins no group of {topic} ({events})")

    def committed(self, partitions: list[int]) -> NoReturn:
        raise HarnessError(f"a client driver has no group's offsets of {partitions}")

    def commit(self, offsets: Mapping[int, int]) -> NoReturn:
        raise HarnessError(f"a client driver commits no offsets: {offsets}")

    def group_metadata(self) -> NoReturn:
        raise HarnessError("a client driver is in no group")


def driver_clients(start: Callable[[], DriverProcess]) -> PythonClients:
    """Return the clients of a driver; each has a process of its own.

    Args:
        start: starts a process.
    """
    return PythonClients(
        lambda settings: _Producer(opened(start(), settings, "producer")),
        lambda settings, post: _Consumer(opened(start(), settings, "consumer"), post),
    )

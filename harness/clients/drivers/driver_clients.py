"""A client driver's producers and consumers, as clients of a library."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaException, TopicPartition

from highwater.harness.base.errors import HarnessError
from highwater.harness.clients.drivers.client_driver import (
    OPENS_S,
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
    "send_offsets_to_transaction": "offsets",
    "commit_transaction": "commit",
    "abort_transaction": "abort",
}
"""The requests for the calls of a producer."""

_Result = TypeVar("_Result")


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

    def call(self, method: str, *words: Any) -> Future[object]:  # noqa: ANN401 - of the methods
        match words:
            case (offsets, member):
                named = {**offsets, "member": member}
            case (topic,):
                named = {"topic": topic}
            case _:
                named = {}
        return self._driver.fulfil(_OPS[method], lambda _: None, **named)

    def offsets(self, places: Iterable[TopicPartition]) -> dict[str, object]:
        [topic] = {place.topic for place in places}
        return {"topic": topic, "offsets": {place.partition: place.offset for place in places}}


class _Consumer:
    """A driver's consumer. Its process starts when it is known whether it joins a group.

    Args:
        opens: opens the consumer; True if it is going to join the settings' group.
        post: called with the result of every poll.
    """

    def __init__(
        self, opens: Callable[[bool], ClientDriver], post: Callable[[Polled], None]
    ) -> None:
        self._opens, self._post = opens, post
        self._open: ClientDriver | None = None
        self._topic = ""
        self._seeks: dict[int, int] = defaultdict(int)
        self._generation = 0

    @property
    def _driver(self) -> ClientDriver:
        if self._open is None:
            self._open = self._opens(False)
        return self._open

    def assign(self, topic: str, _: list[int]) -> None:
        self._topic = topic  # a seek follows, with the offsets

    def subscribe(self, topic: str, events: Events) -> None:
        def happened(given: DriverAnswer) -> None:
            self._generation = given.generation or self._generation
            served = events(given.event, list(given.partitions))
            served.add_done_callback(
                lambda _: driver.ask("handled", lambda _: None, event=given.id)
            )

        self._topic = topic
        self._open = driver = self._opens(True)
        driver.happened = happened
        _needed("joins no group", driver.fulfil("subscribe", lambda _: None, topic=topic))

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

    def committed(self, partitions: list[int]) -> Future[dict[int, int]]:
        return self._driver.fulfil(
            "committed", lambda given: given.offsets, topic=self._topic, partitions=partitions
        )

    def commit(self, offsets: Mapping[int, int]) -> Future[None]:
        return self._driver.fulfil("commit", lambda _: None, topic=self._topic, offsets=offsets)

    def epoch(self) -> int:
        return self._generation

    def group_metadata(self) -> object:
        asked_for = self._driver.fulfil("member", lambda given: given.member)
        return _needed("commits no offsets in transactions", asked_for)

    def leave(self) -> Future[None]:
        if self._open is not None:
            return self._open.fulfil("close", lambda _: None)
        left: Future[None] = Future()
        left.set_result(None)
        return left

    def crash(self) -> None:
        if self._open is not None:
            self._open.kill()


def _needed(without: str, future: Future[_Result]) -> _Result:
    """Return the result of a call without which the run cannot go on."""
    try:
        return future.result(OPENS_S)
    except (KafkaException, TimeoutError) as why:
        raise HarnessError(f"the client driver {without}: {why}") from why


def driver_clients(start: Callable[[], DriverProcess]) -> PythonClients:
    """Return the clients of a driver; each has a process of its own.

    Args:
        start: starts a process.
    """
    return PythonClients(
        lambda settings: _Producer(opened(start(), settings, "producer")),
        lambda settings, post: _Consumer(
            lambda member: opened(start(), settings, "consumer", member=member), post
        ),
    )

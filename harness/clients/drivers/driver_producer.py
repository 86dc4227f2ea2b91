"""A client driver's producer, with librdkafka's methods.

The driver's thread receives responses. The responses wait until ``poll`` handles them. So the
recorded interval of a send may be longer than the real interval, but never shorter.
"""

import weakref
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, Final

from confluent_kafka import KafkaException

from highwater.harness.base.errors import WaitTimeoutError
from highwater.harness.clients.drivers.client_driver import ClientDriver, DriverAnswer
from highwater.harness.clients.drivers.driver_errors import DriverError, as_error
from highwater.harness.clients.libraries.answers import Mailbox, WaitingRecord
from highwater.harness.clients.libraries.interfaces import OnDelivery
from highwater.harness.clients.libraries.library_producer import GAVE_UP, SLOW, LibraryProducer

_QUEUE_RECORDS: Final = 2_000
_OPS: Final = {
    "init_transactions": "init",
    "begin_transaction": "begin",
    "send_offsets_to_transaction": "offsets",
    "commit_transaction": "commit",
    "abort_transaction": "abort",
}
"""The name of the driver's request for each method of a producer."""


class DriverProducer(LibraryProducer):
    """A driver's producer. Not thread-safe. ``poll`` and ``flush`` call the callbacks.

    When the last reference to this object is deleted, the driver exits, like librdkafka's client.
    """

    def __init__(self, driver: ClientDriver) -> None:
        super().__init__()
        weakref.finalize(self, driver.kill).atexit = False
        self._driver = driver
        self._mailbox = Mailbox()
        self._fatal: list[DriverError] = []

    def __len__(self) -> int:
        return len(self._mailbox)

    def produce(self, topic: str, value: bytes, *, partition: int, on_delivery: OnDelivery) -> None:
        """Queue a record.

        Raises:
            BufferError: the queue is full. The caller must call ``poll``, and try again.
            KafkaException: a fatal error of an earlier record ended the producer. The argument is
                that error.
            HarnessError: the driver cannot be used.
        """
        if len(self._mailbox) >= _QUEUE_RECORDS:
            raise BufferError("the producer's queue is full: too many records wait for a response")
        self._driver.check()
        if self._fatal:
            raise KafkaException(replace(self._fatal[0], queued=False))
        mailbox, fatal = self._mailbox, self._fatal
        number = mailbox.expect(
            WaitingRecord(partition=partition, value=value, on_delivery=on_delivery)
        )

        def answered(given: DriverAnswer) -> None:
            error = given.as_error() if given.error else None
            if error is not None and error.fatal():
                fatal.append(error)
            mailbox.answer(number, error, given.offset)

        text = value.decode()
        self._driver.ask("send", answered, topic=topic, partition=partition, value=text)

    def poll(self, timeout: float = -1) -> int:
        """Wait for callbacks, and call them; return their number."""
        return self._mailbox.serve(timeout)

    def purge(self) -> None:
        """Kill the client, and report every record without a response as abandoned."""
        self._mailbox.give_up(DriverError(kind=GAVE_UP))
        self._driver.kill()

    def reach(self, topic: str, *, limit_s: float) -> None:
        """Request a topic's partitions. The client connects to leaders later."""
        try:
            self._driver.fulfil("reach", lambda _: None, topic=topic).result(limit_s)
        except Exception as raised:
            raise WaitTimeoutError(
                f"the producer cannot get the partitions of {topic}: {raised!r}"
            ) from raised

    def drop(self) -> None:
        """Kill the producer, as in a crash. Its coordinator gets no request."""
        self._driver.kill()

    close = drop

    def _begin(self, method: str, *words: Any) -> Future[object]:  # noqa: ANN401 - of ``_within``
        named: dict[str, object] = {}
        if words:
            places, member = words
            [topic] = {place.topic for place in places}
            offsets = {place.partition: place.offset for place in places}
            named = {"topic": topic, "offsets": offsets, "member": member}
        return self._driver.fulfil(_OPS[method], lambda _: None, **named)

    def _failed(self, raised: Exception) -> KafkaException:
        return KafkaException(as_error(raised))

    def _slow(self, message: str) -> DriverError:
        return DriverError(kind=SLOW, message=message, again=True)

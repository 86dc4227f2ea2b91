"""Kafka's own Java clients as a library of clients: ``KafkaProducer`` with librdkafka's methods.

``send`` returns a Future. ``poll`` checks whether the oldest Future of each partition is done. So
the recorded interval of a send may be longer than the real interval, but never shorter.
"""

import contextlib
import math
import threading
import time
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaException, TopicPartition
from py4j.protocol import Py4JError, Py4JJavaError

from highwater.harness.base.errors import WaitTimeoutError
from highwater.harness.base.waiting import await_condition
from highwater.harness.clients.client_config import Settings
from highwater.harness.clients.libraries import java_settings
from highwater.harness.clients.libraries.answers import AnsweredRecord
from highwater.harness.clients.libraries.consumers.in_thread import in_thread
from highwater.harness.clients.libraries.consumers.java_callbacks import CallbackGateway
from highwater.harness.clients.libraries.consumers.java_consumer import JavaConsumer
from highwater.harness.clients.libraries.consumers.java_share_consumer import JavaShareConsumer
from highwater.harness.clients.libraries.interfaces import OnDelivery
from highwater.harness.clients.libraries.java_errors import JavaError, JavaOutcomes
from highwater.harness.clients.libraries.java_gateway import JavaMembership, KafkaGateway
from highwater.harness.clients.libraries.library_producer import GAVE_UP, SLOW, LibraryProducer

_LOOK_S: Final = 0.002
_QUEUE_RECORDS: Final = 2_000
_FAILED: Final = "FutureFailure"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Waiting:
    future: Any
    value: bytes
    on_delivery: OnDelivery


class JavaProducer(LibraryProducer):
    """A ``KafkaProducer``. Not thread-safe. ``poll`` and ``flush`` call the callbacks."""

    def __init__(self, gateway: KafkaGateway, settings: Settings) -> None:
        self._gateway = gateway
        self._java = gateway.producer(java_settings.producer(settings, gateway.release))
        self._waiting: dict[int, deque[_Waiting]] = {}
        self._size = 0
        super().__init__()

    def __len__(self) -> int:
        return self._size

    def produce(self, topic: str, value: bytes, *, partition: int, on_delivery: OnDelivery) -> None:
        """Queue a record. This call may last up to ``max.block.ms``."""
        if self._size >= _QUEUE_RECORDS:
            raise BufferError("the producer's queue is full: too many records wait for a response")
        try:
            record = self._gateway.record(topic, partition, None, value)
            future = self._java.send(record)
            self._gateway.forget(record)
        except Py4JError as raised:
            raise self._gateway.refusal(raised, queued=False) from raised
        waiting = _Waiting(future=future, value=value, on_delivery=on_delivery)
        self._waiting.setdefault(partition, deque()).append(waiting)
        self._size += 1

    def poll(self, timeout: float = -1) -> int:
        """Wait for the first callback; call all callbacks that are due; return their number."""
        with contextlib.suppress(WaitTimeoutError):
            return await_condition(
                self._serve,
                bool,
                what="a response about a record",
                limit_s=timeout if timeout >= 0 else math.inf,
                every_s=_LOOK_S,
            )
        return 0

    def trust_flush(self, timeout: float) -> bool:
        """Call Java's own flush. Then report every record as acknowledged.

        Java's documentation promises that all earlier records are then completed. So this method,
        like a program that trusts this, does not look at their Futures.
        """
        try:
            self._within("flush", timeout)
        except KafkaException as raised:
            if raised.args[0].name() != SLOW:
                raise
            return False
        for partition, waiting in self._waiting.items():
            while waiting:
                self._report(partition, waiting.popleft(), None)
        return True

    def purge(self) -> None:
        """Close the producer, and report every record without a response as abandoned."""
        self._serve()
        self._gateway.close_now(self._java)
        for partition, waiting in self._waiting.items():
            while waiting:
                self._report(partition, waiting.popleft(), JavaError(classes=(GAVE_UP,)))

    def reach(self, topic: str, *, limit_s: float) -> None:
        """Request a topic's partitions. The client connects to leaders later.

        The call has Java's own limit, ``max.block.ms``. It is repeated until ``limit_s``.
        """
        deadline = time.monotonic() + limit_s
        while True:
            try:
                self._gateway.forget(self._java.partitionsFor(topic))
            except Py4JError as raised:
                error: JavaError = self._gateway.refusal(raised).args[0]
                if error.retriable() and time.monotonic() < deadline:
                    continue
                raise WaitTimeoutError(
                    f"Java's producer cannot get the partitions of {topic}: {error}"
                ) from raised
            return

    def drop(self) -> None:
        """Close the producer as in a crash. Its coordinator gets no request."""
        self._gateway.close_now(self._java)

    close = drop

    def _send_offsets(self, offsets: list[TopicPartition], group: JavaMembership) -> None:
        places, member = self._gateway.offsets(offsets), self._gateway.membership(group)
        self._java.sendOffsetsToTransaction(places, member)
        self._gateway.forget(places)

    def _begin(self, method: str, *words: Any) -> Future[object]:  # noqa: ANN401 - see ``_send_offsets``
        first, *rest = method.split("_")
        name = first + "".join(map(str.title, rest))
        call = partial(self._send_offsets, *words) if words else getattr(self._java, name)
        return in_thread(f"java-{name}", call)

    def _failed(self, raised: Exception) -> KafkaException:
        if not isinstance(raised, Py4JError):
            raise raised
        return self._gateway.refusal(raised)

    def _slow(self, message: str) -> JavaError:
        return JavaError(classes=(SLOW,), message=message)

    def _serve(self) -> int:
        try:
            return sum(
                self._serve_partition(partition, waiting)
                for partition, waiting in self._waiting.items()
            )
        except Py4JError as raised:
            raise self._gateway.refusal(raised) from raised

    def _serve_partition(self, partition: int, waiting: deque[_Waiting]) -> int:
        served = 0
        while waiting and waiting[0].future.isDone():
            answered = waiting.popleft()
            served += 1
            try:
                metadata = answered.future.get()
                offset = metadata.offset()
            except Py4JJavaError as raised:
                queued = answered.future.getClass().getSimpleName() != _FAILED
                error = self._gateway.error_of(raised.java_exception, queued=queued)
                self._report(partition, answered, error)
            else:
                self._gateway.forget(metadata, answered.future)
                self._report(partition, answered, None, offset)
        return served

    def _report(
        self, partition: int, sent: _Waiting, error: JavaError | None, offset: int | None = None
    ) -> None:
        self._size -= 1
        sent.on_delivery(error, AnsweredRecord(at=partition, place=offset, content=sent.value))


class JavaClients:
    """Kafka's Java clients of one release, in one JVM."""

    outcomes: Final = JavaOutcomes()

    def __init__(self, gateway: KafkaGateway) -> None:
        self._gateway = gateway
        self._opening = threading.Lock()
        self._callbacks: CallbackGateway | None = None

    def producer(self, settings: Settings) -> JavaProducer:
        """Open a producer of single records or of transactions."""
        return JavaProducer(self._gateway, settings)

    single = producer

    def consumer(self, settings: Settings) -> JavaConsumer:
        """Open a consumer."""
        return JavaConsumer(self.with_callbacks(), settings)

    def share_consumer(self, settings: Settings) -> JavaShareConsumer:
        """Open a member of a share group."""
        return JavaShareConsumer(self.with_callbacks(), settings)

    def with_callbacks(self) -> CallbackGateway:
        """Return the gateway for consumers; open it at the first call."""
        with self._opening:
            if self._callbacks is None:
                self._callbacks = CallbackGateway(self._gateway)
        return self._callbacks

    def close(self) -> None:
        """Close the connections to the JVM."""
        if self._callbacks is not None:
            self._callbacks.close()
        self._gateway.close()

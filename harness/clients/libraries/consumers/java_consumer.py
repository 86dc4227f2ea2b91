"""Kafka's own Java consumer, with librdkafka's methods.

As in an application, Java calls a member's listener within a poll, in the polling thread. If the
listener commits when partitions are revoked, the commit ends before the rebalance continues.
"""

import contextlib
import re
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from confluent_kafka import KafkaException, TopicPartition
from py4j.protocol import Py4JError, Py4JJavaError

from highwater.harness.clients.client_config import Settings
from highwater.harness.clients.libraries import java_settings
from highwater.harness.clients.libraries.consumers.buffered_consumer import (
    CALM_S,
    WAITS_S,
    BufferedConsumer,
)
from highwater.harness.clients.libraries.consumers.java_callbacks import (
    DURATIONS,
    CallbackGateway,
    JavaCallback,
    interfaces,
)
from highwater.harness.clients.libraries.consumers.java_records import parse
from highwater.harness.clients.libraries.consumers.read_message import ReadMessage, stranded
from highwater.harness.clients.libraries.interfaces import OnPartitions
from highwater.harness.clients.libraries.java_gateway import FENCES_MEMBERS, JavaMembership
from highwater.harness.releases.group_protocols import CONSUMER

STAYS: Final = (4, 1)
"""The first release in which a closed member of a classic group can stay in the group (KIP-1092).
"""

_BOUNDS: Final = (0, 10, 1)
"""The first release in which a consumer reports the first and the end offset of a log (KIP-79)."""

_OUT: Final = frozenset({"OffsetOutOfRangeException"})
_WOKEN: Final = "WakeupException"
_TRUNCATED: Final = "LogTruncationException"
_PLACE: Final = re.compile(r"-(\d+)(?=[,\]])")
_OFFSET: Final = re.compile(r"-(\d+)=(?:OffsetAndMetadata\{offset=)?(\d+)")


class JavaConsumer(BufferedConsumer):
    """A ``KafkaConsumer`` for one topic. Not thread-safe."""

    def __init__(self, gateway: CallbackGateway, settings: Settings) -> None:
        super().__init__()
        self._gateway = gateway
        self._group = settings["group.id"]
        self._by_brokers = settings.get("group.protocol") == CONSUMER
        self._answered = settings.get("on_commit")
        self._java = gateway.consumer(java_settings.consumer(settings))
        self._listener: _Listener | None = None
        self._places: dict[int, Any] = {}

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Read these partitions from these offsets. A group member keeps its other partitions."""
        if self._listener is None:
            self._call(self._java.assign, self._gateway.list(map(self._place, partitions)))
        for place in partitions:
            if place.offset >= 0:
                self.seek(place)

    def subscribe(
        self,
        topics: list[str],
        *,
        on_assign: OnPartitions,
        on_revoke: OnPartitions,
        on_lost: OnPartitions,
    ) -> None:
        """Join the group that the settings name."""
        [topic] = topics

        def give_up(callback: OnPartitions, numbers: list[int]) -> None:
            self._drop_read(numbers)
            if numbers:  # Java also calls the listener without partitions
                callback(self, [TopicPartition(topic, number) for number in numbers])

        def committed(offsets: dict[int, int], exception: Any) -> None:  # noqa: ANN401 - of Java
            error = None if exception is None else self._gateway.error_of(exception)
            if self._answered is not None:
                self._answered(error, [TopicPartition(topic, *place) for place in offsets.items()])

        self._listener = _Listener(
            assigned=lambda numbers: on_assign(self, [TopicPartition(topic, n) for n in numbers]),
            revoked=lambda numbers: give_up(on_revoke, numbers),
            lost=lambda numbers: give_up(on_lost, numbers),
            committed=committed,
        )
        self._call(self._java.subscribe, self._gateway.list(topics), self._listener)

    def _fill(self, most: int, timeout: float) -> None:
        del most  # the consumer's settings limit the number of records
        messages = self._poll(timeout)  # this first line: a poll may revoke partitions
        self._read.extend(messages)

    def seek(self, partition: TopicPartition) -> None:
        """Continue to read at another offset."""
        self._call(self._java.seek, self._place(partition), partition.offset)
        self._drop_read([partition.partition])

    def committed(self, partitions: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        """Return the group's committed offsets; -1 for a partition without a committed offset."""
        places = self._gateway.set(map(self._place, partitions))
        answer = self._call(self._java.committed, places, self._gateway.duration(timeout))
        offsets = _offsets(answer)
        self._gateway.forget(places, answer)
        return [
            TopicPartition(place.topic, place.partition, offsets.get(place.partition, -1))
            for place in partitions
        ]

    def _commit(self, offsets: list[TopicPartition], *, asynchronous: bool) -> None:
        places = self._gateway.offsets(offsets)
        try:
            if asynchronous:
                self._call(self._java.commitAsync, places, self._listener)
            else:
                self._call(self._java.commitSync, places, self._gateway.duration(WAITS_S))
        finally:
            self._gateway.forget(places)

    def get_watermark_offsets(self, partition: TopicPartition, timeout: float) -> tuple[int, int]:
        """Return a partition's first offset, and the end offset for this isolation level."""
        place = self._place(partition)
        if self._gateway.release < _BOUNDS:
            return self._edge("seekToBeginning", place), self._edge("seekToEnd", place)
        places = self._gateway.list([place])
        limit = [self._gateway.duration(timeout)] if self._gateway.release >= DURATIONS else []
        first = self._call(self._java.beginningOffsets, places, *limit)
        last = self._call(self._java.endOffsets, places, *limit)
        bounds = int(first.get(place)), int(last.get(place))
        self._gateway.forget(places, first, last)
        return bounds

    def consumer_group_metadata(self) -> JavaMembership:
        """Return the group's metadata."""
        if self._gateway.release < FENCES_MEMBERS:
            return JavaMembership(group=self._group, generation=-1, member="")
        metadata = self._call(self._java.groupMetadata)
        generation, member = int(metadata.generationId()), str(metadata.memberId())
        self._gateway.forget(metadata)
        return JavaMembership(group=self._group, generation=generation, member=member)

    def epoch(self) -> int | None:
        """Return the generation of a classic group, or the member's epoch; None if unknown."""
        epoch = self.consumer_group_metadata().generation
        return epoch if epoch > 0 else None

    def close(self) -> None:
        """Leave the group, if the consumer is a member, and close the consumer."""
        by_hand = self._gateway.release < STAYS and not self._by_brokers
        if self._listener is not None and by_hand:
            with contextlib.suppress(Py4JError):  # the coordinator does not respond
                self._java.unsubscribe()
        self._end(WAITS_S)

    def drop(self) -> None:
        """Close the consumer as in a crash. The group gets no request."""
        if self._listener is not None:
            self._listener.deaf = True
            if self._by_brokers:
                with contextlib.suppress(
                    KafkaException
                ):  # the group has already removed the member
                    self._call(self._gateway.silence, self._java)
            elif self._gateway.release >= STAYS:
                self._call(self._gateway.close_as_member, self._java)
        self._end(0)

    def _end(self, limit_s: float) -> None:
        with contextlib.suppress(Py4JError):  # the JVM or the consumer has already ended
            self._gateway.close_within(self._java, limit_s)
            self._gateway.forget(self._java, *self._places.values())
        if self._listener is not None:
            self._gateway.forget_proxy(self._listener)
            self._listener.raise_again()

    def _poll(self, wait_s: float) -> list[ReadMessage]:
        try:
            text = self._polled(wait_s)
        except Py4JJavaError as raised:
            self._raise_again()
            messages = self._failed(raised.java_exception)
            time.sleep(CALM_S)
            return messages
        except Py4JError as raised:
            raise self._gateway.refusal(raised) from raised
        self._raise_again()
        return parse(text)

    def _polled(self, wait_s: float) -> str:
        if self._gateway.release >= DURATIONS:
            records = self._java.poll(self._gateway.duration(wait_s))
        else:
            with self._woken_after(wait_s + WAITS_S):
                records = self._java.poll(int(wait_s * 1000))
        text = "[]" if records.isEmpty() else self._gateway.text_of_all(records)
        self._gateway.forget(records)
        return text

    def _raise_again(self) -> None:
        if self._listener is not None:
            self._listener.raise_again()

    def _failed(self, exception: Any) -> list[ReadMessage]:  # noqa: ANN401 - of Java
        """Return a poll's errors: one for each partition whose position is out of range.

        If the log was truncated below a position, the error contains the offset at which the logs
        diverge (KIP-320). The reader continues there.
        """
        error = self._gateway.error_of(exception)
        if error.name() == _WOKEN:
            return []
        if not error.among(_OUT):
            return [ReadMessage(None, None, error=error)]
        positions = _offsets(exception.offsetOutOfRangePartitions())
        if error.name() == _TRUNCATED:
            positions |= _offsets(exception.divergentOffsets())
        return [stranded(*place, str(error)) for place in positions.items()]

    @contextlib.contextmanager
    def _woken_after(self, limit_s: float) -> Iterator[None]:
        """Interrupt the block's Java call after a limit. Old releases have no timeouts."""
        timer = threading.Timer(limit_s, self._java.wakeup)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _edge(self, seek: str, place: Any) -> int:  # noqa: ANN401 - of Java
        places = self._gateway.list([place])
        with self._woken_after(WAITS_S):
            self._call(getattr(self._java, seek), places)
            return int(self._call(self._java.position, place))

    def _call(self, method: Callable[..., Any], *words: Any) -> Any:  # noqa: ANN401 - of Java
        try:
            return method(*words)
        except Py4JError as raised:
            raise self._gateway.refusal(raised) from raised

    def _place(self, place: TopicPartition) -> Any:  # noqa: ANN401 - of Java
        if place.partition not in self._places:
            self._places[place.partition] = self._gateway.partition(place.topic, place.partition)
        return self._places[place.partition]


class _Listener(JavaCallback):
    """The callbacks that Java calls for a group's assignments and for responses to commits."""

    Java = interfaces(
        "org.apache.kafka.clients.consumer.ConsumerRebalanceListener",
        "org.apache.kafka.clients.consumer.OffsetCommitCallback",
    )

    def __init__(
        self,
        *,
        assigned: Callable[[list[int]], None],
        revoked: Callable[[list[int]], None],
        lost: Callable[[list[int]], None],
        committed: Callable[[dict[int, int], Any], None],
    ) -> None:
        super().__init__()
        self._assigned = assigned
        self._revoked = revoked
        self._lost = lost
        self._committed = committed

    def onPartitionsAssigned(self, partitions: Any) -> None:  # noqa: N802, ANN401 - of Java
        self.serve(lambda: self._assigned(_numbers(partitions)))

    def onPartitionsRevoked(self, partitions: Any) -> None:  # noqa: N802, ANN401 - of Java
        self.serve(lambda: self._revoked(_numbers(partitions)))

    def onPartitionsLost(self, partitions: Any) -> None:  # noqa: N802, ANN401 - of Java
        self.serve(lambda: self._lost(_numbers(partitions)))

    def onComplete(self, offsets: Any, exception: Any) -> None:  # noqa: N802, ANN401 - of Java
        self.serve(lambda: self._committed(_offsets(offsets), exception))


def _numbers(partitions: Any) -> list[int]:  # noqa: ANN401 - of Java
    return [int(number) for number in _PLACE.findall(partitions.toString())]


def _offsets(places: Any) -> dict[int, int]:  # noqa: ANN401 - of Java
    """Return partition -> offset of a Java map. Leave out partitions without an offset."""
    return {int(number): int(offset) for number, offset in _OFFSET.findall(places.toString())}

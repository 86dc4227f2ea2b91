"""A reader whose position is no longer in the log, and whose partitions are taken meanwhile.

The consumer is librdkafka's, without a broker; the ends of a log are told in the place of one.
"""

import logging
import threading
from collections.abc import Sequence
from typing import Final

import pytest
from confluent_kafka import TopicPartition

from highwater.harness.clients import client_config, tracked_consumer
from highwater.harness.clients.libraries.consumers.librdkafka_consumer import Consumer
from highwater.harness.clients.libraries.consumers.read_message import ReadMessage, stranded
from highwater.harness.clients.libraries.librdkafka import Librdkafka
from highwater.harness.clients.operation_buffers import Places
from highwater.harness.clients.tracked_consumer import TrackedConsumer


class _Stranded(Consumer):
    """The first poll returns a position that is not in the log."""

    said = False

    def consume(  # type: ignore[override]  # a ReadMessage wears the same methods
        self, num_messages: int = 1, timeout: float = -1
    ) -> Sequence[ReadMessage]:
        del num_messages, timeout
        messages = [] if self.said else [stranded(0, 7, "out of range")]
        self.said = True
        return messages

    def get_watermark_offsets(
        self, partition: TopicPartition, timeout: float = -1, cached: bool = False
    ) -> tuple[int, int]:
        del partition, timeout, cached
        return 0, 5


class _Library(Librdkafka):
    def consumer(self, settings: client_config.Settings) -> Consumer:
        return _Stranded(settings)


_LIBRARY: Final = _Library()


def reader(
    moves: list[tuple[str, Places]], protocol: str, library: Librdkafka = _LIBRARY
) -> TrackedConsumer:
    common = client_config.common("127.0.0.1:1", "member-0", logging.getLogger("test"), quirks={})
    settings = client_config.consumer(
        common, isolation="read_committed", group="group", protocol=protocol
    )

    def moved(kind: str, places: Places, *, within: bool) -> None:
        assert not within
        moves.append((kind, dict(places)))

    return TrackedConsumer(
        settings,
        "events",
        1,
        moved,
        library=library,
    )


def test_partitions_that_were_taken_meanwhile_are_not_moved() -> None:
    moves: list[tuple[str, Places]] = []
    consumer = reader(moves, "consumer")
    assert consumer.poll(1, 0) == []
    assert consumer.poll(1, 0) == []  # librdkafka: Can't subtract from empty assignment
    assert moves == []
    consumer.drop()


def test_a_partition_goes_on_at_the_nearest_end_of_its_log() -> None:
    moves: list[tuple[str, Places]] = []
    consumer = reader(moves, "consumer")
    consumer.client.assign([TopicPartition("events", 0, 7)])
    assert consumer.poll(1, 0) == []
    assert consumer.poll(1, 0) == []
    assert moves == [("seek", {0: 5})]
    assert consumer.positions() == {0: 5}
    consumer.drop()


def test_a_crash_does_not_wait_for_a_library_that_never_ends_its_client(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ended = threading.Event()

    class _Endless(Consumer):
        def __del__(self) -> None:
            ended.wait()

    class _Waiting(Librdkafka):
        def consumer(self, settings: client_config.Settings) -> Consumer:
            return _Endless(settings)

    monkeypatch.setattr(tracked_consumer, "_ENDS_S", 0.1)
    consumer = reader([], "consumer", _Waiting())
    consumer.drop()
    assert "member-0: the library did not end the client in 0.1 s" in caplog.text
    ended.set()

"""librdkafka as a library of clients."""

from functools import partial
from typing import Any, Final

import msgspec
from confluent_kafka import KafkaError, KafkaException, ShareConsumer

from highwater.harness.base.waiting import await_condition
from highwater.harness.clients import delivery_outcomes
from highwater.harness.clients.client_config import Settings
from highwater.harness.clients.libraries.checked_producer import Producer
from highwater.harness.clients.libraries.consumers.librdkafka_consumer import Consumer

_LOOK_S: Final = 0.05
_ASK_S: Final = 1.0


class ReachingProducer(Producer):
    """A producer that knows the brokers to which it is connected."""

    def __init__(self, settings: Settings) -> None:
        up: set[int] = set()
        self._up = up
        # Not a method of this object: the client keeps the callback, and would then keep itself.
        note = partial(_note_connected, up)
        super().__init__({**settings, "statistics.interval.ms": 100, "stats_cb": note})

    def reach(self, topic: str, *, limit_s: float) -> None:
        """Connect to the leader of every partition; leaders may change meanwhile."""

        def look() -> dict[str, set[int]]:
            self.poll(_LOOK_S)
            return {"leaders": self._leaders(topic), "connected": self._up}

        await_condition(
            look,
            lambda seen: bool(seen["leaders"]) and seen["leaders"] <= seen["connected"],
            what=f"the client to be connected to every leader of {topic}",
            limit_s=limit_s,
            every_s=0,
        )

    def _leaders(self, name: str) -> set[int]:
        """Return the brokers that lead a partition; empty while the metadata is incomplete."""
        try:
            topic = self.list_topics(name, timeout=_ASK_S).topics[name]
        except KafkaException:
            return set()
        leaders = {partition.leader for partition in topic.partitions.values()}
        return set() if topic.error is not None or -1 in leaders else leaders


def _note_connected(up: set[int], text: str) -> None:
    """Note the connected brokers, from librdkafka's statistics (STATISTICS.md)."""
    brokers = msgspec.json.decode(text)["brokers"].values()
    up.clear()
    up.update(broker["nodeid"] for broker in brokers if broker["state"] == "UP")


class DroppedShareConsumer(ShareConsumer):
    """A share group member that can end as in a crash."""

    def drop(self) -> None:
        """Do nothing: a consumer that was not closed ends with its last reference."""


class _Outcomes:
    def delivered(self, error: KafkaError, *, retries: bool) -> str:
        return delivery_outcomes.delivered(error.code(), retries=retries)

    def unanswered(self, error: KafkaError) -> bool:
        return error.code() in delivery_outcomes.PURGED

    def not_committed(self, error: KafkaError, *, aborted: bool) -> str:
        return delivery_outcomes.not_committed(error.code(), aborted=aborted)


class Librdkafka:
    """librdkafka by its Python binding confluent-kafka: the library of most non-Java clients."""

    outcomes: Final = _Outcomes()

    def producer(self, settings: Settings) -> Producer:
        """Open a producer."""
        return Producer(settings)

    def single(self, settings: Settings) -> ReachingProducer:
        """Open a producer of single records."""
        return ReachingProducer(settings)

    def transactional(self, settings: Settings) -> Any:  # noqa: ANN401 - ``Producer`` has the calls in C
        """Open a transactional producer, which no coordinator knows yet."""
        return Producer(settings)

    def consumer(self, settings: Settings) -> Consumer:
        """Open a consumer."""
        return Consumer(settings)

    def share_consumer(self, settings: Settings) -> DroppedShareConsumer:
        """Open a member of a share group."""
        return DroppedShareConsumer(settings)


LIBRDKAFKA: Final = Librdkafka()

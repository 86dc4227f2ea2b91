"""librdkafka as a library of clients."""

from functools import partial
from typing import Final

import confluent_kafka
import msgspec
from confluent_kafka import KafkaError, KafkaException, ShareConsumer

from highwater.harness.base.waiting import await_condition
from highwater.harness.clients import delivery_outcomes
from highwater.harness.clients.client_config import Settings
from highwater.harness.clients.libraries.consumers.librdkafka_consumer import Consumer
from highwater.harness.clients.libraries.library_producer import WaitingProducer

_LOOK_S: Final = 0.05
_ASK_S: Final = 1.0


class Producer(WaitingProducer, confluent_kafka.Producer):
    """A producer that reports a fatal error in refused calls and in delivery reports.

    confluent-kafka raises the fatal error of an idempotent or transactional producer once, from
    ``poll`` or ``flush``. That call then skips its other callbacks. librdkafka refuses all later
    calls with this error. But every waiting record still gets its delivery report, which the
    history needs.

    This class has its own ``flush``. After a fatal error, confluent-kafka's ``flush`` still runs
    callbacks, but calls inside them fail. A callback that holds a lock would then never release the
    lock.
    """

    def drop(self) -> None:
        """Do nothing. Python destroys the producer, which then sends no request to brokers."""

    def poll(self, timeout: float = -1) -> int:
        """Call callbacks; return their number."""
        try:
            return int(super().poll(timeout))
        except KafkaException as error:
            if not error.args[0].fatal():
                raise
            return 1


class ReachingProducer(Producer):
    """A producer that can wait until it is connected to every leader."""

    def __init__(self, settings: Settings) -> None:
        up: set[int] = set()
        self._up = up
        # Not a method of this object: the client keeps the callback, which would keep this object.
        note = partial(_note_connected, up)
        super().__init__({**settings, "statistics.interval.ms": 100, "stats_cb": note})

    def reach(self, topic: str, *, limit_s: float) -> None:
        """Connect to the leader of every partition, even if leaders change in the meantime."""

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
        """Return the leaders' ids; empty while the metadata is incomplete."""
        try:
            topic = self.list_topics(name, timeout=_ASK_S).topics[name]
        except KafkaException:
            return set()
        leaders = {partition.leader for partition in topic.partitions.values()}
        return set() if topic.error is not None or -1 in leaders else leaders


def _note_connected(up: set[int], text: str) -> None:
    """Replace ``up`` by the ids of connected brokers in librdkafka's statistics (STATISTICS.md)."""
    brokers = msgspec.json.decode(text)["brokers"].values()
    up.clear()
    up.update(broker["nodeid"] for broker in brokers if broker["state"] == "UP")


class DroppedShareConsumer(ShareConsumer):
    """A share group member that can end as in a crash."""

    def drop(self) -> None:
        """Do nothing. Python destroys an unclosed consumer when its last reference is deleted."""


class _Outcomes:
    def delivered(self, error: KafkaError, *, retries: bool) -> str:
        return delivery_outcomes.delivered(error.code(), retries=retries)

    def unanswered(self, error: KafkaError) -> bool:
        return error.code() in delivery_outcomes.PURGED

    def not_committed(self, error: KafkaError, *, aborted: bool) -> str:
        return delivery_outcomes.not_committed(error.code(), aborted=aborted)


class Librdkafka:
    """librdkafka, the library of most non-Java clients, with its Python binding confluent-kafka."""

    outcomes: Final = _Outcomes()

    def producer(self, settings: Settings) -> Producer:
        """Open a producer."""
        return Producer(settings)

    def single(self, settings: Settings) -> ReachingProducer:
        """Open a producer of single records."""
        return ReachingProducer(settings)

    def consumer(self, settings: Settings) -> Consumer:
        """Open a consumer."""
        return Consumer(settings)

    def share_consumer(self, settings: Settings) -> DroppedShareConsumer:
        """Open a member of a share group."""
        return DroppedShareConsumer(settings)


LIBRDKAFKA: Final = Librdkafka()

"""librdkafka as a library of clients."""

from typing import Any, Final

from confluent_kafka import KafkaError

from highwater.harness.clients import delivery_outcomes
from highwater.harness.clients.client_config import Settings
from highwater.harness.clients.libraries.checked_producer import Producer


class _Outcomes:
    def delivered(self, error: KafkaError, *, retries: bool) -> str:
        return delivery_outcomes.delivered(error.code(), retries=retries)

    def unanswered(self, error: KafkaError) -> bool:
        return error.code() in delivery_outcomes.PURGED

    def not_committed(self, error: KafkaError, *, aborted: bool) -> str:
        return delivery_outcomes.not_committed(error.code(), aborted=aborted)


class Librdkafka:
    """The library of most clients outside of the JVM, by confluent-kafka."""

    outcomes: Final = _Outcomes()

    def producer(self, settings: Settings) -> Producer:
        """Open a producer."""
        return Producer(settings)

    def transactional(self, settings: Settings) -> Any:  # noqa: ANN401 - ``Producer`` has the calls in C
        """Open a transactional producer, which no coordinator knows yet."""
        return Producer(settings)


LIBRDKAFKA: Final = Librdkafka()

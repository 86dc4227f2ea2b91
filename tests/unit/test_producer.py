"""A producer that fails for good: neither ``poll`` nor ``flush`` raises it."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from harness.clients.producer import Producer, Serving


class Client:
    """Raises its error once out of whatever serves callbacks, as confluent-kafka does."""

    def __init__(self, *, fatal: bool) -> None:
        self.errors = [KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "lost step", fatal)]
        self.served: list[str] = []

    def _serve(self, name: str) -> int:
        if self.errors:
            raise KafkaException(self.errors.pop())
        self.served.append(name)
        return 0

    def poll(self, _: float) -> int:
        return self._serve("poll")

    def flush(self, _: float) -> int:
        return self._serve("flush")


class Served(Serving, Client):
    pass


def test_a_fatal_error_is_no_exception() -> None:
    client = Served(fatal=True)
    assert (client.poll(0.1), client.poll(0.1), client.served) == (1, 0, ["poll"])


def test_after_a_fatal_error_what_waits_is_still_served() -> None:
    client = Served(fatal=True)
    assert (client.flush(0.1), client.served) == (0, ["flush"])


@pytest.mark.parametrize("serve", ["poll", "flush"])
def test_any_other_error_is_raised(serve: str) -> None:
    with pytest.raises(KafkaException, match="lost step"):
        getattr(Served(fatal=False), serve)(0.1)


def test_our_producer_is_such_a_client() -> None:
    producer = Producer({"bootstrap.servers": "127.0.0.1:1"})
    assert isinstance(producer, Serving)
    # How much it serves depends on how often it was told by now that nobody listens there.
    assert producer.poll(0.0) >= 0
    assert producer.flush(0.0) >= 0

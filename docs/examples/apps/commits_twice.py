"""Lose inputs: the program commits what is done, and the client on a timer what was read."""

import os
import signal
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

SERVERS = {"bootstrap.servers": os.environ["KAFKA_BOOTSTRAP_SERVERS"]}
GROUP = {
    "group.id": os.environ["HIGHWATER_GROUP"],
    "group.instance.id": os.environ["HIGHWATER_INSTANCE"],  # comes back without a rebalance
}
AUTOMATIC = {"auto.commit.interval.ms": 200, "auto.offset.reset": "earliest"}  # the mistake

consumer = Consumer({**SERVERS, **GROUP, **AUTOMATIC})
producer = Producer({**SERVERS, "enable.idempotence": True})
consumer.subscribe([os.environ["HIGHWATER_IN"]])
signals: list[int] = []
signal.signal(signal.SIGTERM, lambda number, _: signals.append(number))


def delivered(error: KafkaError | None, _: Message) -> None:
    """End at a failed output: the next start goes on from the committed position."""
    if error is not None:
        raise KafkaException(error)


done: dict[int, int] = {}
while not signals:
    records = [each for each in consumer.consume(100, timeout=0.5) if each.error() is None]
    for number, record in enumerate(records, 1):
        time.sleep(0.012)  # the work
        producer.produce(os.environ["HIGHWATER_OUT"], record.value(), on_delivery=delivered)
        done[record.partition() or 0] = (record.offset() or 0) + 1
        if number % 20 == 0 or number == len(records):
            producer.flush()
            places = [TopicPartition(os.environ["HIGHWATER_IN"], *each) for each in done.items()]
            consumer.commit(offsets=places, asynchronous=False)
consumer.close()

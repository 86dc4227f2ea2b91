"""Lose inputs: the position is already the next offset, and the program adds one."""

import os
import signal
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

SERVERS = {"bootstrap.servers": os.environ["KAFKA_BOOTSTRAP_SERVERS"]}
GROUP = {
    "group.id": os.environ["HIGHWATER_GROUP"],
    "group.instance.id": os.environ["HIGHWATER_INSTANCE"],  # comes back without a rebalance
}
MANUAL = {"enable.auto.commit": False, "auto.offset.reset": "earliest"}

consumer = Consumer({**SERVERS, **GROUP, **MANUAL})
producer = Producer({**SERVERS, "enable.idempotence": True})
consumer.subscribe([os.environ["HIGHWATER_IN"]])
signals: list[int] = []
signal.signal(signal.SIGTERM, lambda number, _: signals.append(number))


def delivered(error: KafkaError | None, _: Message) -> None:
    """End at a failed output: the next start goes on from the committed position."""
    if error is not None:
        raise KafkaException(error)


while not signals:
    records = [each for each in consumer.consume(50, timeout=0.1) if each.error() is None]
    for record in records:
        time.sleep(0.005)  # the work
        producer.produce(os.environ["HIGHWATER_OUT"], record.value(), on_delivery=delivered)
    producer.flush()
    places = consumer.position(consumer.assignment())
    for place in places:
        place.offset += 1  # the mistake
    if records:
        consumer.commit(offsets=[each for each in places if each.offset > 0], asynchronous=False)
consumer.close()

"""Double inputs: the position waits for an offset that has no record but a transaction's end."""

import os
import signal
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

SERVERS = {"bootstrap.servers": os.environ["KAFKA_BOOTSTRAP_SERVERS"]}
GROUP = {
    "group.id": os.environ["HIGHWATER_GROUP"],
    "group.instance.id": os.environ["HIGHWATER_INSTANCE"],  # comes back without a rebalance
}
MANUAL = {"enable.auto.commit": False, "auto.offset.reset": "earliest"}

consumer = Consumer({**SERVERS, **GROUP, **MANUAL})
producer = Producer({**SERVERS, "enable.idempotence": True})
signals: list[int] = []
signal.signal(signal.SIGTERM, lambda number, _: signals.append(number))


def delivered(error: KafkaError | None, _: Message) -> None:
    """End at a failed output: the next start goes on from the committed position."""
    if error is not None:
        raise KafkaException(error)


def assigned(consumer: Consumer, places: list[TopicPartition]) -> None:
    """Go on from the committed positions."""
    for place in consumer.committed(places):
        positions[place.partition] = max(0, place.offset)


positions: dict[int, int] = {}
consumer.subscribe([os.environ["HIGHWATER_IN"]], on_assign=assigned)
while not signals:
    records = [each for each in consumer.consume(50, timeout=0.5) if each.error() is None]
    for record in records:
        time.sleep(0.005)  # the work
        producer.produce(os.environ["HIGHWATER_OUT"], record.value(), on_delivery=delivered)
        partition = record.partition() or 0
        if record.offset() == positions[partition]:  # the mistake: not each offset has a record
            positions[partition] += 1
    producer.flush()
    places = [TopicPartition(os.environ["HIGHWATER_IN"], *each) for each in positions.items()]
    if records:
        consumer.commit(offsets=places, asynchronous=False)
consumer.close()

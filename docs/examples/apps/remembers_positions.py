"""Double inputs: an instance commits positions of partitions that are another's by now."""

import os
import signal
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

SERVERS = {"bootstrap.servers": os.environ["KAFKA_BOOTSTRAP_SERVERS"]}
GROUP = {"group.id": os.environ["HIGHWATER_GROUP"], "session.timeout.ms": 6000}
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


positions: dict[int, int] = {}
while not signals:
    records = [each for each in consumer.consume(50, timeout=0.1) if each.error() is None]
    for record in records:
        time.sleep(0.005)  # the work
        producer.produce(os.environ["HIGHWATER_OUT"], record.value(), on_delivery=delivered)
        positions[record.partition() or 0] = (record.offset() or 0) + 1
    producer.flush()
    if not records:
        continue
    places = [TopicPartition(os.environ["HIGHWATER_IN"], *each) for each in positions.items()]
    try:
        consumer.commit(offsets=places, asynchronous=False)  # the mistake: of all there ever were
    except KafkaException as error:
        print("nothing is committed:", error)
consumer.close()

"""Double inputs: each start begins a little before the committed position, to be safe."""

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
    """Begin with inputs whose outputs may not have arrived."""
    committed = consumer.committed(places)
    for place in committed:
        place.offset = max(0, place.offset - 20)  # the mistake: with no transaction they double
    consumer.assign(committed)


consumer.subscribe([os.environ["HIGHWATER_IN"]], on_assign=assigned)
while not signals:
    records = [each for each in consumer.consume(50, timeout=0.5) if each.error() is None]
    for record in records:
        time.sleep(0.005)  # the work
        output = record.value(), record.key()  # of one key, in order
        producer.produce(os.environ["HIGHWATER_OUT"], *output, on_delivery=delivered)
    producer.flush()
    if records:
        consumer.commit(asynchronous=False)
consumer.close()

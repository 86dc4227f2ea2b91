"""Overtake inputs: an output that is refused is sent again, behind others in flight."""

import os
import signal
import time

from confluent_kafka import Consumer, KafkaError, Message, Producer

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


def send(value: bytes | None, partition: int) -> None:
    """Send an output until it is there."""

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            send(value, partition)  # the mistake: others were sent meanwhile

    producer.produce(os.environ["HIGHWATER_OUT"], value, partition=partition, on_delivery=delivered)


while not signals:
    records = [each for each in consumer.consume(50, timeout=0.5) if each.error() is None]
    for record in records:
        time.sleep(0.005)  # the work
        send(record.value(), record.partition() or 0)
        producer.poll(0)
    producer.flush()
    if records:
        consumer.commit(asynchronous=False)
consumer.close()

"""Lose inputs: an output that could not be sent in time is noted in a log, and not sent again."""

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
producer = Producer({**SERVERS, "enable.idempotence": True, "message.timeout.ms": 4000})
consumer.subscribe([os.environ["HIGHWATER_IN"]])
signals: list[int] = []
signal.signal(signal.SIGTERM, lambda number, _: signals.append(number))


def delivered(error: KafkaError | None, output: Message) -> None:
    """Note what could not be delivered."""
    if error is not None:
        print(output.value(), "has no output:", error)  # the mistake: its position is committed


while not signals:
    records = [each for each in consumer.consume(50, timeout=0.5) if each.error() is None]
    for record in records:
        time.sleep(0.005)  # the work
        producer.produce(os.environ["HIGHWATER_OUT"], record.value(), on_delivery=delivered)
    producer.flush()
    if records:
        consumer.commit(asynchronous=False)
consumer.close()

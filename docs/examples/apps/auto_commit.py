"""Lose inputs: positions are committed on a timer, and workers have the records still in work."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

SERVERS = {"bootstrap.servers": os.environ["KAFKA_BOOTSTRAP_SERVERS"]}
GROUP = {
    "group.id": os.environ["HIGHWATER_GROUP"],
    "group.instance.id": os.environ["HIGHWATER_INSTANCE"],  # comes back without a rebalance
}
AUTOMATIC = {"auto.commit.interval.ms": 1000, "auto.offset.reset": "earliest"}  # the mistake

consumer = Consumer({**SERVERS, **GROUP, **AUTOMATIC})
producer = Producer({**SERVERS, "enable.idempotence": True})
consumer.subscribe([os.environ["HIGHWATER_IN"]])
signals: list[int] = []
signal.signal(signal.SIGTERM, lambda number, _: signals.append(number))


def delivered(error: KafkaError | None, _: Message) -> None:
    """End at a failed output: the next start goes on from the committed position."""
    if error is not None:
        raise KafkaException(error)


def work(record: Message) -> None:
    """Work on a record, and write its output."""
    time.sleep(0.015)
    producer.produce(os.environ["HIGHWATER_OUT"], record.value(), on_delivery=delivered)


with ThreadPoolExecutor(2) as workers:
    while not signals:
        record = consumer.poll(0.5)
        if record is not None and record.error() is None:
            workers.submit(work, record)
        producer.poll(0)
producer.flush()
consumer.close()

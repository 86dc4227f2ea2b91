"""Lose inputs: all instances have one transactional id, and fence each other."""

import os
import signal
import time

from confluent_kafka import Consumer, KafkaException, Producer

SERVERS = {"bootstrap.servers": os.environ["KAFKA_BOOTSTRAP_SERVERS"]}
GROUP = {
    "group.id": os.environ["HIGHWATER_GROUP"],
    "group.instance.id": os.environ["HIGHWATER_INSTANCE"],  # comes back without a rebalance
}
MANUAL = {"enable.auto.commit": False, "auto.offset.reset": "earliest"}
NAME = os.environ["HIGHWATER_GROUP"]  # the mistake

consumer = Consumer({**SERVERS, **GROUP, **MANUAL, "isolation.level": "read_committed"})
consumer.subscribe([os.environ["HIGHWATER_IN"]])
signals: list[int] = []
signal.signal(signal.SIGTERM, lambda number, _: signals.append(number))


def transactional() -> Producer:
    """Return a new producer, as after an error that the old one does not survive."""
    producer = Producer({**SERVERS, "transactional.id": NAME})
    producer.init_transactions()
    return producer


producer = transactional()
while not signals:
    records = [each for each in consumer.consume(50, timeout=0.5) if each.error() is None]
    if records:
        try:
            producer.begin_transaction()
            for record in records:
                time.sleep(0.005)  # the work
                producer.produce(os.environ["HIGHWATER_OUT"], record.value())
            positions = consumer.position(consumer.assignment())
            producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata())
            producer.commit_transaction()
        except KafkaException:
            producer = transactional()
consumer.close()

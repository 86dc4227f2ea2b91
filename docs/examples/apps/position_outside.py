"""Lose and double inputs: outputs are in transactions, and positions are not."""

import os
import signal
import time

from confluent_kafka import Consumer, Producer

SERVERS = {"bootstrap.servers": os.environ["KAFKA_BOOTSTRAP_SERVERS"]}
GROUP = {
    "group.id": os.environ["HIGHWATER_GROUP"],
    "group.instance.id": os.environ["HIGHWATER_INSTANCE"],  # comes back without a rebalance
}
AUTOMATIC = {"auto.commit.interval.ms": 1000, "auto.offset.reset": "earliest"}  # the mistake
NAME = f"{os.environ['HIGHWATER_GROUP']}-{os.environ['HIGHWATER_INSTANCE']}"

consumer = Consumer({**SERVERS, **GROUP, **AUTOMATIC, "isolation.level": "read_committed"})
producer = Producer({**SERVERS, "transactional.id": NAME})
producer.init_transactions()  # ends what the life before has left open
consumer.subscribe([os.environ["HIGHWATER_IN"]])
signals: list[int] = []
signal.signal(signal.SIGTERM, lambda number, _: signals.append(number))

while not signals:
    records = [each for each in consumer.consume(50, timeout=0.5) if each.error() is None]
    if records:
        producer.begin_transaction()
        for record in records:
            time.sleep(0.012)  # the work
            producer.produce(os.environ["HIGHWATER_OUT"], record.value())
        producer.commit_transaction()  # fails if an output was not delivered; the process ends
consumer.close()

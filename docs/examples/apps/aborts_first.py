"""Lose inputs: a transaction is aborted before it has an output, and its inputs are forgotten."""

import os
import signal
import time
import zlib

from confluent_kafka import Consumer, Producer

SERVERS = {"bootstrap.servers": os.environ["KAFKA_BOOTSTRAP_SERVERS"]}
GROUP = {
    "group.id": os.environ["HIGHWATER_GROUP"],
    "group.instance.id": os.environ["HIGHWATER_INSTANCE"],  # comes back without a rebalance
}
MANUAL = {"enable.auto.commit": False, "auto.offset.reset": "earliest"}
NAME = f"{os.environ['HIGHWATER_GROUP']}-{os.environ['HIGHWATER_INSTANCE']}"

consumer = Consumer({**SERVERS, **GROUP, **MANUAL, "isolation.level": "read_committed"})
producer = Producer({**SERVERS, "transactional.id": NAME})
producer.init_transactions()  # ends what the life before has left open
consumer.subscribe([os.environ["HIGHWATER_IN"]])
signals: list[int] = []
signal.signal(signal.SIGTERM, lambda number, _: signals.append(number))

while not signals:
    records = [each for each in consumer.consume(50, timeout=0.5) if each.error() is None]
    if records:
        producer.begin_transaction()
        if any(zlib.crc32(each.value() or b"") % 60 == 0 for each in records):  # the work failed
            producer.abort_transaction()
            continue  # the mistake: the consumer is behind these records
        for record in records:
            time.sleep(0.005)  # the work
            producer.produce(os.environ["HIGHWATER_OUT"], record.value())
        positions = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata())
        producer.commit_transaction()  # fails if an output was not delivered; the process ends
consumer.close()

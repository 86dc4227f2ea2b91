"""Overtake inputs: those that fail are tried again later, behind others of their key."""

import os
import signal
import time
import zlib
from collections import deque

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


tried: set[bytes | None] = set()
while not signals:
    records = [each for each in consumer.consume(50, timeout=0.5) if each.error() is None]
    waiting = deque(records)
    while waiting:
        record = waiting.popleft()
        time.sleep(0.005)  # the work
        if zlib.crc32(record.value() or b"") % 20 == 0 and record.value() not in tried:
            tried.add(record.value())
            waiting.append(record)  # the mistake: it failed, and the later ones do not wait
            continue
        output = record.value(), record.key(), record.partition() or 0
        producer.produce(os.environ["HIGHWATER_OUT"], *output, delivered)
    producer.flush()
    if records:
        consumer.commit(asynchronous=False)
consumer.close()

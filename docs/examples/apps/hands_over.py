"""Lose inputs: a rebalance takes partitions of which records are in work but committed."""

import os
import signal
import time
from collections import deque

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

SERVERS = {"bootstrap.servers": os.environ["KAFKA_BOOTSTRAP_SERVERS"]}
GROUP = {"group.id": os.environ["HIGHWATER_GROUP"], "session.timeout.ms": 6000}
MANUAL = {"enable.auto.commit": False, "auto.offset.reset": "earliest"}

consumer = Consumer({**SERVERS, **GROUP, **MANUAL})
producer = Producer({**SERVERS, "enable.idempotence": True})
waiting: deque[Message] = deque()
WAITING_MOST = 500
signals: list[int] = []
signal.signal(signal.SIGTERM, lambda number, _: signals.append(number))


def delivered(error: KafkaError | None, _: Message) -> None:
    """End at a failed output: the next start goes on from the committed position."""
    if error is not None:
        raise KafkaException(error)


def revoked(consumer: Consumer, _: list[TopicPartition]) -> None:
    """Hand partitions over: commit the position, and forget what is the next owner's."""
    if waiting:
        consumer.commit(asynchronous=False)  # the mistake: it has passed those that wait
        waiting.clear()


consumer.subscribe([os.environ["HIGHWATER_IN"]], on_revoke=revoked)
while waiting or not signals:
    if not signals and len(waiting) < WAITING_MOST:
        records = consumer.consume(50, timeout=0.1)
        waiting.extend(each for each in records if each.error() is None)
    done = [waiting.popleft() for _ in range(min(10, len(waiting)))]
    for record in done:
        time.sleep(0.012)  # the work
        producer.produce(os.environ["HIGHWATER_OUT"], record.value(), on_delivery=delivered)
    producer.flush()
    for record in done:
        consumer.commit(message=record, asynchronous=False)
consumer.close()

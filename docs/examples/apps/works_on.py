"""Double inputs: what was read before a rebalance is worked on after it, when another has it."""

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
consumer.subscribe([os.environ["HIGHWATER_IN"]])
signals: list[int] = []
signal.signal(signal.SIGTERM, lambda number, _: signals.append(number))


def delivered(error: KafkaError | None, _: Message) -> None:
    """End at a failed output: the next start goes on from the committed position."""
    if error is not None:
        raise KafkaException(error)


waiting: deque[Message] = deque()
WAITING_MOST = 200
while not signals:
    if len(waiting) < WAITING_MOST:
        records = consumer.consume(50, timeout=0.1)
        waiting.extend(each for each in records if each.error() is None)
    done = [waiting.popleft() for _ in range(min(10, len(waiting)))]  # the mistake: whose ever
    for record in done:
        time.sleep(0.012)  # the work
        producer.produce(os.environ["HIGHWATER_OUT"], record.value(), on_delivery=delivered)
    producer.flush()
    last = {each.partition() or 0: (each.offset() or 0) + 1 for each in done}
    places = [TopicPartition(os.environ["HIGHWATER_IN"], *each) for each in last.items()]
    try:
        if places:
            consumer.commit(offsets=places, asynchronous=False)
    except KafkaException as error:
        print("nothing is committed:", error)
consumer.close()

"""Lose inputs: workers finish in any order, and the newest finished position is committed."""

import os
import signal
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

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


def work(record: Message) -> Message:
    """Work on a record: each tenth takes long."""
    time.sleep(0.5 if (record.offset() or 0) % 10 == 0 else 0.005)
    return record


unfinished: set[Future[Message]] = set()
with ThreadPoolExecutor(8) as workers:
    while not signals:
        record = consumer.poll(0.05)
        if record is not None and record.error() is None:
            unfinished.add(workers.submit(work, record))
        finished, unfinished = wait(unfinished, 0.01, FIRST_COMPLETED)
        for future in finished:
            record = future.result()
            producer.produce(os.environ["HIGHWATER_OUT"], record.value(), on_delivery=delivered)
            producer.flush()
            consumer.commit(message=record, asynchronous=False)  # the mistake: others are in work
consumer.close()

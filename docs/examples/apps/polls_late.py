"""Double inputs: a batch takes longer than max.poll.interval.ms, and another instance has it."""

import os
import signal
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

SERVERS = {"bootstrap.servers": os.environ["KAFKA_BOOTSTRAP_SERVERS"]}
TIMES = {"session.timeout.ms": 6000, "max.poll.interval.ms": 6000}
GROUP = {"group.id": os.environ["HIGHWATER_GROUP"], **TIMES}
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


work_s = 0.05  # with a cold cache
while not signals:
    records = [each for each in consumer.consume(400, timeout=5) if each.error() is None]
    for record in records:
        time.sleep(work_s)  # the work; the mistake: 400 records take 20 s
        producer.produce(os.environ["HIGHWATER_OUT"], record.value(), on_delivery=delivered)
    producer.flush()
    if not records:
        continue
    work_s = 0.002
    try:
        consumer.commit(asynchronous=False)
    except KafkaException as error:
        print("nothing is committed:", error)
consumer.close()

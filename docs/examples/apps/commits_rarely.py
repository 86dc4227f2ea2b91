"""Double inputs: five seconds of work are not committed when the group gives it to another."""

import os
import signal
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

SERVERS = {"bootstrap.servers": os.environ["KAFKA_BOOTSTRAP_SERVERS"]}
GROUP = {"group.id": os.environ["HIGHWATER_GROUP"], "session.timeout.ms": 6000}
MANUAL = {"enable.auto.commit": False, "auto.offset.reset": "earliest"}

consumer = Consumer({**SERVERS, **GROUP, **MANUAL})
producer = Producer({**SERVERS, "enable.idempotence": True})
consumer.subscribe([os.environ["HIGHWATER_IN"]])
signals: list[int] = []
signal.signal(signal.SIGTERM, lambda number, _: signals.append(number))
COMMIT_EVERY_S = 5  # the mistake: nor at a revocation


def delivered(error: KafkaError | None, _: Message) -> None:
    """End at a failed output: the next start goes on from the committed position."""
    if error is not None:
        raise KafkaException(error)


done, committed_s = 0, time.monotonic()
while not signals:
    records = [each for each in consumer.consume(50, timeout=0.5) if each.error() is None]
    for record in records:
        time.sleep(0.005)  # the work
        producer.produce(os.environ["HIGHWATER_OUT"], record.value(), on_delivery=delivered)
    producer.flush()
    done += len(records)
    if not done or time.monotonic() - committed_s < COMMIT_EVERY_S:
        continue
    try:
        consumer.commit(asynchronous=False)
    except KafkaException as error:
        print("nothing is committed:", error)
    done, committed_s = 0, time.monotonic()
consumer.close()

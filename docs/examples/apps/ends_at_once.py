"""Double inputs: SIGTERM ends the process, and positions are committed every five seconds."""

import os
import time

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
COMMIT_EVERY_S = 5


def delivered(error: KafkaError | None, _: Message) -> None:
    """End at a failed output: the next start goes on from the committed position."""
    if error is not None:
        raise KafkaException(error)


done, committed_s = 0, time.monotonic()
while True:  # the mistake: SIGTERM is not handled
    records = [each for each in consumer.consume(50, timeout=0.5) if each.error() is None]
    for record in records:
        time.sleep(0.005)  # the work
        producer.produce(os.environ["HIGHWATER_OUT"], record.value(), on_delivery=delivered)
    producer.flush()
    done += len(records)
    if done and time.monotonic() - committed_s >= COMMIT_EVERY_S:
        consumer.commit(asynchronous=False)
        done, committed_s = 0, time.monotonic()

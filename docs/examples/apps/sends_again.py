"""Double inputs: after a time-out outputs are sent anew, and the first ones arrive, too."""

import os
import signal
import time

from confluent_kafka import Consumer, KafkaError, Message, Producer

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


unacknowledged: set[bytes | None] = set()


def delivered(error: KafkaError | None, output: Message) -> None:
    """Note which outputs are there."""
    if error is None:
        unacknowledged.discard(output.value())


while not signals:
    records = [each for each in consumer.consume(50, timeout=0.5) if each.error() is None]
    unacknowledged.update(each.value() for each in records)
    time.sleep(0.005 * len(records))  # the work
    while unacknowledged:
        for value in sorted(unacknowledged, key=str):
            producer.produce(os.environ["HIGHWATER_OUT"], value, on_delivery=delivered)
        producer.flush(0.3)  # the mistake: after that time they may still arrive
    if records:
        consumer.commit(asynchronous=False)
consumer.close()

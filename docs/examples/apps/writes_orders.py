"""Write orders, and print what brokers have acknowledged: highwater app --out orders."""

import os
import signal
import time

from confluent_kafka import KafkaError, Message, Producer

producer = Producer(
    {
        "bootstrap.servers": os.environ["KAFKA_BOOTSTRAP_SERVERS"],
        "acks": "all",
        "enable.idempotence": True,
    }
)
signals: list[int] = []
signal.signal(signal.SIGTERM, lambda number, _: signals.append(number))


def delivered(error: KafkaError | None, record: Message) -> None:
    """Print the name of a record that is written."""
    if error is None:
        print("HIGHWATER_ACKNOWLEDGED", (record.key() or b"").decode(), flush=True)


start, number = f"{os.environ['HIGHWATER_INSTANCE']}-{time.time_ns()}", 0
while not signals:
    name = f"order-{start}-{number}"
    producer.produce(os.environ["HIGHWATER_OUT"], "paid", key=name, on_delivery=delivered)
    number += 1
    producer.poll(0.005)
producer.flush()

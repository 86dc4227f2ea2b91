"""Copy records with kafka-python; partitions are paused while a thread processes a batch."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

from kafka import KafkaConsumer, KafkaProducer

SERVERS = os.environ["KAFKA_BOOTSTRAP_SERVERS"].split(",")
consumer = KafkaConsumer(
    os.environ["HIGHWATER_IN"],
    bootstrap_servers=SERVERS,
    group_id=os.environ["HIGHWATER_GROUP"],
    auto_offset_reset="earliest",
    enable_auto_commit=False,
    max_poll_records=20,
)
producer = KafkaProducer(bootstrap_servers=SERVERS, acks="all")
signals: list[int] = []
signal.signal(signal.SIGTERM, lambda number, _: signals.append(number))


def process(values: list[bytes]) -> None:
    """Write an output for each record, and wait until all are acknowledged."""
    outputs = []
    for value in values:
        time.sleep(0.012)  # the work
        outputs.append(producer.send(os.environ["HIGHWATER_OUT"], value))
    for output in outputs:
        output.get(timeout=60)


with ThreadPoolExecutor(1) as pool:
    while not signals:
        batches = consumer.poll(timeout_ms=500).values()
        work = pool.submit(process, [record.value for batch in batches for record in batch])
        consumer.pause(*consumer.assignment())
        while not work.done():
            consumer.poll(timeout_ms=50)  # remain a member of the group
        work.result()
        consumer.commit()
        consumer.resume(*consumer.assignment())
consumer.close()

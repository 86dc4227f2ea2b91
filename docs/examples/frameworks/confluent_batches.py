"""Copy records with confluent-kafka in batches, with notices of the partitions' ends."""

import os
import signal

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

SERVERS = {"bootstrap.servers": os.environ["KAFKA_BOOTSTRAP_SERVERS"]}
consumer = Consumer(
    {
        **SERVERS,
        "group.id": os.environ["HIGHWATER_GROUP"],
        "group.instance.id": os.environ["HIGHWATER_INSTANCE"],
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
    }
)
producer = Producer({**SERVERS, "enable.idempotence": True})
consumer.subscribe([os.environ["HIGHWATER_IN"]])
signals: list[int] = []
signal.signal(signal.SIGTERM, lambda number, _: signals.append(number))


def delivered(error: KafkaError | None, _: Message) -> None:
    """End at a failed output: the next start goes on from the committed position."""
    if error is not None:
        raise KafkaException(error)


while not signals:
    records = []
    for message in consumer.consume(50, timeout=0.5):
        error = message.error()
        if error is None:
            records.append(message.value())
        elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client has no other
            print(f"partition {message.partition()} is read to its end", flush=True)
        else:
            raise KafkaException(error)
    for record in records:
        producer.produce(os.environ["HIGHWATER_OUT"], record, on_delivery=delivered)
    producer.flush()
    if records:
        consumer.commit(asynchronous=False)
consumer.close()

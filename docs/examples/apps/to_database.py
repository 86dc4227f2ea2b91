"""Process each input into a database, and print it when it is there: highwater app --in orders."""

import os
import signal
import sqlite3

from confluent_kafka import Consumer

consumer = Consumer(
    {
        "bootstrap.servers": os.environ["KAFKA_BOOTSTRAP_SERVERS"],
        "group.id": os.environ["HIGHWATER_GROUP"],
        "group.instance.id": os.environ["HIGHWATER_INSTANCE"],  # comes back without a rebalance
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    }
)
consumer.subscribe([os.environ["HIGHWATER_IN"]])
signals: list[int] = []
signal.signal(signal.SIGTERM, lambda number, _: signals.append(number))

with sqlite3.connect(os.environ.get("DATABASE", ":memory:")) as database:
    database.execute("CREATE TABLE IF NOT EXISTS orders (name TEXT)")
    while not signals:
        records = [each for each in consumer.consume(50, timeout=0.5) if each.error() is None]
        values = [(each.value() or b"").decode() for each in records]
        database.executemany("INSERT INTO orders VALUES (?)", [(value,) for value in values])
        database.commit()
        for value in values:
            print("HIGHWATER_DONE", value, flush=True)
        if records:
            consumer.commit(asynchronous=False)
consumer.close()

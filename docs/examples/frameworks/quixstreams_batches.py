"""Copy records with quixstreams 2, whose producer collects batches for three seconds."""

import os

from quixstreams import Application

app = Application(
    broker_address=os.environ["KAFKA_BOOTSTRAP_SERVERS"],
    consumer_group=os.environ["HIGHWATER_GROUP"],
    auto_offset_reset="earliest",
    consumer_extra_config={"auto.commit.interval.ms": 1000, "session.timeout.ms": 8000},
    producer_extra_config={"linger.ms": 3000},
    state_dir=f"state-{os.environ['HIGHWATER_INSTANCE']}",
)
orders = app.topic(os.environ["HIGHWATER_IN"], key_deserializer="bytes", value_deserializer="bytes")
payments = app.topic(os.environ["HIGHWATER_OUT"], key_serializer="bytes", value_serializer="bytes")
app.run(app.dataframe(orders).to_topic(payments))

"""Copy records with quixstreams, at least once."""

import os

from quixstreams import Application

app = Application(
    broker_address=os.environ["KAFKA_BOOTSTRAP_SERVERS"],
    consumer_group=os.environ["HIGHWATER_GROUP"],
    auto_offset_reset="earliest",
    processing_guarantee=os.environ.get("GUARANTEE", "at-least-once"),
    commit_interval=1.0,
    state_dir=f"state-{os.environ['HIGHWATER_INSTANCE']}",
)
orders = app.topic(os.environ["HIGHWATER_IN"], key_deserializer="bytes", value_deserializer="bytes")
payments = app.topic(os.environ["HIGHWATER_OUT"], key_serializer="bytes", value_serializer="bytes")
app.dataframe(orders).to_topic(payments)
app.run()

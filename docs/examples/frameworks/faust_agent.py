"""Copy records with faust-streaming."""

import os

import faust

app = faust.App(
    os.environ["HIGHWATER_GROUP"],
    broker=";".join(f"kafka://{one}" for one in os.environ["KAFKA_BOOTSTRAP_SERVERS"].split(",")),
    value_serializer="raw",
    consumer_auto_offset_reset="earliest",
    topic_disable_leader=True,
    web_enabled=False,
    broker_commit_interval=1.0,
    datadir=f"faust-{os.environ['HIGHWATER_INSTANCE']}",
)
orders = app.topic(os.environ["HIGHWATER_IN"], value_type=bytes)
payments = app.topic(os.environ["HIGHWATER_OUT"], value_type=bytes)


@app.agent(orders)  # type: ignore[untyped-decorator]
async def pay(stream: faust.StreamT[bytes]) -> None:
    """Write each order as a payment."""
    async for value in stream:
        await payments.send(value=value)


app.main()

"""Copy records with faust-streaming, four at a time; some take longer than others."""

import asyncio
import os

import faust

app = faust.App(
    os.environ["HIGHWATER_GROUP"],
    broker=";".join(f"kafka://{one}" for one in os.environ["KAFKA_BOOTSTRAP_SERVERS"].split(",")),
    value_serializer="raw",
    consumer_auto_offset_reset="earliest",
    topic_disable_leader=True,
    web_port=int(os.environ["HIGHWATER_PORT"]),
    broker_commit_interval=0.5,
    broker_session_timeout=8.0,
    broker_heartbeat_interval=2.0,
    datadir=f"faust-{os.environ['HIGHWATER_INSTANCE']}",
)
orders = app.topic(os.environ["HIGHWATER_IN"], value_type=bytes)
payments = app.topic(os.environ["HIGHWATER_OUT"], value_type=bytes)
EVERY, SLOW = 100, 50


@app.agent(orders, concurrency=4)  # type: ignore[untyped-decorator]
async def pay(stream: faust.StreamT[bytes]) -> None:
    """Write each order as a payment; one of a hundred takes four seconds."""
    async for value in stream:
        number = value.partition(b"|")[0].partition(b"-")[2]
        if int(number) % EVERY == SLOW:
            await asyncio.sleep(4.0)
        await (await payments.send(value=value))


app.main()

"""Copy records with aiokafka as its first pages show it: positions are committed by themselves."""

import asyncio
import os

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

SERVERS = os.environ["KAFKA_BOOTSTRAP_SERVERS"]


async def main() -> None:
    """Copy until the end."""
    consumer = AIOKafkaConsumer(
        os.environ["HIGHWATER_IN"],
        bootstrap_servers=SERVERS,
        group_id=os.environ["HIGHWATER_GROUP"],
        auto_offset_reset="earliest",
        auto_commit_interval_ms=1000,
    )
    producer = AIOKafkaProducer(bootstrap_servers=SERVERS)
    async with consumer, producer:
        async for record in consumer:
            await producer.send(os.environ["HIGHWATER_OUT"], record.value)


asyncio.run(main())

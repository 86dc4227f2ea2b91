"""Copy records with aiokafka: an output is awaited before its position is committed."""

import asyncio
import os
import signal

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

SERVERS = os.environ["KAFKA_BOOTSTRAP_SERVERS"]


async def main() -> None:
    """Copy until SIGTERM."""
    consumer = AIOKafkaConsumer(
        os.environ["HIGHWATER_IN"],
        bootstrap_servers=SERVERS,
        group_id=os.environ["HIGHWATER_GROUP"],
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    producer = AIOKafkaProducer(bootstrap_servers=SERVERS, enable_idempotence=True)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    async with consumer, producer:
        while not ended.is_set():
            for records in (await consumer.getmany(timeout_ms=500, max_records=50)).values():
                for record in records:
                    await producer.send_and_wait(os.environ["HIGHWATER_OUT"], record.value)
            await consumer.commit()


asyncio.run(main())

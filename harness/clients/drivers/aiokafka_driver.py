"""A client driver with aiokafka, of any release since 0.12 (docs/driver.md)."""

import asyncio
import itertools
import json
import logging
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import aiokafka
from aiokafka import TopicPartition
from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.errors import (
    BrokerResponseError,
    IllegalStateError,
    KafkaConnectionError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
)

Request = dict[str, Any]
LATE_S = 0.1
UNREACHED = {"NoBrokersAvailable", "KafkaConnectionError", "KafkaTimeoutError"}
"""Errors after which the caller may repeat a call, because no broker responded."""

FATAL = {"ProducerFenced", "ProducerClosed", "IllegalStateError"} | {
    "TransactionalIdAuthorizationFailed",
    "ClusterAuthorizationFailedError",
}
COMMON = {
    "client.id": "client_id",
    "topic.metadata.refresh.interval.ms": "metadata_max_age_ms",
}
WRITES = {
    **COMMON,
    "batch.size": "max_batch_size",
    "enable.idempotence": "enable_idempotence",
    "linger.ms": "linger_ms",
    "message.max.bytes": "max_request_size",
    "retry.backoff.ms": "retry_backoff_ms",
    "transaction.timeout.ms": "transaction_timeout_ms",
    "transactional.id": "transactional_id",
}
READS = {
    **COMMON,
    "check.crcs": "check_crcs",
    "fetch.error.backoff.ms": "retry_backoff_ms",
    "fetch.message.max.bytes": "max_partition_fetch_bytes",
    "fetch.wait.max.ms": "fetch_max_wait_ms",
    "group.id": "group_id",
    "heartbeat.interval.ms": "heartbeat_interval_ms",
    "isolation.level": "isolation_level",
    "max.poll.interval.ms": "max_poll_interval_ms",
    "session.timeout.ms": "session_timeout_ms",
    "socket.timeout.ms": "request_timeout_ms",
}


def renamed(config: Request, names: dict[str, str]) -> Request:
    """Return settings under aiokafka's names; leave out settings that aiokafka does not have."""
    ours = {names[name]: value for name, value in config.items() if name in names}
    return {**ours, "bootstrap_servers": config["bootstrap.servers"].split(",")}


def producing(config: Request) -> Request:
    """Return the settings of an ``AIOKafkaProducer``.

    aiokafka has no timeout for a delivery. Its timeout for requests also limits a delivery.
    """
    times = (config[f"{name}.timeout.ms"] for name in ("socket", "request", "message"))
    codec = config["compression.type"]
    return {
        **renamed(config, WRITES),
        "acks": "all" if config["acks"] == "all" else int(config["acks"]),
        "compression_type": None if codec == "none" else codec,
        "request_timeout_ms": min(times),
    }


def reading(config: Request) -> Request:
    """Return the settings of an ``AIOKafkaConsumer``."""
    reset = config.get("auto.offset.reset", "error")
    return {
        **renamed(config, READS),
        "auto_offset_reset": "none" if reset == "error" else reset,
        "enable_auto_commit": False,
        "fetch_max_bytes": config.get("queued.max.messages.kbytes", 16_384) * 1024,
    }


def answer(number: int, **words: object) -> None:
    """Write the response to request ``number``, or event ``number`` of the group."""
    sys.stdout.write(json.dumps({"id": number, **words}) + "\n")
    sys.stdout.flush()


def failed(number: int, raised: BaseException, **words: object) -> None:
    """Write an exception as the response to request ``number``."""
    name = type(raised).__name__
    code = raised.errno if isinstance(raised, BrokerResponseError) else -1
    words = {"again": name in UNREACHED, "fatal": name in FATAL, "message": str(raised), **words}
    answer(number, error=name, code=code, **words)


def offsets(request: Request) -> dict[TopicPartition, int]:
    """Return the offsets in a request, by partition."""
    return {TopicPartition(request["topic"], int(at)): to for at, to in request["offsets"].items()}


class AiokafkaClient:
    """A client that starts at its first request, because the start waits for a broker."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.calls: dict[str, Callable[[Request], Awaitable[object]]] = {}
        self.client: Any = None
        self.started = False
        self._make = make
        self._starting = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    async def opened(self) -> Any:  # noqa: ANN401 - aiokafka has no types
        """Start aiokafka's client if needed; return it."""
        async with self._starting:
            if self.client is None:
                self.client = self._make()
            if not self.started:
                await self.client.start()
                self.started = True
        return self.client

    def serve(self, request: Request) -> None:
        """Begin to execute a request."""
        if request["op"] not in self.calls:
            answer(request["id"], error="UNKNOWN_REQUEST", queued=False)
            return
        task = asyncio.create_task(self._call(request))
        self._tasks.add(task)  # without this reference, Python may delete the task
        task.add_done_callback(self._tasks.discard)

    async def _call(self, request: Request) -> None:
        try:
            words = await self.calls[request["op"]](request)
        except Exception as raised:  # noqa: BLE001 - the response has any error
            failed(request["id"], raised)
        else:
            answer(request["id"], **(words if isinstance(words, dict) else {}))


class AiokafkaProducer(AiokafkaClient):
    """A producer. One task sends records in the order of their arrival."""

    def __init__(self, config: Request) -> None:
        super().__init__(lambda: aiokafka.AIOKafkaProducer(**producing(config)))
        self._records: asyncio.Queue[Request] = asyncio.Queue()
        self._sending = asyncio.create_task(self._send_all())
        self.calls = {
            "reach": self._reach,
            "init": lambda _: self.opened(),  # done by the producer's start
            **dict.fromkeys(("begin", "commit", "abort"), self._transact),
            "offsets": self._add_offsets,
        }

    def serve(self, request: Request) -> None:
        """Queue a record, or begin to execute another request."""
        if request["op"] == "send":
            self._records.put_nowait(request)
        else:
            super().serve(request)

    async def _send_all(self) -> None:
        while True:
            request = await self._records.get()
            number, place = request["id"], {"partition": request["partition"]}
            try:
                producer = await self.opened()
                future = await producer.send(request["topic"], request["value"].encode(), **place)
            except Exception as raised:  # noqa: BLE001 - an error means: not queued
                failed(number, raised, **self._refused())
            else:
                future.add_done_callback(lambda sent, to=number: written(to, sent))

    def _refused(self) -> Request:
        """Return fields of the response for an exception from ``send``: the record is not queued.

        If the producer's sender task has ended, the error is fatal: every later record fails, too.
        """
        sender = self.client._sender.sender_task if self.client else None  # noqa: SLF001 - it is not public
        ended = {"fatal": True} if sender is not None and sender.done() else {}
        return {"queued": False, "again": False, **ended}

    async def _reach(self, request: Request) -> None:
        await (await self.opened()).partitions_for(request["topic"])

    async def _transact(self, request: Request) -> None:
        await getattr(await self.opened(), f"{request['op']}_transaction")()

    async def _add_offsets(self, request: Request) -> None:
        producer = await self.opened()
        await producer.send_offsets_to_transaction(offsets(request), request["member"])


def written(number: int, sent: "asyncio.Future[Any]") -> None:
    """Respond to a send. With acks=0 the response has no offset."""
    if sent.cancelled():
        return
    raised, record = sent.exception(), None if sent.exception() else sent.result()
    if raised is not None:
        failed(number, raised, again=False)
    else:
        answer(number, offset=None if record is None else record.offset)


class AiokafkaConsumer(AiokafkaClient, ConsumerRebalanceListener):  # type: ignore[misc]  # no types
    """A consumer and its rebalance listener, which gets events even while the client starts."""

    def __init__(self, config: Request) -> None:
        super().__init__(self._made)
        self._config = {"group_id": None, **reading(config)}
        self._topic, self._member = "", False
        self._positions: dict[int, int] = {}
        self._seeks: dict[int, int] = {}
        self._polling: asyncio.Task[tuple[Any, dict[int, int]]] | None = None
        self._numbers = itertools.count(1)
        self._events: dict[int, asyncio.Event] = {}
        self.calls = {
            "subscribe": self._subscribe,
            "seek": self._seek,
            "handled": self._handle,
            "poll": self._poll,
            "bounds": self._bounds,
            "committed": self._committed,
            "commit": lambda request: self.client.commit(offsets(request)),
            "member": self._name,
            "close": self._leave,
        }

    def _made(self) -> Any:  # noqa: ANN401 - aiokafka has no types
        consumer = aiokafka.AIOKafkaConsumer(**self._config)
        if self._member:
            consumer.subscribe([self._topic], listener=self)
        else:
            consumer.assign([TopicPartition(self._topic, number) for number in self._positions])
        return consumer

    async def opened(self) -> Any:  # noqa: ANN401 - the same
        """Return aiokafka's client. After its start, first seek to the requested positions."""
        started = self.started
        consumer = await super().opened()
        if not started:
            self._move(self._positions)
        return consumer

    def _move(self, positions: dict[int, int]) -> None:
        for number, offset in positions.items():
            if offset >= 0:
                self.client.seek(TopicPartition(self._topic, number), offset)

    async def _subscribe(self, request: Request) -> None:
        self._topic, self._member = request["topic"], True

    async def _seek(self, request: Request) -> None:
        positions = {int(number): offset for number, offset in request["offsets"].items()}
        more = not positions.keys() <= self._positions.keys()
        if more and self._member:
            raise IllegalStateError("not assigned")
        self._topic = request["topic"]
        self._positions |= positions
        self._seeks |= {at: self._seeks.get(at, 0) + 1 for at in positions}
        if self.started and more:  # the new assignment has no positions
            self.client.assign([TopicPartition(self._topic, at) for at in self._positions])
        if self.started:
            self._move(self._positions if more else positions)

    async def _handle(self, request: Request) -> None:
        self._events.pop(request["event"]).set()

    async def _poll(self, request: Request) -> Request:
        """Return the next records. During a rebalance aiokafka waits, so return no records then."""
        wait_s = request["wait_ms"] / 1000
        if self._polling is None:
            self._polling = asyncio.create_task(self._get(wait_s, request["max"]))
        await asyncio.wait([self._polling], timeout=wait_s + LATE_S)
        if not self._polling.done():
            return {}
        done, self._polling = self._polling, None
        try:
            polled, seeks = done.result()
        except OffsetOutOfRangeError as raised:
            return {"out_of_range": {at.partition: to for at, to in raised.args[0].items()}}
        except NoOffsetForPartitionError:  # aiokafka fetched before the event was handled
            return {}
        fresh = {
            place.partition: records
            for place, records in polled.items()
            if seeks.get(place.partition) == self._seeks.get(place.partition)
        }
        self._positions |= {
            number: records[-1].offset + 1
            for number, records in fresh.items()
            if number in self._positions
        }
        return {"records": [read(record) for records in fresh.values() for record in records]}

    async def _get(self, wait_s: float, most: int) -> tuple[Any, dict[int, int]]:
        """Return a poll's records by partition, and partition -> number of seeks so far."""
        consumer = await self.opened()
        polled = await consumer.getmany(timeout_ms=int(wait_s * 1000), max_records=most)
        return polled, dict(self._seeks)

    async def _bounds(self, request: Request) -> Request:
        if not self.started:  # the client may be starting, until an event is handled
            raise KafkaConnectionError
        place = TopicPartition(request["topic"], request["partition"])
        first = await self.client.beginning_offsets([place])
        end = await self.client.end_offsets([place])
        return {"first": first[place], "end": end[place]}

    async def _committed(self, request: Request) -> Request:
        there = {
            number: await self.client.committed(TopicPartition(request["topic"], number))
            for number in request["partitions"]
        }
        return {"offsets": {at: offset for at, offset in there.items() if offset is not None}}

    async def _name(self, _: Request) -> Request:
        return {"member": self._config["group_id"]}  # aiokafka's producer needs only the group id

    async def _leave(self, _: Request) -> None:
        if self.client is not None:
            await self.client.stop()

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Report that partitions are revoked, and wait until the harness has handled the event."""
        for place in revoked:
            self._positions.pop(place.partition, None)
        await self._happened("revoked", revoked)

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Report that partitions are assigned, and wait until the harness has handled the event."""
        self._positions |= {place.partition: -1 for place in assigned}
        await self._happened("assigned", assigned)

    async def _happened(self, event: str, places: Iterable[TopicPartition]) -> None:
        number, partitions = next(self._numbers), sorted(place.partition for place in places)
        self._events[number] = handled = asyncio.Event()
        generation = max(0, self.client._coordinator.generation)  # noqa: SLF001 - it is not public
        answer(number, event=event, partitions=partitions, generation=generation)
        await handled.wait()


def text(data: bytes | None) -> str | None:
    """Return a key or value as text."""
    return None if data is None else data.decode("utf-8", "backslashreplace")


def read(record: Any) -> Request:  # noqa: ANN401 - aiokafka has no types
    """Return a record in the form of the driver's specification."""
    return {
        "partition": record.partition,
        "offset": record.offset,
        "value": text(record.value),
        "key": text(record.key),
        "timestamp_ms": record.timestamp or 0,
    }


async def main() -> None:
    """Execute requests until the input ends."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    opening = json.loads(sys.stdin.readline())
    opened = AiokafkaProducer if opening["role"] == "producer" else AiokafkaConsumer
    client = opened(opening["config"])
    answer(opening["id"], library=f"aiokafka {aiokafka.__version__}")
    loop = asyncio.get_running_loop()

    def take() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(client.serve, json.loads(line))
        os._exit(0)

    threading.Thread(target=take, daemon=True).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())

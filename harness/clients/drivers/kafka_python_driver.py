"""A client driver with kafka-python, of any release since 2.1 (docs/driver.md)."""

import itertools
import json
import logging
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import kafka
from kafka.errors import BrokerResponseError, KafkaError, OffsetOutOfRangeError
from kafka.structs import OffsetAndMetadata, TopicPartition

Request = dict[str, Any]
BLOCKS_MS = 5_000
"""The time limit, in milliseconds, of a call that waits for brokers."""

WRITES_S = 0.02
"""A producer writes a record to its connection within this number of seconds."""

UNREACHED = {"NoBrokersAvailable", "KafkaConnectionError", "KafkaTimeoutError"}
"""Errors after which the caller may repeat a call, because no broker responded."""

FATAL = {"ProducerFencedError", "IllegalStateError", "ClusterAuthorizationFailedError"} | {
    "TransactionalIdAuthorizationFailedError"
}
RENAMED = {
    "topic.metadata.refresh.interval.ms": "metadata_max_age_ms",
    "message.max.bytes": "max_request_size",
    "message.timeout.ms": "delivery_timeout_ms",
    "socket.send.buffer.bytes": "send_buffer_bytes",
    "socket.timeout.ms": "request_timeout_ms",
    "fetch.wait.max.ms": "fetch_max_wait_ms",
    "fetch.message.max.bytes": "max_partition_fetch_bytes",
    "fetch.error.backoff.ms": "retry_backoff_ms",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
}
"""Settings whose names in librdkafka and kafka-python differ in more than the dots."""

WRITES: Request = kafka.KafkaProducer.DEFAULT_CONFIG


def settings(config: Request, supported: Request, **more: object) -> Request:
    """Return the settings that this release of the library supports."""
    ours = {RENAMED.get(name, name.replace(".", "_")): value for name, value in config.items()}
    ours.setdefault("metadata_max_age_ms", 1_000)  # a new topic may be missing in old metadata
    ours |= {"bootstrap_timeout_ms": BLOCKS_MS, "metrics_enabled": False, **more}
    ours["bootstrap_servers"] = config["bootstrap.servers"].split(",")
    ours["security_protocol"] = config.get("security.protocol", "plaintext").upper()
    ours["ssl_check_hostname"] = config.get("ssl.endpoint.identification.algorithm") != "none"
    return {name: value for name, value in ours.items() if name in supported}


def producing(config: Request) -> Request:
    """Return the settings of a ``KafkaProducer``."""
    delivery_ms, codec = config["message.timeout.ms"], config["compression.type"]
    request_ms = min(config["socket.timeout.ms"], config["request.timeout.ms"])
    return settings(
        config,
        WRITES,
        acks="all" if config["acks"] == "all" else int(config["acks"]),
        compression_type=None if codec == "none" else codec,
        request_timeout_ms=max(1, min(request_ms, delivery_ms - config["linger.ms"])),
        max_block_ms=min(BLOCKS_MS, delivery_ms),
        bootstrap_timeout_ms=min(BLOCKS_MS, delivery_ms),
    )


def reading(config: Request) -> Request:
    """Return the settings of a ``KafkaConsumer``."""
    reset = config.get("auto.offset.reset", "error")
    return settings(
        config,
        kafka.KafkaConsumer.DEFAULT_CONFIG,
        group_id=config.get("group.id"),
        auto_offset_reset="none" if reset == "error" else reset,
        enable_auto_commit=False,
        fetch_max_bytes=config.get("queued.max.messages.kbytes", 16_384) * 1024,
        max_poll_records=5_000,
    )


writing = threading.Lock()


def answer(number: int, **words: object) -> None:
    """Write the response to request ``number``, or event ``number`` of the group."""
    line = json.dumps({"id": number, **words}) + "\n"
    with writing:
        sys.stdout.write(line)
        sys.stdout.flush()


def failed(number: int, raised: BaseException, **words: object) -> None:
    """Write an exception as the response to request ``number``."""
    name = type(raised).__name__
    code = raised.errno if isinstance(raised, BrokerResponseError) else None
    words = {"again": name in UNREACHED, "fatal": name in FATAL, "message": str(raised), **words}
    answer(number, error=name, code=-1 if code is None else code, **words)


def placed(request: Request) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the offsets in a request, by partition."""
    topic, offsets = request["topic"], request["offsets"].items()
    return {TopicPartition(topic, int(at)): OffsetAndMetadata(to, "", -1) for at, to in offsets}


def metadata(member: str | list[Any]) -> Any:  # noqa: ANN401 - kafka-python has no types
    """Return a group member's metadata; for a group without members, the group's name."""
    return member if isinstance(member, str) else kafka.ConsumerGroupMetadata(*member)


class KafkaPythonClient:
    """A client that opens at its first request, because opening waits for a broker.

    A call of kafka-python may never return. So most calls have their own threads.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self.calls: dict[str, Callable[[Request], object]] = {}
        self.opening = threading.Lock()
        self.client: Any = None
        self._make = make

    def opened(self) -> Any:  # noqa: ANN401 - kafka-python has no types
        """Open kafka-python's client if needed; return it."""
        with self.opening:
            if self.client is None:
                try:
                    self.client = self._make()
                except KafkaError:
                    raise
                except Exception as refused:  # noqa: BLE001 - the library refuses a setting
                    print(f"kafka-python refuses the client's settings: {refused}", file=sys.stderr)
                    os._exit(1)
            return self.client

    def serve(self, _: float, request: Request) -> None:
        """Begin to execute a request."""
        if request["op"] in self.calls:
            threading.Thread(target=self._call, args=(request,), daemon=True).start()
        else:
            answer(request["id"], error="UNKNOWN_REQUEST", queued=False)

    def _call(self, request: Request) -> None:
        try:
            words = self.calls[request["op"]](request)
        except Exception as raised:  # noqa: BLE001 - the response has any error
            failed(request["id"], raised)
        else:
            answer(request["id"], **(words if isinstance(words, dict) else {}))


class KafkaPythonProducer(KafkaPythonClient):
    """A producer. It sends records in the thread that reads the requests."""

    def __init__(self, config: Request) -> None:
        super().__init__(lambda: kafka.KafkaProducer(**producing(config)))
        self._numbered = config["acks"] != "0"
        self._unwritten: queue.SimpleQueue[int] = queue.SimpleQueue()
        threading.Thread(target=self._answer_later, daemon=True).start()
        self._in_vain: tuple[float, Exception] = (0.0, KafkaError())
        self.calls = {
            "reach": lambda request: self.opened().partitions_for(request["topic"]),
            "init": lambda _: self.opened().init_transactions(),
            "begin": lambda _: self.opened().begin_transaction(),
            "offsets": lambda request: self.opened().send_offsets_to_transaction(
                placed(request), metadata(request["member"])
            ),
            "commit": lambda _: self.opened().commit_transaction(),
            "abort": lambda _: self.opened().abort_transaction(),
        }

    def serve(self, arrived: float, request: Request) -> None:
        """Send a record, or begin another call."""
        if request["op"] != "send":
            super().serve(arrived, request)
        elif arrived < self._in_vain[0]:
            failed(request["id"], self._in_vain[1], queued=False)
        else:
            self._send(request)

    def _send(self, request: Request) -> None:
        """Send a record. If kafka-python reaches no broker in time, refuse the record.

        ``serve`` then also refuses the records that arrived during this wait.
        """
        number, value = request["id"], request["value"].encode()
        try:
            future = self.opened().send(request["topic"], value, partition=request["partition"])
        except OSError as raised:  # the record may be queued
            failed(number, raised)
        except Exception as raised:  # noqa: BLE001 - other errors mean: not queued
            failed(number, raised, queued=False)
            if type(raised).__name__ in UNREACHED:
                self._in_vain = time.monotonic(), raised
        else:
            future.add_callback(lambda record: self._sent(number, record))
            future.add_errback(lambda raised: failed(number, raised))

    def _sent(self, number: int, record: Any) -> None:  # noqa: ANN401 - kafka-python has no types
        if self._numbered:
            answer(number, offset=record.offset)
        else:
            self._unwritten.put(number)

    def _answer_later(self) -> None:
        """Respond to sends with acks=0, but wait for ``WRITES_S`` seconds first.

        kafka-python reports such records before it writes them to the connection.
        """
        while True:
            numbers = [self._unwritten.get()]
            while not self._unwritten.empty():
                numbers.append(self._unwritten.get())
            time.sleep(WRITES_S)
            for number in numbers:
                answer(number)


Listener: Any = getattr(kafka, "AsyncConsumerRebalanceListener", object)
"""The base class of a listener on a consumer's event loop, since 3.0."""


class KafkaPythonConsumer(KafkaPythonClient, Listener):  # type: ignore[misc]  # kafka-python has no types
    """A consumer. Its poll waits while the harness handles an event of the group."""

    def __init__(self, config: Request) -> None:
        super().__init__(self._made)
        self._config = reading(config)
        self._topic, self._member = "", False
        self._positions: dict[int, int] = {}
        self._numbers, self._unhandled = itertools.count(1), set[int]()
        self._changed, self._polling = threading.Condition(), False
        self.calls = {
            "poll": self._poll,
            "bounds": self._bounds,
            "committed": self._committed,
            "commit": lambda request: self.opened().commit(placed(request), timeout_ms=BLOCKS_MS),
            "member": lambda _: {"member": list(self.opened().group_metadata())},
            "close": lambda _: self.opened().close(autocommit=False, timeout_ms=BLOCKS_MS),
        }

    def _made(self) -> Any:  # noqa: ANN401 - kafka-python has no types
        consumer = kafka.KafkaConsumer(**self._config)
        if self._member:
            consumer.subscribe([self._topic], listener=self)
        else:
            self._move(consumer, self._positions)
        return consumer

    def _move(self, consumer: Any, offsets: dict[int, int]) -> None:  # noqa: ANN401 - the same
        if not self._member:
            consumer.assign([TopicPartition(self._topic, number) for number in self._positions])
        for number, offset in offsets.items():
            consumer.seek(TopicPartition(self._topic, number), offset)

    def serve(self, arrived: float, request: Request) -> None:
        """Execute a request, or begin to execute it."""
        op = request["op"]
        if op == "seek":
            self._seek(request)
        elif op == "handled":
            self._unhandled.discard(request["event"])
            answer(request["id"])
        elif op == "subscribe":
            self._member, self._topic = True, request["topic"]
            answer(request["id"])
        else:
            self._polling |= op == "poll"
            super().serve(arrived, request)

    def _seek(self, request: Request) -> None:
        """Continue at these offsets.

        First wait until the running poll ends, or until the group has an event to handle.
        """
        offsets = {int(number): offset for number, offset in request["offsets"].items()}
        with self._changed:
            self._changed.wait_for(lambda: not self._polling or self._unhandled)
            if self._member and not offsets.keys() <= self._positions.keys():
                answer(request["id"], error="IllegalStateError", message="not assigned")
                return
            with self.opening:
                self._topic = request["topic"]
                self._positions |= offsets
                if self.client is not None:
                    self._move(self.client, offsets)
            answer(request["id"])

    def _call(self, request: Request) -> None:
        super()._call(request)
        if request["op"] == "poll":
            with self._changed:
                self._polling = False
                self._changed.notify_all()

    def _poll(self, request: Request) -> Request:
        try:
            polled = self.opened().poll(timeout_ms=request["wait_ms"], max_records=request["max"])
        except KafkaError as raised:
            if out_of_range := self._stranded(raised):
                return {"out_of_range": out_of_range}
            raise
        for place, records in polled.items():
            if place.partition in self._positions:
                self._positions[place.partition] = records[-1].offset + 1
        return {"records": [read(record) for records in polled.values() for record in records]}

    def _stranded(self, raised: KafkaError) -> dict[int, int]:
        if isinstance(raised, OffsetOutOfRangeError) and isinstance(raised.args[0], dict):
            return {place.partition: offset for place, offset in raised.args[0].items()}
        ends = getattr(raised, "divergent_offsets", {})  # of a LogTruncationError
        here = self._positions
        return {at.partition: end.offset if end else here[at.partition] for at, end in ends.items()}

    def _bounds(self, request: Request) -> Request:
        place = TopicPartition(request["topic"], request["partition"])
        first = self.opened().beginning_offsets([place])[place]
        return {"first": first, "end": self.opened().end_offsets([place])[place]}

    def _committed(self, request: Request) -> Request:
        offsets = {
            number: self.opened().committed(
                TopicPartition(request["topic"], number), timeout_ms=BLOCKS_MS
            )
            for number in request["partitions"]
        }
        return {"offsets": {at: offset for at, offset in offsets.items() if offset is not None}}

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Report that partitions are revoked."""
        await self._happened("revoked", revoked)

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Report that partitions are assigned."""
        await self._happened("assigned", assigned)

    async def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
        """Report that the group has removed the member."""
        await self._happened("lost", lost)

    async def _happened(self, event: str, places: Iterable[TopicPartition]) -> None:
        number, partitions = next(self._numbers), sorted(place.partition for place in places)
        generation = max(0, self.client.group_metadata().generation_id)
        with self._changed:
            self._positions |= dict.fromkeys(partitions, 0)
            if event != "assigned":
                for partition in partitions:
                    del self._positions[partition]
            self._unhandled.add(number)
            answer(number, event=event, partitions=partitions, generation=generation)
            self._changed.notify_all()
        while number in self._unhandled:
            await self.client._net.sleep(0.005)  # noqa: SLF001 - of its event loop


def text(data: bytes | None) -> str | None:
    """Return a key or value as text."""
    return None if data is None else data.decode("utf-8", "backslashreplace")


def read(record: Any) -> Request:  # noqa: ANN401 - kafka-python has no types
    """Return a record in the form of the driver's specification."""
    place = {"partition": record.partition, "offset": record.offset}
    epoch = getattr(record, "leader_epoch", None)
    return {
        **place,
        "value": text(record.value),
        "epoch": epoch if epoch is not None and epoch >= 0 else None,
        "key": text(record.key),
        "timestamp_ms": record.timestamp or 0,
    }


requests: "queue.SimpleQueue[tuple[float, str]]" = queue.SimpleQueue()


def take() -> None:
    """Read requests from the standard input. Put each into a queue with its time of arrival."""
    for line in sys.stdin:
        requests.put((time.monotonic(), line))
    os._exit(0)


def missing(config: Request) -> str:
    """Return why this release does not support these settings; empty if it does."""
    if config.get("enable.idempotence") and "enable_idempotence" not in WRITES:
        return "this release has no idempotent producers"
    lacks_groups = "group.id" in config and Listener is object
    return "this release cannot join a group" if lacks_groups else ""


def main() -> None:
    """Execute requests until the input ends."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    opening = json.loads(sys.stdin.readline())
    opened = KafkaPythonProducer if opening["role"] == "producer" else KafkaPythonConsumer
    if lacks := missing(opening["config"]):
        answer(opening["id"], error="UNSUPPORTED_VERSION", message=lacks)
        return
    client = opened(opening["config"])
    answer(opening["id"], library=f"kafka-python {kafka.__version__}")
    threading.Thread(target=take, daemon=True).start()
    while True:
        arrived, line = requests.get()
        client.serve(arrived, json.loads(line))


if __name__ == "__main__":
    main()

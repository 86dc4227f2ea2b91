"""A client driver with confluent-kafka (librdkafka) of any release (docs/driver.md)."""

import contextlib
import itertools
import json
import os
import queue
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from confluent_kafka import (
    OFFSET_STORED,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
    libversion,
)

Request = dict[str, Any]
requests: "queue.SimpleQueue[Request | None]" = queue.SimpleQueue()
events = itertools.count(1)
positions: dict[int, int] = {}
"""Assigned partition to the offset of the next record."""


def read() -> None:
    """Read the requests in a thread of its own, so that the producer can call its callbacks."""
    for line in sys.stdin:
        requests.put(json.loads(line))
    requests.put(None)


def answer(number: int, **words: object) -> None:
    """Write the response to request ``number``, or event ``number`` of the group."""
    print(json.dumps({"id": number, **words}), flush=True)


def failed(number: int, error: KafkaError, **words: object) -> None:
    """Write an error as the response to request ``number``. librdkafka's own errors get code -1."""
    words |= {"code": max(error.code(), -1), "message": error.str(), "fatal": error.fatal()}
    answer(number, error=error.name(), again=error.retriable(), **words)


def delivered(number: int, error: KafkaError | None, record: Message) -> None:
    """Respond to a send."""
    if error is not None:
        failed(number, error)
    else:
        offset = record.offset()
        answer(number, offset=None if offset is None or offset < 0 else offset)


def send(producer: Producer, request: Request) -> None:
    """Send a record. Its delivery report becomes the response."""
    value, answered = request["value"].encode(), partial(delivered, request["id"])
    try:
        producer.produce(
            request["topic"], value, partition=request["partition"], on_delivery=answered
        )
    except KafkaException as raised:
        failed(request["id"], raised.args[0], queued=False)


def placed(request: Request) -> list[TopicPartition]:
    """Return the offsets in a request, by partition."""
    there = request["offsets"].items()
    return [TopicPartition(request["topic"], int(number), offset) for number, offset in there]


def seek(consumer: Consumer, request: Request) -> None:
    """Read partitions from these offsets. The consumer may already read some of them."""
    places = placed(request)
    offsets = {at.partition: at.offset for at in places}
    if eager and not offsets.keys() <= positions.keys():  # these partitions were just revoked
        raise KafkaException(KafkaError(KafkaError._STATE))  # noqa: SLF001 - its public name
    positions.update(offsets)
    if eager:  # a member of a classic group can only replace its complete assignment
        consumer.assign([TopicPartition(request["topic"], *place) for place in positions.items()])
        return
    consumer.incremental_unassign([at for at in consumer.assignment() if at.partition in offsets])
    consumer.incremental_assign(places)


def rebalanced(event: str, consumer: Consumer, places: list[TopicPartition]) -> None:
    """Report an event of the group. Execute requests until the harness has handled it."""
    for place in places:
        positions[place.partition] = OFFSET_STORED
        if event != "assigned":
            del positions[place.partition]
    numbers = [place.partition for place in places]
    answer(next(events), event=event, partitions=numbers)
    while (request := requests.get()) is not None and request["op"] != "handled":
        serve(consumer, request)
    if request is None:
        os._exit(0)
    if event == "assigned" and not places:
        (consumer.assign if eager else consumer.incremental_assign)([])
    answer(request["id"])


def subscribe(consumer: Consumer, request: Request) -> None:
    """Join the group."""
    consumer.subscribe(
        [request["topic"]],
        on_assign=partial(rebalanced, "assigned"),
        on_revoke=partial(rebalanced, "revoked"),
        on_lost=partial(rebalanced, "lost"),
    )


def committed(consumer: Consumer, request: Request) -> Request:
    """Return the group's committed offsets."""
    places = [TopicPartition(request["topic"], number) for number in request["partitions"]]
    there = consumer.committed(places, timeout=5)
    return {"offsets": {str(at.partition): at.offset for at in there if at.offset >= 0}}


def commit(consumer: Consumer, request: Request) -> None:
    """Commit offsets of the group."""
    consumer.commit(offsets=placed(request), asynchronous=False)


def member(consumer: Consumer, _: Request) -> Request:
    """Return the member's metadata. It is bytes, which latin-1 decodes to text."""
    return {"member": consumer.consumer_group_metadata().decode("latin-1")}


def offsets(producer: Producer, request: Request) -> None:
    """Add offsets of a member's group to the transaction."""
    metadata = request["member"].encode("latin-1")
    producer.send_offsets_to_transaction(placed(request), metadata, 5)


def texts(**data: Any) -> Request:  # noqa: ANN401 - bytes, or str by confluent-kafka's types
    """Return each value as text: bytes are decoded, None stays None."""
    return {name: None if value is None else value.decode() for name, value in data.items()}


def poll(consumer: Consumer, request: Request) -> Request:
    """Return the next records, and the positions that are out of range."""
    records, out_of_range = [], {}
    for record in consumer.consume(request["max"], request["wait_ms"] / 1000):
        error, partition = record.error(), record.partition()
        if error is None:
            place = {"partition": partition, "offset": record.offset()}
            about = {"epoch": record.leader_epoch(), "timestamp_ms": record.timestamp()[1]}
            records.append({**place, **about, **texts(key=record.key(), value=record.value())})
            if partition in positions:
                positions[partition] = (record.offset() or 0) + 1
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001 - its public name
            # librdkafka names no offset if the log was truncated (KIP-320)
            out_of_range[str(partition)] = record.offset() or 0
        else:
            print(error, file=sys.stderr, flush=True)
    return {"records": records, "out_of_range": out_of_range}


def bounds(consumer: Consumer, request: Request) -> Request:
    """Return a partition's first offset, and its end offset for this isolation level."""
    place = TopicPartition(request["topic"], request["partition"])
    first, end = consumer.get_watermark_offsets(place, timeout=5)
    return {"first": first, "end": end}


PRODUCERS: dict[str, Callable[[Any, Request], object]] = {
    "reach": lambda producer, request: producer.list_topics(request["topic"], timeout=5),
    "init": lambda producer, _: producer.init_transactions(5),
    "begin": lambda producer, _: producer.begin_transaction(),
    "offsets": offsets,
    "commit": lambda producer, _: producer.commit_transaction(5),
    "abort": lambda producer, _: producer.abort_transaction(5),
}
CONSUMERS: dict[str, Callable[[Any, Request], object]] = {
    "seek": seek,
    "poll": poll,
    "bounds": bounds,
    "subscribe": subscribe,
    "committed": committed,
    "commit": commit,
    "member": member,
    "close": lambda consumer, _: consumer.close(),
}
DEFAULTS = {"group.id": "unused", "enable.auto.commit": False, "auto.offset.reset": "error"}


def serve(client: Producer | Consumer, request: Request) -> None:
    """Execute a request."""
    calls = PRODUCERS if isinstance(client, Producer) else CONSUMERS
    if request["op"] == "send" and isinstance(client, Producer):
        send(client, request)
    elif request["op"] in calls:
        try:
            words = calls[request["op"]](client, request)
        except KafkaException as raised:
            failed(request["id"], raised.args[0])
        else:
            answer(request["id"], **(words if isinstance(words, dict) else {}))
    else:
        answer(request["id"], error="UNKNOWN_REQUEST", queued=False)


eager = False
"""Whether each rebalance of the consumer's group revokes all partitions (false with KIP-848)."""


def main() -> None:
    """Execute requests until the input ends."""
    global eager  # noqa: PLW0603 - a driver has one consumer
    threading.Thread(target=read, daemon=True).start()
    opening = requests.get()
    if opening is None:
        return
    config = opening["config"]
    reads = opening["role"] == "consumer"
    eager = "group.id" in config and config.get("group.protocol") != "consumer"
    client = Consumer({**DEFAULTS, **config}) if reads else Producer(config)
    answer(opening["id"], library=f"librdkafka {libversion()[0]}")
    while True:
        if isinstance(client, Producer):
            with contextlib.suppress(KafkaException):  # a fatal error; the next answer has it
                client.poll(0)
        try:
            request = requests.get(timeout=0.001)
        except queue.Empty:
            continue
        if request is None:
            return
        serve(client, request)


if __name__ == "__main__":
    main()

"""A client driver with confluent-kafka, that is librdkafka, of any release (docs/driver.md)."""

import json
import queue
import sys
import threading
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer, libversion

requests: "queue.SimpleQueue[dict[str, Any] | None]" = queue.SimpleQueue()


def read() -> None:
    """Read the requests in a thread of its own, so that the producer is always served."""
    for line in sys.stdin:
        requests.put(json.loads(line))
    requests.put(None)


def answer(number: int, **words: object) -> None:
    """Answer a request."""
    print(json.dumps({"id": number, **words}), flush=True)


def failed(number: int, error: KafkaError, **words: object) -> None:
    """Answer with an error; numbers below zero are librdkafka's own."""
    words |= {"code": max(error.code(), -1), "message": error.str(), "fatal": error.fatal()}
    answer(number, error=error.name(), **words)


def delivered(number: int, error: KafkaError | None, record: Message) -> None:
    """Answer a send."""
    if error is not None:
        failed(number, error)
    else:
        offset = record.offset()
        answer(number, offset=None if offset is None or offset < 0 else offset)


def serve(producer: Producer, number: int, request: dict[str, Any]) -> None:
    """Do what a request says."""
    if request["op"] == "send":
        value, partition = request["value"].encode(), request["partition"]
        answered = partial(delivered, number)
        try:
            producer.produce(request["topic"], value, partition=partition, on_delivery=answered)
        except KafkaException as raised:
            failed(number, raised.args[0], queued=False)
    elif request["op"] == "reach":
        try:
            producer.list_topics(request["topic"], timeout=5)
        except KafkaException as raised:
            failed(number, raised.args[0])
        else:
            answer(number)
    else:
        answer(number, error="UNKNOWN_REQUEST", queued=False)


def main() -> None:
    """Serve requests until there are no more."""
    threading.Thread(target=read, daemon=True).start()
    opening = requests.get()
    if opening is None:
        return
    producer = Producer(opening["config"])
    answer(opening["id"], library=f"librdkafka {libversion()[0]}")
    while True:
        producer.poll(0)
        try:
            request = requests.get(timeout=0.001)
        except queue.Empty:
            continue
        if request is None:
            return
        serve(producer, request["id"], request)


main()

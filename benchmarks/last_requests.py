"""Measure the order in which a paused broker appends the last requests of closed clients.

``python -m benchmarks.last_requests KAFKA`` pauses the only broker of a cluster. Ten producers send
six requests each and close their connections. Then the benchmark resumes the broker and reads the
log. It does this ten times for acks=0, and ten times for acks=1. With ``--stay`` the producers
close their connections two seconds after the broker is resumed. The benchmark prints how many
producers have records in the log in another order than they sent them.
"""

import argparse
import contextlib
import tempfile
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition

from highwater.clusters.core.interfaces import Cluster
from highwater.clusters.drivers import open_cluster
from highwater.harness.releases.catalogue import release

ROUNDS: Final = 10
CLIENTS: Final = 10
REQUESTS: Final = 6
STAY_S: Final = 2.0
WRITE_S: Final = 0.3
LIMIT_S: Final = 20.0
NEVER: Final = threading.Event()


def measure(cluster: Cluster, acks: str, *, stay: bool) -> str:
    """Return a row: producers, records in the log, and producers with reordered records."""
    topic = f"acks-{acks}"
    cluster.create_topic(topic, [[1]], {})
    for number in range(ROUNDS):
        _freeze_and_leave(cluster, topic, acks, number, stay=stay)
    sequences: dict[str, list[int]] = defaultdict(list)
    for value in _read(cluster, topic):
        client, _, sequence = value.rpartition(".")
        sequences[client].append(int(sequence))
    swapped = sum(numbers != sorted(numbers) for numbers in sequences.values())
    records = sum(map(len, sequences.values()))
    sent = ROUNDS * CLIENTS * (REQUESTS + 1)
    return (
        f"| {cluster.release.name} | acks={acks} | {records} of {sent} records in the log"
        f" | {swapped} of {len(sequences)} producers out of order |"
    )


def _freeze_and_leave(cluster: Cluster, topic: str, acks: str, number: int, *, stay: bool) -> None:
    clients = [_producer(cluster, acks) for _ in range(CLIENTS)]
    for place, client in enumerate(clients):
        client.produce(topic, f"{number}.{place}.0", partition=0)
    for client in clients:
        client.flush(LIMIT_S)
    broker = cluster.brokers[1]
    broker.pause()
    for place, client in enumerate(clients):
        for sequence in range(1, REQUESTS + 1):
            client.produce(topic, f"{number}.{place}.{sequence}", partition=0)
    NEVER.wait(WRITE_S)  # with acks=1 no event says that the requests were written
    if stay:
        broker.resume()
        for client in clients:
            client.flush(LIMIT_S)
        NEVER.wait(STAY_S)
    for client in clients:
        client.purge()
        client.flush(LIMIT_S)
    del client
    clients.clear()  # closes every connection
    broker.resume()


def _producer(cluster: Cluster, acks: str) -> Producer:
    settings = {
        "acks": acks,
        "linger.ms": 0,
        "batch.num.messages": 1,
        "max.in.flight.requests.per.connection": REQUESTS,
    }
    return Producer(_common(cluster) | settings)


def _common(cluster: Cluster) -> dict[str, object]:
    address = {"bootstrap.servers": cluster.bootstrap, "broker.address.family": "v4"}
    return {**address, "log_level": 0, **cluster.client}


def _read(cluster: Cluster, topic: str) -> Iterator[str]:
    """Yield the values of the log in the order of offsets."""
    group = {"group.id": "reader", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    reader = Consumer(_common(cluster) | group)
    with contextlib.closing(reader):
        start = TopicPartition(topic, 0, 0)
        _, end = reader.get_watermark_offsets(start, timeout=LIMIT_S)
        reader.assign([start])
        count = 0
        while count < end:
            messages = reader.consume(1000, LIMIT_S)
            if not messages:
                raise TimeoutError(f"{topic} has {end} records, and {count} came in {LIMIT_S:g} s")
            for message in messages:
                count += 1
                yield (message.value() or b"").decode()


def main() -> None:
    """Print a row for acks=0 and a row for acks=1."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kafka")
    parser.add_argument("--stay", action="store_true")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cluster = open_cluster(
            release(chosen.kafka), Path(folder) / "run", brokers=1, broker_config={}
        )
        with contextlib.closing(cluster):
            for acks in ("0", "1"):
                print(measure(cluster, acks, stay=chosen.stay), flush=True)


if __name__ == "__main__":
    main()

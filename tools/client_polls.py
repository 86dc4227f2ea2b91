"""Test Java's new consumer when it loses a partition during a poll: docs/client-polls.json.

    python -m tools.client_polls [CLIENT ...]

Each trial has a group with ``group.protocol=consumer`` and no rebalance listener. A member's first
poll gets a record from each of two partitions. The member's deserializer blocks at the second
record, as if it waited for a schema registry. Meanwhile another member gets the second partition.
The application ignores exceptions of polls, and commits after each poll. If clients are named, only
these are tested.
"""

import contextlib
import logging
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import confluent_kafka
import msgspec
from confluent_kafka import TopicPartition
from py4j.protocol import Py4JJavaError

from highwater.clusters.brokers.real_cluster import RealCluster
from highwater.clusters.drivers import open_cluster
from highwater.harness.base.errors import HarnessError, WaitTimeoutError
from highwater.harness.base.waiting import await_condition
from highwater.harness.clients import client_config
from highwater.harness.clients.libraries import java_settings
from highwater.harness.clients.libraries.consumers.java_callbacks import CallbackGateway, interfaces
from highwater.harness.clients.libraries.consumers.java_records import parse
from highwater.harness.clients.libraries.java import JavaClients
from highwater.harness.releases.catalogue import MODERN, release
from highwater.harness.releases.group_protocols import CONSUMER, CONSUMER_SETTINGS
from highwater.harness.runs.plan import Plan
from highwater.runtime.client_libraries import open_library
from tools.clients_page import POLLS, ClientPolls, read_polls

CLIENTS: Final = tuple(f"java:{number}" for number in ("4.0.2", "4.1.2", "4.2.1", "4.3.1", "4.4.0"))
PLAYS: Final = 10

_FIRST, _REVOKED, _LATER = "first", "revoked", "later"
_LIMIT_S: Final = 30.0
_MOVES_S: Final = 5.0
"""The time in which the other member gets a partition: ten heartbeats."""

_POLL_S: Final = 0.2
_TRIES: Final = 20


class SlowText:
    """A deserializer of text, called by Java, that waits at the second partition's record."""

    Java = interfaces("org.apache.kafka.common.serialization.Deserializer")

    def __init__(self, text: Any) -> None:  # noqa: ANN401 - of Java
        self._text = text
        self.decoded: list[str] = []
        self.goes_on = threading.Event()

    def deserialize(self, *words: Any) -> str:  # noqa: ANN401 - of Java
        """Return a value as text."""
        value = str(self._text.deserialize(*words))
        self.decoded.append(value)
        if self.decoded == [_FIRST, _REVOKED]:
            self.goes_on.wait(_LIMIT_S)
        return value

    def configure(self, *_: object) -> None:
        """Do nothing; Java calls this."""

    close = configure


class PollingMember:
    """A group member in a separate thread, which commits after each poll with records."""

    def __init__(self, gateway: CallbackGateway, consumer: Any, topic: str) -> None:  # noqa: ANN401
        self._gateway = gateway
        self._consumer = consumer
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="member", daemon=True)
        self.given: list[str] = []
        self.errors: list[str] = []
        self.assigned = ""
        self._thread.start()

    def end(self) -> None:
        """Stop the member, which leaves its group."""
        self._stop.set()
        self._thread.join(_LIMIT_S)

    def _run(self) -> None:
        self._consumer.subscribe(self._gateway.list([self._topic]))
        while not self._stop.is_set():
            try:
                self._poll()
            except Py4JJavaError as raised:
                self.errors.append(self._gateway.error_of(raised.java_exception).name())
            self.assigned = str(self._consumer.assignment().toString())
        self._gateway.close_within(self._consumer, _POLL_S)

    def _poll(self) -> None:
        records = self._consumer.poll(self._gateway.duration(_POLL_S))
        if not records.isEmpty():
            read = parse(self._gateway.text_of_all(records))
            self.given += [bytes(message.value() or b"").decode() for message in read]
            self._consumer.commitSync()


class PollStage:
    """A broker and one release of Java's clients; each trial has its own topic and group."""

    def __init__(self, cluster: RealCluster, client: str, folder: Path) -> None:
        self._cluster = cluster
        self._log = client_config.open_log(folder / "clients.log")
        self._opened = open_library(Plan(kafka=cluster.release.name, client=client), folder)
        assert isinstance(self._opened.library, JavaClients)
        self._gateway = self._opened.library.with_callbacks()
        self._client = client
        self._topics = 0

    def close(self) -> None:
        """Close the library."""
        self._opened.close()
        client_config.close_log(self._log)

    def play(self) -> ClientPolls:
        """Run all trials."""
        results = [self._trial() for _ in range(PLAYS)]
        return ClientPolls(
            broker=self._cluster.release.name,
            client=self._client,
            plays=PLAYS,
            skipped=sum(skipped for skipped, _ in results),
            errors=sorted({error for _, errors in results for error in errors}),
        )

    def _trial(self) -> tuple[bool, list[str]]:
        """Run a trial; return whether the group skipped a record, and the first member's errors."""
        for _ in range(_TRIES):
            self._topics += 1
            topic = f"{self._client.replace(':', '-')}-{self._topics}"
            self._cluster.create_topic(topic, [[1], [1]], {})
            self._send(topic, {0: _FIRST, 1: _REVOKED})
            slow = SlowText(self._gateway.string_deserializer())
            first = PollingMember(self._gateway, self._consumer(topic, slow), topic)
            members = [first]
            try:
                await_condition(
                    lambda: len(slow.decoded),  # noqa: B023 - of this pass
                    lambda size: size > 1,
                    what="the first poll",
                    limit_s=_LIMIT_S,
                )
                if slow.decoded[0] == _FIRST:  # the order is that of a hash table
                    return self._rebalance(topic, slow, members), first.errors
            finally:
                slow.goes_on.set()
                for member in members:
                    member.end()
                self._gateway.forget_proxy(slow)
        raise HarnessError(f"{self._client} always reads the other partition first")

    def _rebalance(self, topic: str, slow: SlowText, members: list[PollingMember]) -> bool:
        other = PollingMember(self._gateway, self._consumer(topic), topic)
        members.append(other)
        with contextlib.suppress(
            WaitTimeoutError
        ):  # a correct client gives the partition up in its next poll
            await_condition(
                lambda: other.assigned,
                lambda assigned: f"{topic}-1" in assigned,
                what="the other member to get the partition",
                limit_s=_MOVES_S,
            )
        slow.goes_on.set()
        self._send(topic, {0: _LATER})
        await_condition(
            lambda: self._committed(topic),
            lambda offset: offset > 1,
            what="the group to go on",
            limit_s=_LIMIT_S,
        )
        return not any(_FIRST in member.given for member in members)

    def _consumer(self, topic: str, slow: SlowText | None = None) -> Any:  # noqa: ANN401 - of Java
        quirks = self._cluster.release.client
        common = client_config.common(self._cluster.bootstrap, topic, self._log, quirks=quirks)
        settings = client_config.consumer(common, group=topic, reset="earliest", protocol=CONSUMER)
        return self._gateway.consumer(java_settings.consumer(settings), slow)

    def _send(self, topic: str, values: dict[int, str]) -> None:
        producer = confluent_kafka.Producer({"bootstrap.servers": self._cluster.bootstrap})
        for partition, value in values.items():
            producer.produce(topic, value, partition=partition)
        assert producer.flush(_LIMIT_S) == 0

    def _committed(self, topic: str) -> int:
        log = logging.Logger("trial")  # noqa: LOG001 - ours alone, not global
        log.addHandler(logging.NullHandler())
        settings = {"bootstrap.servers": self._cluster.bootstrap, "group.id": topic, "logger": log}
        reader = confluent_kafka.Consumer(settings)
        try:
            [place] = reader.committed([TopicPartition(topic, 0)], timeout=_LIMIT_S)
            return int(place.offset)
        finally:
            reader.close()


def play(clients: tuple[str, ...], folder: Path) -> Iterator[ClientPolls]:
    """Run all trials of each client on one broker of the newest release."""
    settings = {**CONSUMER_SETTINGS, "group.initial.rebalance.delay.ms": "0"}
    place = folder / "cluster"
    opened = open_cluster(release(MODERN), place, brokers=1, broker_config=settings)
    with contextlib.closing(opened) as cluster:
        for client in clients:
            logs = folder / client.replace(":", "-")
            logs.mkdir()
            with contextlib.closing(PollStage(cluster, client, logs)) as stage:
                yield stage.play()


def main() -> None:
    """Run the trials; write each client's results at once."""
    clients = tuple(sys.argv[1:]) or CLIENTS
    with tempfile.TemporaryDirectory() as folder:
        for row in play(clients, Path(folder)):
            sys.stdout.write(f"{row}\n")
            sys.stdout.flush()
            others = [other for other in read_polls() if other.client != row.client]
            rows = sorted([*others, row], key=lambda row: row.client)
            POLLS.write_bytes(msgspec.json.format(msgspec.json.encode(rows), indent=1) + b"\n")


if __name__ == "__main__":
    main()

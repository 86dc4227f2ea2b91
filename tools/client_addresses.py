"""Test clients after another cluster gets a broker's address: docs/client-addresses.json.

python -m tools.client_addresses FOLDER [RELEASE ...]

Each client writes a record to a cluster with one broker or two. The tool kills broker 1, and starts
another cluster at broker 1's address, with a topic of the same name (KAFKA-20246, KIP-1242). Then
each client sends another record. If the first cluster has two brokers, broker 1 remains the leader
until its session ends, and broker 2's address is also a bootstrap address. The tool repeats this
``REPEATS`` times. Missing drivers (``tools.client_drivers``) are built in ``FOLDER``.
"""

import contextlib
import logging
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any, Final

import confluent_kafka
import msgspec
from confluent_kafka import KafkaException, TopicPartition

from highwater.clusters.brokers.real_cluster import RealCluster
from highwater.clusters.core.addresses import Address, AddressGroup
from highwater.clusters.core.interfaces import PLAIN
from highwater.clusters.drivers import find_driver
from highwater.harness.base.errors import HarnessError
from highwater.harness.clients import client_config
from highwater.harness.releases.catalogue import MODERN, Release, release
from highwater.harness.releases.client_choice import AIOKAFKA, JAVA, KAFKA_PYTHON, LIBRDKAFKA
from highwater.harness.runs.plan import Plan, Workload
from highwater.runtime.client_libraries import OpenLibrary, open_library
from tools import client_drivers
from tools.client_trials import library_name, until
from tools.clients_page import (
    ADDRESSES,
    ELSEWHERE,
    LOST,
    SILENT,
    WORKS,
    ClientAddress,
    read_addresses,
)

BROKERS: Final = ("3.9.2", MODERN)
REPEATS: Final = 4
CLIENTS: Final = (LIBRDKAFKA, JAVA, "java:3.9.2", KAFKA_PYTHON, AIOKAFKA)
_DELIVERY_S: Final = 15.0
_WRITING: Final[dict[str, Any]] = {"acks": "all", "delivery_timeout_s": _DELIVERY_S}
WORKLOADS: Final = {
    "plain": Workload(**_WRITING),
    "idempotent": Workload(**_WRITING, idempotence=True),
    "transactional": Workload(**_WRITING, idempotence=True, transactions=True),
}
_TOPIC: Final = "trials"
_LIMIT_S: Final = 20.0
_SESSION_MS: Final = "60000"
"""The session timeout. It is longer than a trial, so a killed broker remains the leader."""
_POLL_S: Final = 0.1


class Writer:
    """A client's producer; it writes before and after another cluster gets a broker's address."""

    def __init__(
        self, opened: OpenLibrary, plan: Plan, cluster: RealCluster, log: logging.Logger
    ) -> None:
        self.name = f"{Path(plan.client).name}-{action_of(plan.workload)}".replace(":", "-")
        self._transactional = plan.workload.transactions
        quirks = cluster.release.client
        common = client_config.common(cluster.bootstrap, self.name, log, quirks=quirks)
        self._producer: Any = None
        if self._transactional:
            settings = client_config.transactional(plan, common, self.name)
            self._producer = opened.library.producer(settings)
            until(self._producer.init_transactions)
        else:
            self._producer = opened.library.producer(client_config.producer(plan, common))

    def write(self, value: str) -> None:
        """Send a record, in a transaction if the producer is transactional."""
        self.answers: list[str] = []
        if self._transactional:
            try:
                self._producer.begin_transaction()
            except KafkaException as raised:
                self.answers.append(raised.args[0].name())
                return
        self._producer.queue(
            _TOPIC,
            value.encode(),
            0,
            on_delivery=lambda error, _: self.answers.append(error.name() if error else ""),
        )

    def end(self) -> str:
        """Wait for the last record, and return its error; empty if it was acknowledged."""
        producer = self._producer
        deadline = time.monotonic() + _LIMIT_S
        while not self.answers and time.monotonic() < deadline:
            producer.poll(_POLL_S)
        if self.answers == [""] and self._transactional:
            try:
                until(self._producer.commit_transaction)
            except KafkaException as raised:
                return str(raised.args[0].name())
            except HarnessError as raised:
                return str(raised)
        return self.answers[0] if self.answers else SILENT

    def close(self) -> None:
        """Close the producer, as if it had crashed."""
        with contextlib.suppress(KafkaException):
            self._producer.drop() if self._transactional else self._producer.purge()


def action_of(workload: Workload) -> str:
    """Return the name of a workload in ``WORKLOADS``."""
    return next(name for name, listed in WORKLOADS.items() if listed == workload)


def _clusters(kafka_release: Release, folder: Path, brokers: int) -> Iterator[RealCluster]:
    """Yield the first cluster, then the second one: a single broker at broker 1's address."""
    address: Address | None = None
    for name, size in (("first", brokers), ("second", 1)):
        site = find_driver("local")(kafka_release, brokers=size, wired=False, options=PLAIN)
        assert isinstance(site.public, AddressGroup)
        address = site.public.brokers[1] = address or site.public.brokers[1]
        settings = {"transaction.state.log.replication.factor": str(size)}
        settings |= {"transaction.state.log.min.isr": "1", "broker.session.timeout.ms": _SESSION_MS}
        yield RealCluster(kafka_release, folder / name, site, broker_config=settings)


def play(
    broker: str, clients: dict[str, str], folder: Path, brokers: int = 1
) -> Iterator[ClientAddress]:
    """Test all clients with two clusters of a release.

    Args:
        clients: each client's option value, by the client's name.
        brokers: the number of brokers of the first cluster.
    """
    log = client_config.open_log(folder / "clients.log")
    with contextlib.ExitStack() as ends:
        ends.callback(client_config.close_log, log)
        first, second = _clusters(release(broker), folder, brokers)
        for cluster in (second, first):
            ends.callback(cluster.close)
        first.open()
        first.create_topic(_TOPIC, [[*first.brokers]], {})
        writers: dict[str, dict[str, Writer]] = {}
        libraries = {}
        for name, word in clients.items():
            logs = folder / name.replace(":", "-")
            logs.mkdir()
            libraries[name] = opened = open_library(Plan(kafka=broker, client=word), logs)
            ends.callback(opened.close)
            plans = [
                Plan(kafka=broker, client=word, workload=workload)
                for workload in WORKLOADS.values()
            ]
            writers[name] = {
                action: Writer(opened, plan, first, log)
                for action, plan in zip(WORKLOADS, plans, strict=True)
            }
        everyone = [writer for of_client in writers.values() for writer in of_client.values()]
        for writer in everyone:
            ends.callback(writer.close)
        before = _write(everyone, "first")
        first.brokers[1].stop() if brokers == 1 else first.brokers[1].kill()
        second.open()
        second.create_topic(_TOPIC, [[1]], {})
        results = _write(everyone, "second")
        others = [node.address for number, node in first.brokers.items() if number > 1]
        places = {ELSEWHERE: _values([second.brokers[1].address]), WORKS: _values(others)}
        for name, of_client in writers.items():
            yield ClientAddress(
                broker=broker,
                brokers=brokers,
                client=name,
                version=library_name(clients[name], broker, libraries[name].names),
                results={
                    action: {_result(results[writer.name], f"{writer.name} second", places): 1}
                    for action, writer in of_client.items()
                    if not before[writer.name]
                },
            )


def _write(writers: list[Writer], which: str) -> dict[str, str]:
    """Let each writer send a record; return the error of each record."""
    for writer in writers:
        writer.write(f"{writer.name} {which}")
    return {writer.name: writer.end() for writer in writers}


def _result(error: str, value: str, places: dict[str, frozenset[str]]) -> str:
    """Return a record's error, or the name of the cluster that has the record."""
    return error or next((name for name, values in places.items() if value in values), LOST)


def _values(addresses: list[str]) -> frozenset[str]:
    """Return the committed records of the cluster at an address; empty without an address."""
    if not addresses:
        return frozenset()
    quiet = logging.Logger("trial")  # noqa: LOG001 - ours alone, not global
    quiet.addHandler(logging.NullHandler())
    common = {"bootstrap.servers": addresses[0], "group.id": "trial", "logger": quiet}
    reader = confluent_kafka.Consumer({**common, "enable.partition.eof": True})
    values: set[str] = set()
    try:
        reader.assign([TopicPartition(_TOPIC, 0, 0)])
        while (record := reader.poll(_LIMIT_S)) is not None and record.error() is None:
            values.add((record.value() or b"").decode())
    finally:
        reader.close()
    return frozenset(values)


def merged(trials: Iterable[ClientAddress]) -> list[ClientAddress]:
    """Add the numbers of trials of each client with the same clusters."""
    rows: dict[tuple[int, str, str], ClientAddress] = {}
    for trial in trials:
        key = (trial.brokers, trial.broker, trial.client)
        before = rows[key].results if key in rows else {}
        results = {
            action: {**(Counter(before.get(action)) + Counter(trial.results.get(action)))}
            for action in WORKLOADS
            if action in before or action in trial.results
        }
        rows[key] = msgspec.structs.replace(trial, results=results)
    return sorted(rows.values(), key=lambda row: (row.brokers, row.broker))


def main() -> None:
    """Run the tests, and write the results of each cluster at once."""
    drivers, *brokers = sys.argv[1:]
    clients = {client: client for client in CLIENTS}
    for name in client_drivers.LIBRARIES:
        program = Path(drivers).absolute() / name
        clients[name] = str(
            program if program.exists() else client_drivers.build(name, program.parent)
        )
    played = brokers or BROKERS
    trials = [trial for trial in read_addresses() if trial.broker not in played]
    with tempfile.TemporaryDirectory() as folder:
        for broker, number, turn in product(played, (1, 2), range(REPEATS)):
            place = Path(folder) / f"{broker}-{number}-{turn}"
            place.mkdir()
            for trial in play(broker, clients, place, number):
                sys.stdout.write(f"{trial.broker} {number} {trial.client} {trial.results}\n")
                sys.stdout.flush()
                trials.append(trial)
            text = msgspec.json.format(msgspec.json.encode(merged(trials)), indent=1)
            ADDRESSES.write_bytes(text + b"\n")


if __name__ == "__main__":
    main()

"""Test every client library with brokers of old and new releases: docs/client-results.json.

    python -m tools.client_trials

Each library sends a record with each setting, and reads a record, even in combinations that
Highwater refuses. An acknowledged record must be in the log.
"""

import asyncio
import contextlib
import logging
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import aiokafka
import confluent_kafka
import kafka
import msgspec
from confluent_kafka import KafkaException
from py4j.protocol import Py4JJavaError

from highwater.clusters.brokers.real_cluster import RealCluster
from highwater.clusters.drivers import open_cluster
from highwater.clusters.local.client_jvm import ClientJvm
from highwater.harness.base.errors import HarnessError, WaitTimeoutError
from highwater.harness.base.waiting import await_condition
from highwater.harness.clients import client_config
from highwater.harness.clients.libraries.interfaces import ClientLibrary, TransactionsProducer
from highwater.harness.clients.libraries.java_gateway import KafkaGateway
from highwater.harness.releases.catalogue import MODERN, Release, release
from highwater.harness.releases.client_choice import (
    AIOKAFKA,
    JAVA,
    KAFKA_PYTHON,
    LIBRDKAFKA,
    read_client,
)
from highwater.harness.runs.plan import Plan, Topic, Workload
from highwater.runtime.client_libraries import open_library
from tools.clients_page import (
    COMMITS,
    CONSUMING,
    LACKS,
    LOST,
    PARTIAL,
    REFUSED,
    RESULTS,
    SILENT,
    WORKS,
    ClientTrial,
)

BROKERS: Final = ("0.10.2.2", "0.11.0.3", MODERN)
CLIENTS: Final = (
    LIBRDKAFKA,
    JAVA,
    "java:0.10.2.2",
    "java:3.9.2",
    f"java:{MODERN}",
    KAFKA_PYTHON,
    AIOKAFKA,
)

_PRODUCING: Final = {
    "acks=0": Workload(acks="0"),
    "acks=1": Workload(acks="1"),
    "acks=all": Workload(acks="all"),
    "idempotent": Workload(acks="all", idempotence=True),
    "transactional": Workload(acks="all", idempotence=True, transactions=True),
}
COMMITTERS: Final = (LIBRDKAFKA, JAVA, KAFKA_PYTHON, AIOKAFKA)

_TOPIC: Final = "trials"
_SMALL: Final = 1_000
"""The ``max.message.bytes`` of topics in tests of commits."""
_DELIVERY_S: Final = 6.0
_LIMIT_S: Final = 12.0
_LOOK_S: Final = 0.2


def play(folder: Path) -> Iterator[ClientTrial]:
    """Test every client on one broker of each release."""
    for name in BROKERS:
        kafka_release = release(name)
        config = {
            f"transaction.state.log.{what}": "1" for what in ("replication.factor", "min.isr")
        }
        opened = open_cluster(kafka_release, folder / name, brokers=1, broker_config=config)
        with contextlib.closing(opened) as cluster:
            cluster.create_topic(_TOPIC, [[1]], {})
            for client in CLIENTS:
                choice = read_client(client, name)
                if client != JAVA and choice.release == kafka_release:
                    continue  # the error of the broker itself
                yield ClientTrial(
                    broker=name,
                    client=client,
                    version=library_name(client, name).rpartition(" ")[2],
                    results=_try(cluster, client, folder / name),
                )


def library_name(client: str, kafka: str, named: Collection[str] = ()) -> str:
    """Return the name and release of a client's library."""
    if named:
        return ", ".join(named)
    choice = read_client(client, kafka)
    if choice.release:
        return f"{choice.library} {choice.release.name}"
    package = "confluent-kafka" if choice.library == LIBRDKAFKA else choice.library
    return f"{choice.library} {version(package)}"


def _try(cluster: RealCluster, client: str, folder: Path) -> dict[str, str]:
    log = client_config.open_log(folder / f"{client.replace(':', '-')}.log")
    plan = Plan(kafka=cluster.release.name, client=client)
    library = open_library(plan, folder)
    choice = read_client(client, cluster.release.name)
    results = {}
    commits = COMMITS if client in COMMITTERS and cluster.release.name == MODERN else ()
    try:
        for action, workload in _PRODUCING.items():
            if workload.idempotence and not choice.idempotence:
                results[action] = LACKS  # the client would ignore the setting
                continue
            value = f"{client} {action}"
            results[action] = _produce(cluster, library.library, workload, value.encode(), log)
        for action in commits:
            results[action] = _commit(cluster, library.library, action, f"{client}-{action}", log)
    finally:
        library.close()
        client_config.close_log(log)
    results[CONSUMING] = _consume(cluster, client, folder)
    return results


def _produce(
    cluster: RealCluster,
    library: ClientLibrary,
    workload: Workload,
    value: bytes,
    log: logging.Logger,
) -> str:
    workload = msgspec.structs.replace(workload, delivery_timeout_s=_DELIVERY_S)
    plan = Plan(
        kafka=cluster.release.name, topic=Topic(name=_TOPIC, partitions=1), workload=workload
    )
    common = client_config.common(cluster.bootstrap, "trial", log, quirks=cluster.release.client)
    answers: list[str] = []
    producer: Any = None
    try:
        if workload.transactions:
            settings = client_config.transactional(plan, common, f"trial {value.decode()}")
            producer = library.producer(settings)
            until(producer.init_transactions)
            producer.begin_transaction()
        else:
            producer = library.producer(client_config.producer(plan, common))
        outcomes = library.outcomes

        def answered(error: Any, _: object) -> None:  # noqa: ANN401 - a ClientError
            gone = error is not None and outcomes.unanswered(error)
            answers.append(SILENT if gone else _name(error))

        producer.queue(_TOPIC, value, 0, on_delivery=answered)
        producer.flush(_LIMIT_S)
        if workload.transactions and answers == [WORKS]:
            until(producer.commit_transaction)
    except KafkaException as raised:
        return str(raised.args[0].name())
    except HarnessError as raised:
        return str(raised)
    finally:
        if producer is not None:
            _end(producer, transactional=workload.transactions)
    answer = answers[0] if answers else SILENT
    return LOST if answer == WORKS and not in_log(cluster, value) else answer


def _commit(
    cluster: RealCluster, library: ClientLibrary, action: str, name: str, log: logging.Logger
) -> str:
    """Commit a transaction in which one of two records cannot be written; return the outcome.

    With ``REFUSED`` the broker refuses the second record. Otherwise the broker is down until the
    record has expired.
    """
    topic = name.replace(" ", "-").replace(",", "")
    cluster.create_topic(topic, [[1]], {"max.message.bytes": str(_SMALL)})
    plan = Plan(
        kafka=cluster.release.name,
        workload=msgspec.structs.replace(
            _PRODUCING["transactional"], delivery_timeout_s=_DELIVERY_S
        ),
    )
    common = client_config.common(cluster.bootstrap, "trial", log, quirks=cluster.release.client)
    settings = client_config.transactional(plan, common, name)
    # so that the coordinator does not abort the transaction
    settings = {**settings, "transaction.timeout.ms": 60_000}
    producer: Any = library.producer(settings)
    ignored = lambda *_: None  # noqa: E731 - what becomes of a record is the transaction's matter
    try:
        until(producer.init_transactions)
        producer.begin_transaction()
        producer.queue(topic, b"first", 0, on_delivery=ignored)
        producer.flush(_LIMIT_S)
        if action == REFUSED:
            producer.queue(topic, b"x" * 2 * _SMALL, 0, on_delivery=ignored)
            producer.flush(_LIMIT_S)
        else:
            # the first record has added the partition to the transaction
            cluster.brokers[1].kill()
            producer.queue(topic, b"second", 0, on_delivery=ignored)
            producer.flush(_DELIVERY_S + 2)
            cluster.brokers[1].start()
        until(producer.commit_transaction)
    except KafkaException as raised:
        return str(raised.args[0].name())
    finally:
        _end(producer, transactional=True)
    return WORKS if in_log(cluster, b"second", topic) else PARTIAL


def _name(error: Any) -> str:  # noqa: ANN401 - a ClientError
    return WORKS if error is None else str(error.name())


def until(call: Callable[[float], object]) -> None:
    """Call a function with a timeout; repeat it while its error is retriable."""
    deadline = time.monotonic() + _LIMIT_S
    while True:
        try:
            call(1.0)
        except KafkaException as raised:
            if not raised.args[0].retriable() or time.monotonic() >= deadline:
                raise
        else:
            return


def _end(producer: TransactionsProducer, *, transactional: bool) -> None:
    with contextlib.suppress(KafkaException):
        producer.drop() if transactional else producer.purge()


def in_log(cluster: RealCluster, value: bytes, topic: str = _TOPIC) -> bool:
    """Return whether a reader receives a record in time."""
    quiet = logging.Logger("trial")  # noqa: LOG001 - ours alone, not global
    quiet.addHandler(logging.NullHandler())
    common = client_config.common(cluster.bootstrap, "trial", quiet, quirks=cluster.release.client)
    reader = confluent_kafka.Consumer(client_config.consumer(common))
    try:
        reader.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        await_condition(
            lambda: [record.value() for record in reader.consume(100, _LOOK_S)],
            lambda values: value in values,
            what="the record to be read",
            limit_s=3.0,
        )
    except WaitTimeoutError:
        return False
    finally:
        reader.close()
    return True


def _consume(cluster: RealCluster, client: str, folder: Path) -> str:
    """Let a client read the log's first record, which librdkafka wrote; return the result."""
    try:
        if client == LIBRDKAFKA:
            return WORKS if in_log(cluster, f"{client} acks=1".encode()) else SILENT
        if client == KAFKA_PYTHON:
            return _read_kafka_python(cluster)
        if client == AIOKAFKA:
            return asyncio.run(_read_aiokafka(cluster))
        choice = read_client(client, cluster.release.name)
        assert choice.release is not None
        return _read_java(cluster, choice.release, folder)
    except Exception as raised:  # noqa: BLE001 - the name of any error is the result
        return type(raised).__name__


def _read_kafka_python(cluster: RealCluster) -> str:
    reader = kafka.KafkaConsumer(
        bootstrap_servers=cluster.bootstrap, bootstrap_timeout_ms=5_000, metrics_enabled=False
    )
    try:
        place = kafka.TopicPartition(_TOPIC, 0)
        reader.assign([place])
        reader.seek(place, 0)
        deadline = time.monotonic() + _LIMIT_S
        while time.monotonic() < deadline:
            if reader.poll(timeout_ms=200):
                return WORKS
        return SILENT
    finally:
        reader.close()


async def _read_aiokafka(cluster: RealCluster) -> str:
    reader = aiokafka.AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap, group_id=None)
    try:
        await reader.start()
        place = aiokafka.TopicPartition(_TOPIC, 0)
        reader.assign([place])
        reader.seek(place, 0)
        batches = await reader.getmany(timeout_ms=int(_LIMIT_S * 1000), max_records=1)
        return WORKS if batches else SILENT
    finally:
        await reader.stop()


def _read_java(cluster: RealCluster, clients: Release, folder: Path) -> str:
    deserializer = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
    jvm = ClientJvm(clients, folder / "reader.log")
    gateway = KafkaGateway(jvm.port, jvm.token, clients.number)
    try:
        java: Any = gateway._gateway.jvm  # noqa: SLF001 - runs have no readers of Java
        properties = java.java.util.Properties()
        for name, value in {
            "bootstrap.servers": cluster.bootstrap,
            "key.deserializer": deserializer,
            "value.deserializer": deserializer,
            "auto.offset.reset": "earliest",
            "group.id": "trial-java",
            "default.api.timeout.ms": "6000",
            "request.timeout.ms": "6000",
            "session.timeout.ms": "5000",
        }.items():
            properties.setProperty(name, value)
        reader = java.org.apache.kafka.clients.consumer.KafkaConsumer(properties)
        places = java.java.util.ArrayList()
        place = java.org.apache.kafka.common.TopicPartition(_TOPIC, 0)
        places.add(place)
        reader.assign(places)
        reader.seek(place, 0)
        pause = 500 if clients.number < (2, 0) else java.java.time.Duration.ofMillis(500)
        deadline = time.monotonic() + _LIMIT_S
        while time.monotonic() < deadline:
            if reader.poll(pause).count():
                return WORKS
    except Py4JJavaError as raised:
        return gateway.error_of(raised.java_exception).name()
    else:
        return SILENT
    finally:
        gateway.close()
        jvm.close()


def main() -> None:
    """Run all tests, and write their results."""
    with tempfile.TemporaryDirectory() as folder:
        trials = []
        for trial in play(Path(folder)):
            sys.stdout.write(f"{trial.broker} {trial.client} {trial.results}\n")
            sys.stdout.flush()
            trials.append(trial)
    text = msgspec.json.format(msgspec.json.encode(trials), indent=2)
    RESULTS.write_bytes(text + b"\n")


if __name__ == "__main__":
    main()

"""Kafka's own Java producers: their JVM and their errors; and runs with those of each library.

``HIGHWATER_CUTS`` is how often a harness with such a JVM is killed, ``HIGHWATER_SEED`` the dice's
seed.
"""

import logging
import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

import psutil
import pytest

from highwater.api import judge_all
from highwater.checkers.spark.session import spark
from highwater.clusters.local.client_jvm import ClientJvm
from highwater.harness.base.errors import HarnessError
from highwater.harness.base.waiting import await_condition
from highwater.harness.clients import client_config as clients
from highwater.harness.clients.libraries import java_errors
from highwater.harness.clients.libraries.answers import AnsweredRecord
from highwater.harness.clients.libraries.java import JavaClients
from highwater.harness.clients.libraries.java_errors import JavaError
from highwater.harness.clients.libraries.java_gateway import KafkaGateway
from highwater.harness.releases.catalogue import MODERN, release
from highwater.harness.releases.client_choice import AIOKAFKA, KAFKA_PYTHON
from highwater.harness.runs.history import FAIL
from highwater.harness.runs.plan import Plan, Topic, Workload
from highwater.harness.runs.store import Store
from highwater.runtime.cluster_pool import ClusterPool

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

COUNT: Final = int(os.environ.get("HIGHWATER_CUTS", "3"))
SEED: Final = int(os.environ.get("HIGHWATER_SEED", "0"))
MARK: Final = "HIGHWATER_JAVA_CUT"
LAST_S: Final = 5.0
"""So long such a harness takes at most until its producer waits for a broker, on two cores."""

HARNESS: Final = """
import logging, sys
from pathlib import Path
from highwater.clusters.local.client_jvm import ClientJvm
from highwater.harness.clients import client_config as clients
from highwater.harness.clients.libraries.java import JavaClients
from highwater.harness.clients.libraries.java_gateway import KafkaGateway
from highwater.harness.releases.catalogue import MODERN, release
from highwater.harness.runs.plan import Plan

kafka = release(MODERN)
jvm = ClientJvm(kafka, Path(sys.argv[1]))
gateway = KafkaGateway(jvm.port, jvm.token, kafka.number)
common = clients.common("127.0.0.1:9", "p", logging.getLogger("x"), quirks={})
producer = JavaClients(gateway).producer(clients.producer(Plan(kafka=MODERN), common))
producer.produce("events", b"x", partition=0, on_delivery=print)
producer.flush(60)
"""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaGateway]:
    """A JVM with the clients of the modern release."""
    kafka = release(MODERN)
    jvm = ClientJvm(kafka, tmp_path_factory.mktemp("logs") / "java-clients.log")
    gateway = KafkaGateway(jvm.port, jvm.token, kafka.number)
    yield gateway
    gateway.close()
    jvm.close()


def test_a_send_that_finds_no_broker_was_never_queued(gateway: KafkaGateway) -> None:
    plan = Plan(kafka=MODERN, workload=Workload(delivery_timeout_s=1))
    common = clients.common("127.0.0.1:9", "p", logging.getLogger("test"), quirks={})
    producer = JavaClients(gateway).producer(clients.producer(plan, common))
    errors: list[JavaError | None] = []

    def answered(error: JavaError | None, record: AnsweredRecord) -> None:
        assert record.value() == b"x"
        errors.append(error)

    producer.produce("events", b"x", partition=0, on_delivery=answered)
    assert producer.flush(20) == 0
    producer.purge()
    [error] = errors
    assert error is not None
    assert (error.name(), error.queued, error.code()) == ("TimeoutException", False, 7)
    assert JavaClients.outcomes.delivered(error, retries=True) == FAIL


def test_every_error_of_the_tables_is_a_class_of_kafka(gateway: KafkaGateway) -> None:
    tables = (
        java_errors.REFUSED_BEFORE_APPEND,
        java_errors.REFUSED_BEFORE_QUEUE,
        java_errors.FATAL,
        java_errors.LOST_PRODUCER,
        java_errors.RETRIABLE,
    )
    packages = (
        "org.apache.kafka.common.errors",
        "org.apache.kafka.common",
        "org.apache.kafka.clients.producer",
        "java.lang",
    )
    names = {name for table in tables for name in table}
    missing = {
        name
        for name in names
        if not any(gateway.has_class(f"{package}.{name}") for package in packages)
    }
    assert missing == set()


@pytest.mark.spark
def test_errors_are_those_of_kafka_beside_the_jvm_of_spark(gateway: KafkaGateway) -> None:
    jvm: Any = spark().sparkContext._jvm
    objects = [jvm.java.lang.Object() for _ in range(500)]
    assert not any(gateway.has_class(f"no.Class{number}") for number in range(len(objects)))
    with pytest.raises(
        HarnessError, match="Java refuses the settings of this producer: ConfigException"
    ):
        gateway.producer({"bootstrap.servers": "127.0.0.1:9", "acks": "7"})


@pytest.mark.nightly
def test_no_process_outlives_a_harness_that_is_killed(tmp_path: Path) -> None:
    dice = Random(SEED)  # noqa: S311 - moments, not secrets
    token = secrets.token_hex(8)
    environment = {**os.environ, MARK: token}
    for number in range(COUNT):
        words = [sys.executable, "-c", HARNESS, str(tmp_path / "java-clients.log")]
        with subprocess.Popen(
            words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
        ) as process:
            try:
                process.wait(LAST_S * (number + dice.random()) / COUNT)
            except subprocess.TimeoutExpired:
                process.kill()
        await_condition(
            lambda: [each.pid for each in psutil.process_iter() if _is_of(each, token)],
            lambda left: not left,
            what="every process to end with its harness",
            limit_s=60,
        )


def _is_of(process: psutil.Process, token: str) -> bool:
    try:
        return bool(process.environ().get(MARK) == token)
    except psutil.Error:
        return False


@pytest.mark.nightly
@pytest.mark.spark
@pytest.mark.parametrize(
    ("kafka", "client", "transactions"),
    [
        ("0.11.0.3", "java", False),
        ("3.9.2", "java", False),
        (MODERN, "java", False),
        (MODERN, "java", True),
        (MODERN, "java:3.9.2", True),
        ("0.11.0.3", KAFKA_PYTHON, False),
        (MODERN, KAFKA_PYTHON, False),
        ("0.11.0.3", AIOKAFKA, True),
        (MODERN, AIOKAFKA, False),
        (MODERN, AIOKAFKA, True),
    ],
)
def test_a_run_with_producers_of_another_library_is_valid(
    kafka: str, client: str, transactions: bool, tmp_path: Path
) -> None:
    plan = Plan(
        kafka=kafka,
        client=client,
        topic=Topic(partitions=3),
        workload=Workload(idempotence=True, transactions=transactions, delivery_timeout_s=15),
        nemesis=("kill", "pause"),
        duration_s=30,
        seed=SEED,
    )
    with ClusterPool(tmp_path / "fleet") as fleet:
        run = fleet.execute(plan, Store(tmp_path), stop=threading.Event())
    [judged] = judge_all([run], spark())
    assert judged.verdict.verdict == "valid", judged.verdict.reasons
    assert judged.verdict.ledger.acknowledged > 100
    assert run.status().problems == ()

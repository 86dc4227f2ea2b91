"""Producers of kafka-python and aiokafka: their errors, and the table of trials."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from highwater.clusters.brokers.real_cluster import RealCluster
from highwater.harness.base.waiting import NotYetError, await_condition
from highwater.harness.clients import client_config as clients
from highwater.harness.clients.libraries.interfaces import ClientLibrary, TransactionCalls
from highwater.harness.releases.catalogue import MODERN
from highwater.harness.releases.client_choice import AIOKAFKA, KAFKA_PYTHON
from highwater.harness.runs.history import FAIL
from highwater.harness.runs.plan import Plan, Workload
from highwater.runtime.client_libraries import OpenLibrary, open_library
from tests.kafka.conftest import Opener
from tools import clients_page
from tools.client_trials import play

if TYPE_CHECKING:
    from highwater.harness.clients.drivers.driver_errors import DriverError

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

LIBRARIES = (KAFKA_PYTHON, AIOKAFKA)
QUIET = logging.Logger("test")  # noqa: LOG001 - ours alone, not global
QUIET.addHandler(logging.NullHandler())
ATOMIC = Workload(idempotence=True, transactions=True, delivery_timeout_s=10)


def opened(client: str, logs: Path) -> OpenLibrary:
    return open_library(Plan(kafka=MODERN, client=client), logs)


def settings(cluster: RealCluster, workload: Workload, name: str = "") -> clients.Settings:
    plan = Plan(kafka=MODERN, workload=workload)
    common = clients.common(cluster.bootstrap, "test", QUIET, quirks={})
    return clients.transactional(plan, common, name) if name else clients.producer(plan, common)


def committed(cluster: RealCluster, *, last: bytes) -> list[bytes | None]:
    """What a read_committed reader gets, up to a record."""
    common = clients.common(cluster.bootstrap, "reader", QUIET, quirks={})
    reader = Consumer(clients.consumer(common))
    reader.assign([TopicPartition("t", 0, 0)])
    found: list[bytes | None] = []
    await_condition(
        lambda: found.extend(each.value() for each in reader.consume(10, 0.2)),
        lambda _: last in found,
        what=f"a reader to get {last!r}",
        limit_s=60,
    )
    reader.close()
    return found


def initialise(producer: TransactionCalls) -> None:
    def attempt() -> None:
        try:
            producer.init_transactions(1.0)
        except KafkaException as raised:
            if not raised.args[0].retriable():
                raise
            raise NotYetError(str(raised)) from raised

    await_condition(attempt, what="a coordinator", limit_s=30)


@pytest.mark.parametrize("client", LIBRARIES)
def test_a_send_that_finds_no_broker_was_never_queued(client: str, tmp_path: Path) -> None:
    plan = Plan(kafka=MODERN, workload=Workload(delivery_timeout_s=1))
    common = clients.common("127.0.0.1:9", "p", QUIET, quirks={})
    library = opened(client, tmp_path)
    producer = library.library.producer(clients.producer(plan, common))
    errors: list[DriverError] = []
    try:
        producer.produce("t", b"x", partition=0, on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(20) == 0
    except KafkaException as raised:
        errors.append(raised.args[0])
    producer.purge()
    library.close()
    [error] = errors
    assert (error.queued, error.fatal()) == (False, False)
    assert library.library.outcomes.delivered(error, retries=True) == FAIL


def test_records_and_transactions_are_where_they_belong(opener: Opener, tmp_path: Path) -> None:
    alone = {f"transaction_state_log_{what}": "1" for what in ("replication_factor", "min_isr")}
    cluster = opener(MODERN, **alone)
    cluster.create_topic("t", [[1]], {})
    expected = []
    for client in LIBRARIES:
        library = opened(client, tmp_path)
        expected += _send_all(cluster, library.library, client)
        library.close()
    assert committed(cluster, last=expected[-1]) == expected


def _send_all(cluster: RealCluster, library: ClientLibrary, client: str) -> list[bytes]:
    answers: list[object] = []

    def answered(error: object, _: object) -> None:
        answers.append(error)

    plain = [f"{client} {number}".encode() for number in range(50)]
    producer = library.producer(settings(cluster, Workload(idempotence=True)))
    for value in plain:
        producer.queue("t", value, 0, on_delivery=answered)
    assert producer.flush(20) == 0
    producer.purge()
    writer = library.producer(settings(cluster, ATOMIC, client))
    initialise(writer)
    for value, end in (
        (b"aborted", writer.abort_transaction),
        (b"kept", writer.commit_transaction),
    ):
        writer.begin_transaction()
        writer.queue("t", client.encode() + value, 0, on_delivery=answered)
        writer.flush(20)
        end(10)
    writer.drop()
    assert answers == [None] * 52
    return [*plain, f"{client}kept".encode()]


@pytest.mark.nightly
def test_each_library_does_what_the_page_says(tmp_path: Path) -> None:
    assert tuple(play(tmp_path)) == clients_page.read()

"""Brokers on which client drivers are tested, and helpers for the tests (docs/driver.md)."""

import contextlib
import itertools
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from confluent_kafka import TopicPartition

from highwater.clusters.core.interfaces import Cluster
from highwater.clusters.local.client_driver import ClientDriverProcess
from highwater.harness.base.errors import WaitTimeoutError
from highwater.harness.base.waiting import await_condition
from highwater.harness.clients import client_config
from highwater.harness.clients.drivers.client_driver import (
    OPENS_S,
    ClientDriver,
    DriverAnswer,
    Role,
)
from highwater.harness.clients.libraries.librdkafka import LIBRDKAFKA
from highwater.harness.clients.programs.positions import EOF
from highwater.harness.releases.catalogue import MODERN
from highwater.harness.runs.plan import Acks, Plan, Workload

if TYPE_CHECKING:
    from concurrent.futures import Future

TOPIC: Final = "driver-check"
SMALL: Final = "driver-check-small"
PARTITIONS: Final = 3
RECORDS: Final = 300
ANSWERS_S: Final = 60.0
TIMEOUT_S: Final = 5.0
_TRANSACTION_S: Final = 30.0

_QUIET: Final = logging.getLogger("highwater.driver-check")
Opened = tuple[ClientDriver, ClientDriverProcess]


class WrongDriverError(Exception):
    """The driver differs from its specification; the error's message describes the difference."""


class RefusedError(Exception):
    """The driver reports that its library lacks the feature; the message is the driver's error."""


class DriverBench:
    """Brokers with two topics, on which drivers are tested.

    Args:
        log: file for the drivers' standard error.

    Attributes:
        command: the tested driver's command.
    """

    def __init__(self, cluster: Cluster, log: Path) -> None:
        self.cluster = cluster
        self.command: Sequence[str] = ()
        self.log = log
        self._groups = itertools.count()
        ids = sorted(cluster.brokers)
        cluster.create_topic(TOPIC, [ids] * PARTITIONS, {})
        cluster.create_topic(SMALL, [ids], {"max.message.bytes": "200"})

    @property
    def common_settings(self) -> client_config.Settings:
        """Return the settings of every client."""
        return client_config.common(self.cluster.bootstrap, "driver-check", _QUIET, quirks={})

    def producing(self, *, acks: Acks = "all", idempotence: bool = False) -> client_config.Settings:
        """Return the settings of a producer."""
        workload = Workload(acks=acks, delivery_timeout_s=TIMEOUT_S, idempotence=idempotence)
        return client_config.producer(Plan(kafka=MODERN, workload=workload), self.common_settings)

    def new_group(self) -> str:
        """Return a group name that was not used before."""
        return f"driver-check-{next(self._groups)}"

    def transacting(self, name: str) -> client_config.Settings:
        """Return the settings of a producer with a ``transactional.id``."""
        workload = Workload(idempotence=True, transactions=True, delivery_timeout_s=_TRANSACTION_S)
        plan = Plan(kafka=MODERN, workload=workload)
        return client_config.transactional(plan, self.common_settings, name)

    @contextlib.contextmanager
    def opened(
        self,
        settings: client_config.Settings | None = None,
        *,
        role: Role = "producer",
        member: bool = False,
        needed: bool = True,
        ends: bool = False,
    ) -> Iterator[Opened]:
        """Open a client in a new process, and kill the process after the ``with`` block.

        Args:
            settings: the client's settings; None means those of a plain producer.
            member: whether a consumer will join a group.
            needed: whether docs/driver.md requires support for this kind of client.
            ends: whether the driver must exit by itself during the ``with`` block.

        Raises:
            RefusedError: this kind of client is optional, and the driver does not support it.
        """
        process = ClientDriverProcess(self.command, self.log)
        driver = ClientDriver(process)
        try:
            opening = driver.open(settings or self.producing(), role, member=member)
            opened = answered(driver, opening, "open", OPENS_S)
            if opened.error and not needed:
                raise RefusedError(str(opened.as_error()))
            if opened.error:
                raise WrongDriverError(f"the response to open is {opened.as_error()}")
            if not opened.library:
                raise WrongDriverError("the response to open has no `library`")
            yield driver, process
            if not ends and not member:  # by then it has written all unexpected output
                answered(driver, driver.call("last-request"), "an unknown request", ANSWERS_S)
        finally:
            driver.kill()


def send(driver: ClientDriver, names: Sequence[str]) -> list[DriverAnswer]:
    """Send each record to the next partition, round-robin; return the responses."""
    sends = [
        driver.call("send", topic=TOPIC, partition=number % PARTITIONS, value=name)
        for number, name in enumerate(names)
    ]
    return [
        answered(driver, future, name, ANSWERS_S) for future, name in zip(sends, names, strict=True)
    ]


def answered(
    driver: ClientDriver, future: "Future[DriverAnswer]", what: str, limit_s: float
) -> DriverAnswer:
    """Return the response to a request.

    Raises:
        WrongDriverError: the response is late, or breaks the specification.
    """
    try:
        given = future.result(limit_s)
    except TimeoutError as late:
        raise WrongDriverError(f"{what} has no response after {limit_s:g} s") from late
    if driver.broken:
        raise WrongDriverError(driver.broken)
    return given


def done(driver: ClientDriver, op: str, **named: object) -> None:
    """Send a request; repeat it while the driver responds `again`.

    Raises:
        WrongDriverError: the response is an error, or is late.
    """
    given = repeated(driver, op, **named)
    if given.error:
        raise WrongDriverError(f"the response to {op} is {given.as_error()}")


def repeated(driver: ClientDriver, op: str, **named: object) -> DriverAnswer:
    """Repeat a request while the driver responds `again`; return the first other response.

    Raises:
        WrongDriverError: every response within the limit is `again`.
    """
    try:
        return await_condition(
            lambda: answered(driver, driver.call(op, **named), op, ANSWERS_S),
            lambda given: not given.again,
            what=op,
            limit_s=ANSWERS_S,
        )
    except WaitTimeoutError as late:
        raise WrongDriverError(f"the response to {op} is `again` for {ANSWERS_S:g} s") from late


def read(bench: DriverBench) -> dict[tuple[int, int], str]:
    """Return the names of the committed records in the topic, by partition and offset."""
    settings = client_config.consumer(bench.common_settings) | {"enable.partition.eof": True}
    reader = LIBRDKAFKA.consumer(settings)
    there: dict[tuple[int, int], str] = {}
    unread = set(range(PARTITIONS))

    def more() -> set[int]:
        for record in reader.consume(RECORDS, 0.2):
            partition, offset, error = record.partition(), record.offset(), record.error()
            assert partition is not None
            assert offset is not None
            if error is None:
                there[partition, offset] = (record.value() or b"").decode()
            elif error.code() == EOF:
                unread.discard(partition)
        return unread

    try:
        reader.assign([TopicPartition(TOPIC, number, 0) for number in sorted(unread)])
        await_condition(
            more, lambda left: not left, what="a reader to receive all records", limit_s=ANSWERS_S
        )
    finally:
        reader.close()
    return there


def words(given: DriverAnswer) -> str:
    """Return a response as text: ``offset 3``, or ``error …, code …``."""
    if not given.error:
        return f"offset {given.offset}"
    return f"error {given.error}, code {given.code}"

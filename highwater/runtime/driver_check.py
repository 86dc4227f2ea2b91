"""Does a client driver do what docs/driver.md says? Each part is tried on real brokers."""

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from confluent_kafka import TopicPartition

from highwater.clusters.core.interfaces import Cluster
from highwater.clusters.local.client_driver import ClientDriverProcess, last_line
from highwater.harness.base.scratch import temporary
from highwater.harness.base.waiting import await_condition
from highwater.harness.clients import client_config
from highwater.harness.clients.drivers.client_driver import OPENS_S, ClientDriver, DriverAnswer
from highwater.harness.clients.libraries.librdkafka import LIBRDKAFKA
from highwater.harness.releases.catalogue import MODERN
from highwater.harness.runs.plan import Acks, Plan, Workload
from highwater.runtime.runner import boot

if TYPE_CHECKING:
    from concurrent.futures import Future

_TOPIC: Final = "driver-check"
_SMALL: Final = "driver-check-small"
_PARTITIONS: Final = 3
_RECORDS: Final = 300
_ANSWERS_S: Final = 60.0
_TIMEOUT_S: Final = 5.0
_LATE_S: Final = 15.0
"""How much later than its time-out a send may be answered, on a busy machine."""

_ENDS_S: Final = 5.0
_TOO_LARGE: Final = 10
"""Kafka's number of MESSAGE_TOO_LARGE."""

_Opened = tuple[ClientDriver, ClientDriverProcess]
_QUIET: Final = logging.getLogger("highwater.driver-check")


class WrongDriverError(Exception):
    """The driver does something else than its specification says; the text says what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedPart:
    """A part of the specification, and what a driver did.

    Attributes:
        seen: what it did.
        right: whether that is what the specification says.
    """

    name: str
    seen: str
    right: bool


class DriverBench:
    """Brokers with two topics, on which drivers are tried.

    Args:
        log: file to which the drivers' standard error is appended.
    """

    def __init__(self, cluster: Cluster, log: Path) -> None:
        self.cluster = cluster
        self.command: Sequence[str] = ()
        self._log = log
        ids = sorted(cluster.brokers)
        cluster.create_topic(_TOPIC, [ids] * _PARTITIONS, {})
        cluster.create_topic(_SMALL, [ids], {"max.message.bytes": "200"})

    def check(self, command: Sequence[str], *parts: str) -> Iterator[CheckedPart]:
        """Try a driver in some parts, by default in all; without ``open`` there are no others."""
        self.command = command
        for name in parts or PARTS:
            try:
                yield CheckedPart(name=name, seen=PARTS[name](self), right=True)
            except WrongDriverError as wrong:
                seen = f"{wrong}; its standard error ends: {last_line(self._log) or 'nothing'}"
                yield CheckedPart(name=name, seen=seen, right=False)
                if name == "open":
                    return

    @property
    def common_settings(self) -> client_config.Settings:
        """The settings of every client."""
        return client_config.common(self.cluster.bootstrap, "driver-check", _QUIET, quirks={})

    @contextlib.contextmanager
    def opened(self, acks: Acks = "all", *, ends: bool = False) -> Iterator[_Opened]:
        """Open a producer in a new process, which is killed at the end of the block.

        Args:
            ends: whether the driver itself ends in the block.
        """
        workload = Workload(acks=acks, delivery_timeout_s=_TIMEOUT_S)
        settings = client_config.producer(
            Plan(kafka=MODERN, workload=workload), self.common_settings
        )
        process = ClientDriverProcess(self.command, self._log)
        driver = ClientDriver(process)
        try:
            answer = _answer(driver, driver.open(settings), "open", OPENS_S)
            if answer.error:
                raise WrongDriverError(f"open is answered with {answer.as_error()}")
            if not answer.library:
                raise WrongDriverError("the answer to open has no `library`")
            yield driver, process
            if not ends:  # by then it has written whatever it answers without a request
                _answer(driver, driver.call("reach", topic=_TOPIC), "reach", _ANSWERS_S)
        finally:
            driver.kill()


def check_driver(command: Sequence[str], kafka: str) -> Iterator[CheckedPart]:
    """Try a driver on new brokers of a release.

    Raises:
        HarnessError: the brokers do not start.
    """
    with (
        temporary("driver-check") as folder,
        contextlib.closing(boot(Plan(kafka=kafka), folder)) as cluster,
    ):
        yield from DriverBench(cluster, folder / "driver.log").check(command)


def _opens(bench: DriverBench) -> str:
    with bench.opened() as (driver, _):
        answer = _answer(driver, driver.call("reach", topic=_TOPIC), "reach", _ANSWERS_S)
        if answer.error:
            raise WrongDriverError(f"reach is answered with {answer.as_error()}")
    return "a producer is opened, and learns the topic's partitions"


def _sends(bench: DriverBench) -> str:
    with bench.opened() as (driver, _):
        names = [f"all-{number}" for number in range(_RECORDS)]
        answers = _send(driver, names)
    there: dict[tuple[int, int], str] = _read(bench)
    for number, (name, answer) in enumerate(zip(names, answers, strict=True)):
        if answer.error:
            raise WrongDriverError(f"{name} is answered with {answer.as_error()}")
        if answer.offset is None:
            raise WrongDriverError(f"{name} is acknowledged without an `offset`")
        place = (number % _PARTITIONS, answer.offset)
        if there.get(place) != name:
            raise WrongDriverError(
                f"{name} is acknowledged at offset {place[1]} of partition {place[0]}, where"
                f" {there.get(place, 'nothing')} is"
            )
    return f"{_RECORDS} records are acknowledged, and are where the answers say"


def _finds_no_partition(bench: DriverBench) -> str:
    with bench.opened() as (driver, _):
        future = driver.call("send", topic=_TOPIC, partition=99, value="nowhere")
        answer = _answer(driver, future, "a send to partition 99", _ANSWERS_S)
        if not answer.error:
            raise WrongDriverError("a record of a partition that is not there is acknowledged")
    return f"a record of a partition that is not there is answered with {answer.error}"


def _asks_for_nothing(bench: DriverBench) -> str:
    with bench.opened(acks="0") as (driver, _):
        for answer in _send(driver, ["none-0", "none-1"]):
            if answer.error or answer.offset is not None:
                raise WrongDriverError(
                    f"with acks=0 brokers return no offset, and the answer is {_words(answer)}"
                )
    return "with acks=0 a record is answered without an offset"


def _names_errors(bench: DriverBench) -> str:
    with bench.opened() as (driver, _):
        future = driver.call("send", topic=_SMALL, partition=0, value="x" * 1_000)
        answer = _answer(driver, future, "a send", _ANSWERS_S)
        if not answer.error or answer.code != _TOO_LARGE:
            raise WrongDriverError(
                f"a broker refuses a record with Kafka's error {_TOO_LARGE}, and the answer is"
                f" {_words(answer)}"
            )
        return f"a broker's error {_TOO_LARGE} is {answer.error}"


def _gives_up(bench: DriverBench) -> str:
    brokers = bench.cluster.brokers.values()
    with bench.opened() as (driver, _):
        _send(driver, ["before"])
        for broker in brokers:
            broker.pause()
        try:
            future = driver.call("send", topic=_TOPIC, partition=0, value="meanwhile")
            limit_s = _TIMEOUT_S + _LATE_S
            answer = _answer(driver, future, "a send of 5 s (`message.timeout.ms`)", limit_s)
        finally:
            for broker in brokers:
                broker.resume()
        if not answer.error:
            raise WrongDriverError("a record is acknowledged while all brokers are paused")
        if not answer.queued:
            raise WrongDriverError(
                f"a record that brokers may get later is answered with {answer.error} and"
                " `queued: false`"
            )
        return f"while all brokers are paused a record is answered with {answer.error}"


def _refuses(bench: DriverBench) -> str:
    with bench.opened() as (driver, _):
        answer = _answer(driver, driver.call("unheard-of"), "an unknown request", _ANSWERS_S)
        if not answer.error:
            raise WrongDriverError("a request that the driver does not know is answered as done")
        [after] = _send(driver, ["after"])
        if after.error:
            raise WrongDriverError(f"after an unknown request a send fails: {after.as_error()}")
    return "an unknown request is answered with an error"


def _ends(bench: DriverBench) -> str:
    with bench.opened(ends=True) as (driver, process):
        _send(driver, ["last"])
        if not process.end_input(_ENDS_S):
            raise WrongDriverError(f"{_ENDS_S:g} s after its input has ended the driver goes on")
        return "the driver ends with its input"


PARTS: Final[dict[str, Callable[[DriverBench], str]]] = {
    "open": _opens,
    "send": _sends,
    "acks=0": _asks_for_nothing,
    "partition": _finds_no_partition,
    "errors": _names_errors,
    "time-out": _gives_up,
    "unknown request": _refuses,
    "end": _ends,
}


def _send(driver: ClientDriver, names: Sequence[str]) -> list[DriverAnswer]:
    """Send records to the partitions in turn; return their answers."""
    sends = [
        driver.call("send", topic=_TOPIC, partition=number % _PARTITIONS, value=name)
        for number, name in enumerate(names)
    ]
    return [
        _answer(driver, future, name, _ANSWERS_S) for future, name in zip(sends, names, strict=True)
    ]


def _answer(
    driver: ClientDriver, future: "Future[DriverAnswer]", what: str, limit_s: float
) -> DriverAnswer:
    try:
        answer = future.result(limit_s)
    except TimeoutError as late:
        raise WrongDriverError(f"{what} has no answer after {limit_s:g} s") from late
    if driver.broken:
        raise WrongDriverError(driver.broken)
    return answer


def _read(bench: DriverBench) -> dict[tuple[int, int], str]:
    """Return the names of the topic's records, by partition and offset."""
    reader = LIBRDKAFKA.consumer(client_config.consumer(bench.common_settings))
    there: dict[tuple[int, int], str] = {}
    try:
        places = [TopicPartition(_TOPIC, number, 0) for number in range(_PARTITIONS)]
        reader.assign(places)

        def read() -> int:
            for record in reader.consume(_RECORDS, 0.2):
                if record.error() is None:
                    partition, offset = record.partition(), record.offset()
                    assert partition is not None
                    assert offset is not None
                    there[partition, offset] = (record.value() or b"").decode()
            ends = [reader.get_watermark_offsets(place, 10.0)[1] for place in places]
            return sum(ends) - len(there)

        await_condition(
            read, lambda left: not left, what="a reader to get all records", limit_s=_ANSWERS_S
        )
    finally:
        reader.close()
    return there


def _words(answer: DriverAnswer) -> str:
    if not answer.error:
        return f"offset {answer.offset}"
    return f"error {answer.error}, code {answer.code}"

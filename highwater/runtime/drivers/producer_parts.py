"""The tests of a driver's plain producer, on real brokers (docs/driver.md)."""

from collections.abc import Callable
from typing import Final

from highwater.runtime.drivers.bench import (
    ANSWERS_S,
    PARTITIONS,
    RECORDS,
    SMALL,
    TIMEOUT_S,
    TOPIC,
    DriverBench,
    WrongDriverError,
    answered,
    read,
    send,
    words,
)

_LATE_S: Final = 15.0
"""The longest time between a send's timeout and its response, on a busy machine."""

_ENDS_S: Final = 5.0
_TOO_LARGE: Final = 10
"""Kafka's error code of MESSAGE_TOO_LARGE."""


def _opens(bench: DriverBench) -> str:
    with bench.opened() as (driver, _):
        answer = answered(driver, driver.call("reach", topic=TOPIC), "reach", ANSWERS_S)
        if answer.error:
            raise WrongDriverError(f"the response to reach is {answer.as_error()}")
    return "a producer is opened, and knows the topic's partitions"


def _sends(bench: DriverBench) -> str:
    with bench.opened() as (driver, _):
        names = [f"all-{number}" for number in range(RECORDS)]
        answers = send(driver, names)
    there: dict[tuple[int, int], str] = read(bench)
    for number, (name, answer) in enumerate(zip(names, answers, strict=True)):
        if answer.error:
            raise WrongDriverError(f"the response to {name} is {answer.as_error()}")
        if answer.offset is None:
            raise WrongDriverError(f"{name} is acknowledged without an `offset`")
        place = (number % PARTITIONS, answer.offset)
        if there.get(place) != name:
            raise WrongDriverError(
                f"{name} is acknowledged at offset {place[1]} of partition {place[0]}, but the "
                f"log has {there.get(place, 'nothing')} there"
            )
    return f"{RECORDS} records are acknowledged, and stored at the acknowledged offsets"


def _finds_no_partition(bench: DriverBench) -> str:
    with bench.opened() as (driver, _):
        future = driver.call("send", topic=TOPIC, partition=99, value="nowhere")
        answer = answered(driver, future, "a send to partition 99", ANSWERS_S)
        if not answer.error:
            raise WrongDriverError("a record for a missing partition is acknowledged")
    return f"a record for a missing partition gets the error {answer.error}"


def _asks_for_nothing(bench: DriverBench) -> str:
    with bench.opened(bench.producing(acks="0")) as (driver, _):
        for answer in send(driver, ["none-0", "none-1"]):
            if answer.error or answer.offset is not None:
                raise WrongDriverError(
                    f"with acks=0 brokers return no offset, but the response is {words(answer)}"
                )
    return "with acks=0 the response has no offset"


def _names_errors(bench: DriverBench) -> str:
    with bench.opened() as (driver, _):
        future = driver.call("send", topic=SMALL, partition=0, value="x" * 1_000)
        answer = answered(driver, future, "a send", ANSWERS_S)
        if not answer.error or answer.code != _TOO_LARGE:
            raise WrongDriverError(
                f"a broker refuses a record with Kafka's error {_TOO_LARGE}, but the response is "
                f"{words(answer)}"
            )
        return f"a broker's error {_TOO_LARGE} is {answer.error}"


def _gives_up(bench: DriverBench) -> str:
    brokers = bench.cluster.brokers.values()
    with bench.opened() as (driver, _):
        send(driver, ["before"])
        for broker in brokers:
            broker.pause()
        try:
            future = driver.call("send", topic=TOPIC, partition=0, value="meanwhile")
            limit_s = TIMEOUT_S + _LATE_S
            answer = answered(driver, future, "a send of 5 s (`message.timeout.ms`)", limit_s)
        finally:
            for broker in brokers:
                broker.resume()
        if not answer.error:
            raise WrongDriverError("a record is acknowledged while all brokers are paused")
        if not answer.queued:
            raise WrongDriverError(
                f"a record that brokers may still receive gets the response {answer.error} and "
                "`queued: false`"
            )
        return f"while all brokers are paused, a record gets the error {answer.error}"


def _refuses(bench: DriverBench) -> str:
    with bench.opened() as (driver, _):
        answer = answered(driver, driver.call("unheard-of"), "an unknown request", ANSWERS_S)
        if not answer.error:
            raise WrongDriverError("an unknown request gets a response without an error")
        [after] = send(driver, ["after"])
        if after.error:
            raise WrongDriverError(f"after an unknown request a send fails: {after.as_error()}")
    return "an unknown request gets an error"


def _ends(bench: DriverBench) -> str:
    with bench.opened(ends=True) as (driver, process):
        send(driver, ["last"])
        if not process.end_input(_ENDS_S):
            raise WrongDriverError(
                f"the driver still runs {_ENDS_S:g} s after the end of its input"
            )
        return "the driver exits at the end of its input"


PRODUCER_PARTS: Final[dict[str, Callable[[DriverBench], str]]] = {
    "open": _opens,
    "send": _sends,
    "acks=0": _asks_for_nothing,
    "partition": _finds_no_partition,
    "errors": _names_errors,
    "time-out": _gives_up,
    "unknown request": _refuses,
    "end": _ends,
}

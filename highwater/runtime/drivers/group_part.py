"""The test of a driver's consumers as members of a group, on real brokers (docs/driver.md)."""

import contextlib
import queue
from collections.abc import Callable, Iterator
from typing import Final

from highwater.harness.base.errors import WaitTimeoutError
from highwater.harness.base.waiting import await_condition
from highwater.harness.clients import client_config
from highwater.harness.clients.drivers.client_driver import ClientDriver, DriverAnswer
from highwater.runtime.drivers.bench import (
    ANSWERS_S,
    PARTITIONS,
    TOPIC,
    DriverBench,
    WrongDriverError,
    answered,
    read,
    send,
)

_POLL_MS: Final = 200
_EVENT_S: Final = 0.05
ALL: Final = frozenset(range(PARTITIONS))
"""The partition numbers of the topic."""


class Member:
    """A driver's consumer that is a member of the group.

    Attributes:
        owned: the partitions that the group has assigned to the consumer.
        places: the partition and offset of each record that the consumer has read.
    """

    def __init__(self, driver: ClientDriver) -> None:
        self.driver = driver
        self.owned: set[int] = set()
        self.places: set[tuple[int, int]] = set()
        self._events: queue.SimpleQueue[DriverAnswer] = queue.SimpleQueue()
        driver.happened = self._events.put

    def ask(self, op: str, **words: object) -> DriverAnswer:
        """Send a request; handle group events that arrive before the response; return the response.

        Raises:
            WrongDriverError: the response is an error, or is late.
        """
        future = self.driver.call(op, **words)

        def look() -> str:
            with contextlib.suppress(queue.Empty):
                self._handle(self._events.get(timeout=_EVENT_S))
            return "answered" if future.done() else "waiting"

        with contextlib.suppress(WaitTimeoutError):
            await_condition(look, "answered".__eq__, what=op, limit_s=ANSWERS_S)
        given = answered(self.driver, future, op, 0.1)
        if given.error:
            raise WrongDriverError(f"the response to {op} is {given.as_error()}")
        return given

    def poll(self) -> None:
        """Read the next records.

        Raises:
            WrongDriverError: the driver reads from a partition that it does not own.
        """
        for record in self.ask("poll", max=50, wait_ms=_POLL_MS).records:
            if record.partition not in self.owned:
                raise WrongDriverError(
                    f"the driver reads partition {record.partition}, which the group has not "
                    "assigned to it"
                )
            self.places.add((record.partition, record.offset))

    def _handle(self, event: DriverAnswer) -> None:
        numbers = set(event.partitions)
        if event.event != "assigned":
            self.owned -= numbers
        elif numbers:
            self.owned |= numbers
            there = self._within("committed", topic=TOPIC, partitions=sorted(numbers)).offsets
            offsets = {number: there.get(number, 0) for number in sorted(numbers)}
            self._within("seek", topic=TOPIC, offsets=offsets)
        self._within("handled", event=event.id)

    def _within(self, op: str, **words: object) -> DriverAnswer:
        given = answered(self.driver, self.driver.call(op, **words), op, ANSWERS_S)
        if given.error:
            raise WrongDriverError(
                f"the response to {op}, after a group event, is {given.as_error()}"
            )
        return given


def joins_group(bench: DriverBench) -> str:
    """Test that two members share partitions, commit positions and take over partitions."""
    group = bench.new_group()
    with bench.opened() as (driver, _):
        send(driver, [f"group-{number}" for number in range(PARTITIONS * 3)])
    there = {place for place in read(bench) if place[0] in ALL}
    with joined(bench, group) as first:
        until(lambda: there <= first.places, "its records", first)
        ends = {n: max(offset for at, offset in there if at == n) + 1 for n in ALL}
        first.ask("commit", topic=TOPIC, offsets=ends)
        offsets = first.ask("committed", topic=TOPIC, partitions=sorted(ALL)).offsets
        if offsets != ends:
            raise WrongDriverError(
                f"the driver commits {ends}, but the group's offsets are {offsets}"
            )
        with joined(bench, group) as second:
            share(first, second)
            if first.owned & second.owned:
                raise WrongDriverError(
                    f"both members have the partitions {first.owned & second.owned}"
                )
            second.ask("close")
        until(lambda: first.owned == ALL, "the partitions of the member that left", first)
        if second.places & there:
            raise WrongDriverError("a new member reads records again that the group has committed")
    return f"two members share {PARTITIONS} partitions, commit positions, and take over partitions"


@contextlib.contextmanager
def joined(bench: DriverBench, group: str) -> Iterator[Member]:
    """Let a driver's consumer join a group during the ``with`` block.

    Raises:
        RefusedError: the driver does not support group members.
    """
    settings = client_config.consumer(bench.common_settings, group=group)
    opening = bench.opened(settings, role="consumer", needed=False, member=True)
    with opening as (driver, _):
        member = Member(driver)
        member.ask("subscribe", topic=TOPIC)
        yield member


def until(done: Callable[[], bool], what: str, *members: Member) -> None:
    """Let members poll until a condition holds.

    Raises:
        WrongDriverError: the condition does not hold in time.
    """

    def look() -> str:
        for member in members:
            member.poll()
        return "done" if done() else str([sorted(member.owned) for member in members])

    try:
        await_condition(look, "done".__eq__, what=what, limit_s=ANSWERS_S)
    except WaitTimeoutError as late:
        raise WrongDriverError(
            f"{what} did not come within {ANSWERS_S:g} s; the member has the partitions {late.seen}"
        ) from late


def share(first: Member, second: Member) -> None:
    """Let two members poll until each has partitions, and both together have all.

    Raises:
        WrongDriverError: the second member gets no partition in time.
    """
    until(
        lambda: bool(second.owned) and first.owned | second.owned == ALL,
        "the second member to get partitions",
        *(first, second),
    )

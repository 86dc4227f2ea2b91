"""The test of group offsets in a driver's transactions, on real brokers (docs/driver.md)."""

import contextlib
from typing import Final

from highwater.harness.clients.drivers.client_driver import ClientDriver, DriverAnswer
from highwater.runtime.drivers.bench import (
    ANSWERS_S,
    TOPIC,
    DriverBench,
    RefusedError,
    WrongDriverError,
    answered,
    done,
    repeated,
    send,
)
from highwater.runtime.drivers.group_part import ALL, Member, joined, share, until

_SINCE: Final = (2, 5)
"""The first release whose brokers refuse offsets from members of old generations (KIP-447)."""

_NAME: Final = "driver-check-offsets"
_HASTE_S: Final = 1.0
"""The time within which a wrong response would arrive."""


def moves_offsets(bench: DriverBench) -> str:
    """Test that a commit changes the group's offsets; an abort or an old generation must not.

    Raises:
        RefusedError: the driver or its brokers do not support offsets in transactions.
        WrongDriverError: the driver differs from its specification.
    """
    if bench.cluster.release.number < _SINCE:
        raise RefusedError("brokers before 2.5 do not refuse offsets of an old generation")
    group = bench.new_group()
    with (
        bench.opened(bench.transacting(_NAME), needed=False) as (driver, _),
        joined(bench, group) as first,
    ):
        until(lambda: first.owned == ALL, "its partitions", first)
        member = _member(first)
        done(driver, "init")
        for offset, end in ((1, "commit"), (2, "abort"), (3, "commit")):
            given = _add(driver, offset, member)
            if given.error:
                raise WrongDriverError(f"the response to offsets is {given.as_error()}")
            _look_too_early(first)
            done(driver, end)
            _expect(first, {0: 1 if end == "abort" else offset}, f"{end} with offset {offset}")
        with joined(bench, group) as second:
            share(first, second)
            given = _add(driver, 4, member)
            if not given.error:
                raise WrongDriverError("offsets from a member of an old generation are accepted")
            done(driver, "abort")
    return f"only a commit moves offsets; offsets of an old generation get the error {given.error}"


def _member(member: Member) -> object:
    """Request a group member's metadata from its driver, for the request ``offsets``."""
    given = answered(member.driver, member.driver.call("member"), "member", ANSWERS_S)
    if given.error:
        raise RefusedError(str(given.as_error()))
    return given.member


def _add(driver: ClientDriver, offset: int, member: object) -> DriverAnswer:
    """Begin a transaction, send a record, and add an offset; return the response to the offset."""
    done(driver, "begin")
    send(driver, [f"offsets-{offset}"])
    return repeated(driver, "offsets", topic=TOPIC, offsets={0: offset}, member=member)


def _look_too_early(member: Member) -> None:
    """Require that no response has the offsets of a transaction while it is open."""
    future = member.driver.call("committed", topic=TOPIC, partitions=[0])
    with contextlib.suppress(TimeoutError):
        given = future.result(_HASTE_S)
        if not given.error:
            raise WrongDriverError(
                f"while a transaction is open, the response to committed is {given.offsets}: "
                "offsets has added none, or committed does not wait for the end of the "
                "transaction"
            )


def _expect(member: Member, offsets: dict[int, int], when: str) -> None:
    there = member.ask("committed", topic=TOPIC, partitions=sorted(ALL)).offsets
    if there != offsets:
        raise WrongDriverError(
            f"after {when} the group has the offsets {there}, but should have {offsets}"
        )

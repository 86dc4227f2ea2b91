"""The tests of idempotent and transactional producers, and of consumers (docs/driver.md).

These clients are optional: a driver may refuse to open them.
"""

from collections.abc import Callable, Mapping
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
    done,
    read,
    repeated,
    send,
)
from highwater.runtime.drivers.group_part import joins_group
from highwater.runtime.drivers.offsets_part import moves_offsets

_POLL_MS: Final = 200
_FAR: Final = 1_000_000_000
_NAME: Final = "driver-check-transactions"


def _numbers_records(bench: DriverBench) -> str:
    settings = bench.producing(idempotence=True)
    before = _producer_ids(bench)
    with bench.opened(settings, needed=False) as (driver, _):
        for given in send(driver, ["idempotent"]):
            if given.error:
                raise WrongDriverError(f"the response to an idempotent send is {given.as_error()}")
    if _producer_ids(bench) <= before:
        raise WrongDriverError(
            "with enable.idempotence the leader got no producer id: a retry may write a record "
            "twice"
        )
    return "with enable.idempotence records have a producer id"


def _producer_ids(bench: DriverBench) -> frozenset[int]:
    """Return the producer ids that the leader of partition 0 stores."""
    probe = bench.cluster.probe()
    try:
        return probe.producers(probe.partition(TOPIC, 0).leader, TOPIC, 0)
    finally:
        probe.close()


def _commits(bench: DriverBench) -> str:
    settings = bench.transacting(_NAME)
    with bench.opened(settings, needed=False) as (driver, _):
        done(driver, "init")
        for end in ("commit", "abort"):
            _transact(driver, end)
        done(driver, "begin")
        send(driver, ["open-0"])
        with bench.opened(settings) as (second, _):
            done(second, "init")
            _transact(second, "commit", "second")
        given = repeated(driver, "commit")
        if not given.error:
            raise WrongDriverError(
                "another producer has the same transactional.id, but this producer's commit "
                "succeeds"
            )
    seen = {name for name in read(bench).values() if name.partition("-")[0] in _ENDINGS}
    if seen != {
        f"{name}-{number}" for name in ("commit", "second") for number in range(PARTITIONS)
    }:
        raise WrongDriverError(
            f"a read_committed reader sees {', '.join(sorted(seen)) or 'nothing'} of what it has"
            " committed (commit-0 to 2, second-0 to 2), aborted (abort-0 to 2) and left (open-0)"
        )
    return f"transactions are committed and aborted; a fenced producer gets the error {given.error}"


_ENDINGS: Final = frozenset({"commit", "abort", "second", "open"})


def _transact(driver: ClientDriver, end: str, name: str = "") -> None:
    done(driver, "begin")
    names = [f"{name or end}-{number}" for number in range(PARTITIONS)]
    for given in send(driver, names):
        if given.error:
            raise WrongDriverError(f"a send in a transaction gets the response {given.as_error()}")
    done(driver, end)


def _reads(bench: DriverBench) -> str:
    settings = client_config.consumer(bench.common_settings)
    with bench.opened() as (driver, _):
        send(driver, [f"read-{number}" for number in range(PARTITIONS * 3)])
    there = read(bench)
    with bench.opened(settings, role="consumer", needed=False) as (driver, _):
        _seek(driver, dict.fromkeys(range(PARTITIONS), 0))
        records = _polled(driver, len(there))
        if records != there:
            [place] = sorted(records.items() ^ there.items())[:1]
            raise WrongDriverError(
                f"the driver reads records that another reader does not read: {place}"
            )
        low, high = (bound(place for place in there if place[0] == 0) for bound in (min, max))
        given = answered(
            driver, driver.call("bounds", topic=TOPIC, partition=0), "bounds", ANSWERS_S
        )
        if given.error or not given.first <= low[1] < high[1] < given.end:
            raise WrongDriverError(
                f"partition 0 has records from {low[1]} to {high[1]}, but the response to bounds "
                f"is {given.first} to {given.end} {given.error}"
            )
        _seek(driver, {0: high[1]})
        if _polled(driver, 1) != {high: there[high]}:
            raise WrongDriverError(
                f"after a seek to offset {high[1]} the driver reads another record"
            )
        _seek(driver, {0: _FAR})
        _reports(driver)
    return f"{len(there)} records are read; seek and out_of_range work"


def _seek(driver: ClientDriver, offsets: Mapping[int, int]) -> None:
    future = driver.call("seek", topic=TOPIC, offsets=offsets)
    given = answered(driver, future, "seek", ANSWERS_S)
    if given.error:
        raise WrongDriverError(f"the response to seek is {given.as_error()}")


def _poll(driver: ClientDriver) -> DriverAnswer:
    return answered(driver, driver.call("poll", max=50, wait_ms=_POLL_MS), "poll", ANSWERS_S)


def _polled(driver: ClientDriver, expected: int) -> dict[tuple[int, int], str]:
    """Poll until the driver has read this many records; return names by (partition, offset)."""
    records: dict[tuple[int, int], str] = {}

    def more() -> int:
        for record in _poll(driver).records:
            place = record.partition, record.offset
            if place in records:
                raise WrongDriverError(
                    f"the driver reads offset {place[1]} of partition {place[0]} twice"
                )
            records[place] = record.value or ""
        return len(records)

    try:
        await_condition(
            more, lambda number: number >= expected, what="its records", limit_s=ANSWERS_S
        )
    except WaitTimeoutError as late:
        raise WrongDriverError(f"the driver reads {len(records)} of {expected} records") from late
    return records


def _reports(driver: ClientDriver) -> None:
    try:
        await_condition(
            lambda: _poll(driver).out_of_range,
            lambda positions: positions == {0: _FAR},
            what="the position",
            limit_s=ANSWERS_S,
        )
    except WaitTimeoutError as late:
        raise WrongDriverError(
            f"at offset {_FAR:,}, which is not in the log, `out_of_range` has {late.seen}"
        ) from late


OTHER_PARTS: Final[dict[str, Callable[[DriverBench], str]]] = {
    "idempotence": _numbers_records,
    "transactions": _commits,
    "consumer": _reads,
    "group": joins_group,
    "offsets": moves_offsets,
}

"""Test a client driver on real brokers, one test for each part of docs/driver.md."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from highwater.clusters.local.client_driver import last_line
from highwater.harness.base.scratch import temporary
from highwater.harness.runs.plan import Plan
from highwater.runtime.drivers.bench import DriverBench, RefusedError, WrongDriverError
from highwater.runtime.drivers.other_parts import OTHER_PARTS
from highwater.runtime.drivers.producer_parts import PRODUCER_PARTS
from highwater.runtime.runner import boot

PARTS: Final = {**PRODUCER_PARTS, **OTHER_PARTS}


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedPart:
    """The result of a driver's test for one part of the specification.

    Attributes:
        seen: a sentence about the observed behaviour.
        right: whether the behaviour agrees with the specification.
    """

    name: str
    seen: str
    right: bool


def check_parts(bench: DriverBench, command: Sequence[str], *parts: str) -> Iterator[CheckedPart]:
    """Test a driver for each part of the specification; if ``open`` fails, skip the others."""
    bench.command = command
    for name in parts or PARTS:
        try:
            yield CheckedPart(name=name, seen=PARTS[name](bench), right=True)
        except RefusedError as refused:
            yield CheckedPart(
                name=name, seen=f"the driver does not support this: {refused}", right=True
            )
        except WrongDriverError as wrong:
            seen = f"{wrong}; its standard error ends: {last_line(bench.log) or 'nothing'}"
            yield CheckedPart(name=name, seen=seen, right=False)
            if name == "open":
                return


def check_driver(command: Sequence[str], kafka: str) -> Iterator[CheckedPart]:
    """Start brokers of a release, and test a driver on them.

    Raises:
        HarnessError: the brokers do not start.
    """
    with (
        temporary("driver-check") as folder,
        contextlib.closing(boot(Plan(kafka=kafka), folder)) as cluster,
    ):
        yield from check_parts(DriverBench(cluster, folder / "driver.log"), command)

"""Golden runs whose leader was asked for the first record from a time on, at the end."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from highwater.harness.runs.history import record_value
from highwater.harness.runs.store import Run
from tests.support.logdirs import batch
from tests.support.run_builder import RunBuilder

Finding = tuple[str, int, int | None, str | None]

TIMES: Final = (100, 300, 200, 300)
"""The timestamps of m0 and m1, in a batch, of m2, and of the fence."""


def looked_up(path: Path, *answers: tuple[int | None, int | None]) -> Run:
    """A run whose leader answered so: to a time, or to None for the largest, with an offset."""
    run = RunBuilder(path, kafka="3.6.2")
    names = ("m0", "m1", "m2", "fence-0")
    records = [(None, record_value(name, 32)) for name in names]
    for offset, name in enumerate(names[:-1]):
        run.send(name, offset)
        run.read(name, offset)
    run.fence(3)
    ends = ((0, 2), (2, 3), (3, 4))
    log = [batch(base, records[base:end], times_ms=TIMES[base:end]) for base, end in ends]
    for broker in (1, 2, 3):
        run.disks[broker, 0] = log
    for time_ms, answer in answers:
        run.lookup(1, time_ms, answer, hw=4)
    return run.write()


def _case(
    name: str, answers: Sequence[tuple[int | None, int | None]], *wrong: int | None
) -> tuple[str, Callable[[Path], Run], tuple[Finding, ...]]:
    findings = tuple(("wrong-lookup", 0, offset, None) for offset in wrong)
    return f"lookup-{name}", lambda path: looked_up(path, *answers), findings


CASES: Final = (
    _case("right", [(99, 0), (100, 0), (101, 1), (300, 1), (301, None), (None, 1), (None, 3)]),
    _case("younger-than-the-request", [(301, 4), (None, 4)]),
    _case("later-record", [(101, 1), (300, 3)], 3),
    _case("older-record", [(101, 0)], 0),
    _case("no-record", [(300, None), (None, None)], None, None),
    _case("record-for-none", [(301, 3)], 3),
    _case("older-than-the-largest", [(None, 0)], 0),
)

"""What was put into a history is found in it, all of it and nothing else.

Every example is a batch of runs, because a judgement of many takes hardly longer than that of one.
``HIGHWATER_HISTORIES`` is how many runs there are, about.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from highwater.checkers.judge import judge
from highwater.harness.runs.store import Run
from tests.support.run_builder import RunBuilder
from tests.support.seeds import histories

pytestmark = [pytest.mark.spark, pytest.mark.slow]

COUNT = histories(12, 240)
TOGETHER = min(COUNT, 200)

FATES = (
    "kept",
    "info",  # nobody knows, but it is there
    "failed",  # refused, and the offset is nobody's
    "lost",  # acknowledged, and nothing stands there
    "replaced",  # acknowledged, and another record stands there
    "twice",  # read at its offset and again at the end
    "forked",  # broker 2 holds another record there
    "reborn",  # broker 2 holds the same record, of another leader epoch
    "skipped",  # broker 2 holds nothing there
    "rotten",  # a bit has flipped on broker 3
)

Finding = tuple[str, int | None, str | None]
Disks = dict[int, dict[int, tuple[int, str]]]
"""Broker to offset to leader epoch and value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A history in one partition.

    Attributes:
        fates: what became of the record sent to each offset.
        unread: how many of the last offsets the final reader does not reach.
        lag: how many of the last offsets broker 3 does not hold.
    """

    fates: tuple[str, ...]
    unread: int
    lag: int


cases = st.builds(
    Case,
    fates=st.lists(st.one_of(st.just("kept"), st.sampled_from(FATES)), min_size=1, max_size=14).map(
        tuple
    ),
    unread=st.sampled_from([0, 0, 0, 1, 3]),
    lag=st.sampled_from([0, 0, 2]),
)


@given(batch=st.lists(cases, min_size=TOGETHER, max_size=TOGETHER))
@settings(max_examples=-(-COUNT // TOGETHER), phases=(Phase.explicit, Phase.generate))
def test_injected_anomalies_are_found_exactly(spark: SparkSession, batch: list[Case]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        built = [_build(Path(folder) / f"run-{n}", case) for n, case in enumerate(batch)]
        verdicts = judge([run for run, _ in built], spark)
    for case, (_, expected), verdict in zip(batch, built, verdicts, strict=True):
        found = [(one.kind, one.offset, one.value) for one in verdict.anomalies]
        assert len(found) == len(set(found)), case
        assert set(found) == expected, case
        assert not verdict.ledger.errors(), case
        assert verdict.ledger.lost == sum(kind == "lost-write" for kind, *_ in expected), case


def _build(path: Path, case: Case) -> tuple[Run, set[Finding]]:
    """The run of a case, and what is wrong with it."""
    run = RunBuilder(path)
    read: list[tuple[int, str]] = []
    disks: Disks = {1: {}, 2: {}, 3: {}}
    for offset, fate in enumerate(case.fates):
        _send(run, offset, fate)
        if fate not in ("failed", "lost"):
            stands = f"other-{offset}" if fate == "replaced" else f"m{offset}"
            if fate == "replaced":
                run.send(stands, None, outcome="info", process="producer-1")
            read.append((offset, stands))
            _append(disks, offset, stands, fate)
    again = [f"m{offset}" for offset, fate in enumerate(case.fates) if fate == "twice"]
    for offset, value in enumerate(again, len(case.fates)):
        read.append((offset, value))
        _append(disks, offset, value, "kept")
    read = read[: len(read) - case.unread]
    for offset in sorted(disks[3])[len(disks[3]) - case.lag :]:
        del disks[3][offset]
    for offset, value in read:
        run.read(value, offset)
    rotten = _write_disks(run, case, disks)
    return run.write(), _of_clients(case, read) | _of_disks(disks, rotten)


def _send(run: RunBuilder, offset: int, fate: str) -> None:
    outcome = {"info": "info", "failed": "fail"}.get(fate, "ok")
    run.send(f"m{offset}", None if fate == "failed" else offset, outcome=outcome)


def _append(disks: Disks, offset: int, value: str, fate: str) -> None:
    """Put a record on every disk, or what its fate puts on that of broker 2."""
    for held in disks.values():
        held[offset] = (0, value)
    if fate == "forked":
        disks[2][offset] = (0, f"fork-{offset}")
    elif fate == "reborn":
        disks[2][offset] = (1, value)
    elif fate == "skipped":
        del disks[2][offset]


def _write_disks(run: RunBuilder, case: Case, disks: Disks) -> list[int]:
    """Put the records on the disks; returns the offsets that rot on broker 3."""
    for broker, records in disks.items():
        run.disk([broker], [(offset, *records[offset]) for offset in sorted(records)])
    held = sorted(disks[3])
    rotten = [offset for offset in held if dict(enumerate(case.fates)).get(offset) == "rotten"]
    for offset in rotten:
        run.damage(3, held.index(offset))
    return rotten


def _of_clients(case: Case, read: list[tuple[int, str]]) -> set[Finding]:
    last = max((offset for offset, _ in read), default=-1)
    values = [value for _, value in read]
    found: set[Finding] = set()
    for offset, fate in enumerate(case.fates):
        value = f"m{offset}"
        if values.count(value) > 1:
            found.add(("duplicate", offset, value))
        if fate not in ("info", "failed") and value not in values:
            found.add(("lost-write" if offset <= last else "unseen", offset, value))
    return found


def _of_disks(disks: Disks, rotten: list[int]) -> set[Finding]:
    found: set[Finding] = {("corrupt", offset, None) for offset in rotten}
    sound = {broker: dict(records) for broker, records in disks.items()}
    for offset in rotten:
        del sound[3][offset]
    for offset in sorted(set().union(*sound.values())):
        copies = {broker: held[offset] for broker, held in sound.items() if offset in held}
        holes = [
            broker
            for broker, held in sound.items()
            if offset not in held
            and held
            and min(held) < offset < max(held)
            and not (broker == 3 and rotten)
        ]
        if len(set(copies.values())) > 1 or holes:
            found.add(("divergence", offset, copies[min(copies)][1]))
    return found

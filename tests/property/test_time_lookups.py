"""A leader that returns the first record from a time on is not accused; one that does not is found.

Logs have batches of some records, whose timestamps go forward and back. The reference keeps plain
lists of offsets and timestamps. ``HIGHWATER_HISTORIES`` is how many logs, ``HIGHWATER_SEED`` the
first one's seed.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from highwater.checkers.disks.time_lookups import wrong_lookup
from highwater.checkers.run_files import RunFiles
from highwater.checkers.run_tables import Tables
from highwater.checkers.spark.engine import Engine
from highwater.harness.runs.history import record_value
from highwater.harness.runs.plan import Topic
from tests.support.logdirs import batch
from tests.support.run_builder import RunBuilder
from tests.support.seeds import FIRST, histories

pytestmark = [pytest.mark.drawn, pytest.mark.spark, pytest.mark.slow]

COUNT: Final = histories(20, 400)
EARLIEST, LATEST = 1000, 1030

Answer = tuple[int | None, int | None]
"""A time, or None for the largest timestamp; and the offset that the leader returned."""
Found = dict[str, list[int | None]]


@dataclass(slots=True)
class Leader:
    """A log, the bounds of what its leader may return, and what it answered.

    Attributes:
        batches: the timestamps of each batch's records.
        gone: how many batches the disk lacks at its beginning.
        wrong: the offsets of the answers that are wrong.
    """

    batches: list[list[int]]
    start: int = 0
    hw: int = 0
    answers: list[Answer] = field(default_factory=list)
    gone: int = 0
    quiesced: bool = True
    topic: Topic = field(default_factory=Topic)
    wrong: list[int | None] = field(default_factory=list)

    @property
    def visible(self) -> list[tuple[int, int]]:
        """Offset and timestamp of each record that the leader may return."""
        times = [time for some in self.batches for time in some]
        return [*enumerate(times)][self.start : self.hw]

    def first(self, time: int) -> int | None:
        """The offset of the first record from a time on."""
        return next((offset for offset, stamp in self.visible if stamp >= time), None)

    def newest(self) -> list[int]:
        """The offsets of the records with the largest timestamp."""
        largest = max(stamp for _, stamp in self.visible)
        return [offset for offset, stamp in self.visible if stamp == largest]

    def write(self, path: Path) -> RunFiles:
        """The run, staged by the judge."""
        run = RunBuilder(path, kafka="3.6.2", quiesced=self.quiesced, topic=self.topic)
        log, base = [], 0
        for times in self.batches:
            records = [(None, record_value(f"m{base + n}", 32)) for n in range(len(times))]
            log.append(batch(base, records, times_ms=times))
            base += len(times)
        for broker in (1, 2, 3):
            run.disks[broker, 0] = log[self.gone :] if broker == 2 else []
        for time, offset in self.answers:
            run.lookup(2, time, offset, hw=self.hw, start=self.start)
        return RunFiles.of(run.write(), path.name)


def leader(seed: int) -> Leader:
    """A leader that was asked for every time, and answered correctly."""
    rng = random.Random(seed)  # noqa: S311
    batches = [
        [rng.randint(EARLIEST, LATEST) for _ in range(rng.randint(1, 4))]
        for _ in range(rng.randint(2, 12))
    ]
    made = Leader(batches)
    end = sum(map(len, batches))
    made.start = rng.choice((0, 0, rng.randrange(end - 1)))
    made.hw = rng.randint(made.start + 1, end)
    for time in range(EARLIEST - 1, LATEST + 2):
        first = made.first(time)
        late = rng.choice((None, made.hw)) if first is None else first
        made.answers.append((time, late))
    if made.start == 0:
        made.answers.append((None, rng.choice(made.newest())))
    return made


def another_record(made: Leader, rng: random.Random) -> None:
    """One answer about a time is another record's offset."""
    number = rng.randrange(LATEST - EARLIEST)
    time, right = made.answers[number]
    others = [offset for offset, _ in made.visible if offset != right]
    if others:
        made.answers[number] = time, rng.choice(others)
        made.wrong.append(made.answers[number][1])


def no_record(made: Leader, rng: random.Random) -> None:
    """One answer is that there is no such record, but there is."""
    right = [n for n, (_, offset) in enumerate(made.answers) if offset not in (None, made.hw)]
    number = rng.choice(right)
    made.answers[number] = made.answers[number][0], None
    made.wrong.append(None)


def another_than_the_largest(made: Leader, rng: random.Random) -> None:
    """The answer about the largest timestamp is a record with a smaller one."""
    others = [offset for offset, _ in made.visible if offset not in made.newest()]
    if made.start == 0 and others:
        made.answers[-1] = None, rng.choice(others)
        made.wrong.append(made.answers[-1][1])


Change = Callable[[Leader, random.Random], None]
CHANGES: Final[tuple[Change, ...]] = (another_record, no_record, another_than_the_largest)


def retention(made: Leader) -> None:
    """The disk lacks the log's beginning, which the leader could return."""
    made.gone = 1
    made.start = min(made.start, len(made.batches[0]) - 1)


def restless(made: Leader) -> None:
    """Not all replicas were in sync at the end."""
    made.quiesced = False


def compaction(made: Leader) -> None:
    """Compaction may have removed records."""
    made.topic = Topic(config={"cleanup.policy": "compact"})


def shortened(made: Leader) -> None:
    """The disk ends before the leader's HW."""
    made.batches.pop()
    made.hw = sum(map(len, made.batches)) + 1


LACKS: Final = (retention, restless, compaction, shortened)


def changed(seed: int, change: Change) -> Leader:
    """A leader with one wrong answer."""
    made = leader(seed)
    change(made, random.Random(seed))  # noqa: S311
    return made


def without(seed: int, lack: Callable[[Leader], None]) -> Leader:
    """A leader with wrong answers, about which evidence is missing."""
    made = changed(seed, no_record)
    lack(made)
    return made


@pytest.fixture(scope="module")
def found(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Found:
    """By run, the offsets of its anomalies; all runs in one pass."""
    folder = tmp_path_factory.mktemp("lookups")
    seeds = range(FIRST, FIRST + COUNT)
    cases = [leader(seed).write(folder / f"valid-{seed}") for seed in seeds]
    for change in CHANGES:
        cases += [changed(s, change).write(folder / f"{change.__name__}-{s}") for s in seeds]
    for lack in LACKS:
        cases += [without(s, lack).write(folder / f"{lack.__name__}-{s}") for s in seeds]
    anomalies: Found = {case.key: [] for case in cases}
    with Engine(spark) as engine:
        rows = wrong_lookup.find(Tables(engine, folder, cases))
        assert isinstance(rows, pa.Table)
        for row in rows.to_pylist():
            assert [copy["broker"] for copy in row["copies"]] == [2]
            anomalies[row["run"]].append(row["offset"])
    return anomalies


def test_a_right_answer_is_no_anomaly(found: Found) -> None:
    for seed in range(FIRST, FIRST + COUNT):
        assert found[f"valid-{seed}"] == [], seed


@pytest.mark.parametrize("change", CHANGES)
def test_a_wrong_answer_is_found(change: Change, found: Found) -> None:
    for seed in range(FIRST, FIRST + COUNT):
        assert found[f"{change.__name__}-{seed}"] == changed(seed, change).wrong, seed


@pytest.mark.parametrize("lack", LACKS)
def test_nobody_is_accused_without_evidence(lack: Callable[[Leader], None], found: Found) -> None:
    for seed in range(FIRST, FIRST + COUNT):
        assert found[f"{lack.__name__}-{seed}"] == [], seed


def test_each_change_is_made_often() -> None:
    seeds = range(FIRST, FIRST + COUNT)
    for change, part in zip(CHANGES, (0.8, 1.0, 0.3), strict=True):
        assert sum(bool(changed(seed, change).wrong) for seed in seeds) >= part * COUNT, change

"""Transactions as coordinators end them have no anomaly; one that is opened again is found.

``HIGHWATER_HISTORIES`` is how many logs, ``HIGHWATER_SEED`` the first one's seed.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from highwater.checkers.run_files import RunFiles
from highwater.checkers.run_tables import Tables
from highwater.checkers.spark.engine import Engine
from highwater.checkers.transactions.hanging_transactions import hanging_transaction
from highwater.harness.runs.plan import Topic
from tests.histories.hanging import (
    ABORTED,
    COMMITTED,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    TOPIC,
    TRANSACTIONS,
    data,
    state,
)
from tests.support.logdirs import Broker
from tests.support.run_builder import RunBuilder
from tests.support.seeds import FIRST, histories

pytestmark = [pytest.mark.drawn, pytest.mark.spark, pytest.mark.slow]

COUNT: Final = histories(20, 400)
PARTITIONS: Final = 2
MARKERS: Final = ("abort", "commit")

Finding = tuple[int, int, str]
"""Partition, offset, value."""
Found = dict[str, list[Finding]]


@dataclass(slots=True)
class Cluster:
    """Logs of some partitions, each an entry an offset: producer and value; and a coordinator's.

    Attributes:
        states: producer and status, in order.
        gaps: what one replica lacks: broker, partition, offset.
        late: what was put in last.
    """

    logs: list[list[tuple[int, str]]] = field(default_factory=lambda: [[] for _ in range(2)])
    states: list[tuple[int, int]] = field(default_factory=list)
    gaps: set[tuple[int, int, int]] = field(default_factory=set)
    late: list[Finding] = field(default_factory=list)

    def append(self, partition: int, producer: int, what: str = "") -> Finding:
        """Append a record, or a marker."""
        log = self.logs[partition]
        log.append((producer, what or f"m{partition}-{len(log)}"))
        return partition, len(log) - 1, log[-1][1]

    def last(self, producer: int) -> int:
        """The coordinator's last word on a producer."""
        return next(status for name, status in reversed(self.states) if name == producer)

    def write(self, path: Path) -> RunFiles:
        """The run, staged by the judge."""
        topic = Topic(partitions=PARTITIONS)
        run = RunBuilder(path, kafka="3.3.2", workload=TRANSACTIONS, topic=topic)
        for broker in (1, 2, 3):
            for partition, log in enumerate(self.logs):
                run.disks[broker, partition] = [
                    data(offset, producer, what)
                    for offset, (producer, what) in enumerate(log)
                    if (broker, partition, offset) not in self.gaps
                ]
        built = run.write()
        records = [
            state(offset, producer, status, f"tx-{producer}")
            for offset, (producer, status) in enumerate(self.states)
        ]
        for broker in (1, 2, 3):
            folder = Broker(built.coordinators / str(broker), broker).meta()
            folder.log(f"{TOPIC}-0", b"".join(records))
        return RunFiles.of(built, path.name)


def cluster(seed: int) -> Cluster:
    """Producers whose transactions overlap; at the end some are open, or about to be ended."""
    rng = random.Random(seed)  # noqa: S311
    made = Cluster()
    opened: dict[int, set[int]] = {}
    for producer in range(rng.randint(1, 4)):
        made.states.append((producer, EMPTY))
        opened[producer] = set()
    for _ in range(rng.randint(5, 40)):
        producer = rng.choice(list(opened))
        if not opened[producer] or rng.random() < 0.6:
            partition = rng.randrange(PARTITIONS)
            made.states.append((producer, ONGOING))
            opened[producer].add(partition)
            if rng.random() < 0.9:  # or the client fails before it sends
                made.append(partition, producer)
        else:
            _end(made, rng, producer, opened)
        if rng.random() < 0.2:
            made.append(rng.randrange(PARTITIONS), -1)
    for producer in [name for name in opened if opened[name] and rng.random() < 0.5]:
        _end(made, rng, producer, opened, whole=rng.random() < 0.6)
    return made


def _end(
    made: Cluster,
    rng: random.Random,
    producer: int,
    opened: dict[int, set[int]],
    *,
    whole: bool = True,
) -> None:
    """End a transaction; if it is not the whole end, some markers and the last word are missing."""
    commit = rng.random() < 0.5
    made.states.append((producer, PREPARE_COMMIT if commit else PREPARE_ABORT))
    for partition in sorted(opened[producer]):
        if whole or rng.random() < 0.5:
            made.append(partition, producer, MARKERS[commit])
    if whole:
        made.states.append((producer, COMMITTED if commit else ABORTED))
    opened[producer] = set()


def late_record(made: Cluster, rng: random.Random) -> None:
    """A record, or two, of a producer whose transaction is over."""
    over = [name for name, _ in made.states if made.last(name) in (EMPTY, COMMITTED, ABORTED)]
    if not over:
        return
    producer, partition = rng.choice(over), rng.randrange(PARTITIONS)
    made.late.append(made.append(partition, producer))
    made.append(partition, -1)
    if rng.random() < 0.5:
        made.append(partition, producer)


def lost_markers(made: Cluster, rng: random.Random) -> None:
    """No replica has the last marker of a transaction that is over; none is behind it."""
    places = _ended(made)
    if not places:
        return
    partition, offset, first = rng.choice(places)
    made.gaps |= {(broker, partition, offset) for broker in (1, 2, 3)}
    made.late.append((partition, first, made.logs[partition][first][1]))


def marker_of_some(made: Cluster, rng: random.Random) -> None:
    """Some replicas lack the last marker of a transaction that is over: another has it."""
    places = _ended(made)
    if places:
        partition, offset, _ = rng.choice(places)
        made.gaps |= {(broker, partition, offset) for broker in rng.sample((1, 2, 3), 2)}


def late_record_of_a_later(made: Cluster, rng: random.Random) -> None:
    """A record of a producer whose next transaction its coordinator has open."""
    producer = rng.choice(made.states)[0]
    made.states.append((producer, rng.choice((ONGOING, PREPARE_ABORT, PREPARE_COMMIT))))
    made.append(rng.randrange(PARTITIONS), producer)


def _ended(made: Cluster) -> list[tuple[int, int, int]]:
    """Partition and offset of each last marker of a producer that is over, and its first record."""
    places = []
    for partition, log in enumerate(made.logs):
        for producer in {name for name, _ in log if name >= 0}:
            own = [(at, what in MARKERS) for at, (name, what) in enumerate(log) if name == producer]
            ends = [at for at, is_marker in own if is_marker]
            if not ends or own[-1][0] != ends[-1] or made.last(producer) < COMMITTED:
                continue
            before = ends[-2] if len(ends) > 1 else -1
            records = [at for at, is_marker in own if before < at < ends[-1] and not is_marker]
            if records:
                places.append((partition, ends[-1], records[0]))
    return places


Mutation = Callable[[Cluster, random.Random], None]
MUTATIONS: Final[tuple[Mutation, ...]] = (
    late_record,
    lost_markers,
    marker_of_some,
    late_record_of_a_later,
)


def mutated(seed: int, mutation: Mutation) -> Cluster:
    """A cluster with one change."""
    made = cluster(seed)
    mutation(made, random.Random(seed))  # noqa: S311
    return made


@pytest.fixture(scope="module")
def found(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Found:
    """By run, its anomalies; all runs in one pass."""
    folder = tmp_path_factory.mktemp("transactions")
    seeds = range(FIRST, FIRST + COUNT)
    cases = [cluster(seed).write(folder / f"valid-{seed}") for seed in seeds]
    for mutation in MUTATIONS:
        name = mutation.__name__
        cases += [mutated(seed, mutation).write(folder / f"{name}-{seed}") for seed in seeds]
    anomalies: Found = {case.key: [] for case in cases}
    with Engine(spark) as engine:
        rows = hanging_transaction.find(Tables(engine, folder, cases))
        assert isinstance(rows, pa.Table)
        for row in rows.to_pylist():
            assert [copy["broker"] for copy in row["copies"]] == [1, 2, 3]
            anomalies[row["run"]].append((row["partition"], row["offset"], row["value"]))
    return anomalies


def test_what_a_coordinator_ends_or_has_open_is_no_anomaly(found: Found) -> None:
    for seed in range(FIRST, FIRST + COUNT):
        assert found[f"valid-{seed}"] == [], seed


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_what_is_open_after_its_end_is_found(mutation: Mutation, found: Found) -> None:
    for seed in range(FIRST, FIRST + COUNT):
        assert found[f"{mutation.__name__}-{seed}"] == mutated(seed, mutation).late, seed


def test_each_change_is_made_often() -> None:
    seeds = range(FIRST, FIRST + COUNT)
    for mutation, part in ((late_record, 0.5), (lost_markers, 0.5)):
        made = [bool(mutated(seed, mutation).late) for seed in seeds]
        assert sum(made) >= part * len(made)
    changed = [bool(mutated(seed, marker_of_some).gaps) for seed in seeds]
    assert sum(changed) >= 0.5 * len(changed)

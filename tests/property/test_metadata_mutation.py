"""Logs of a quorum that Raft allows have no anomaly; one change below what is committed is found.

``HIGHWATER_HISTORIES`` is how many quorums, ``HIGHWATER_SEED`` the first one's seed.
"""

import contextlib
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from highwater.checkers.core.checker import Checker
from highwater.checkers.kafka_files.metadata_records import MetadataRecordError
from highwater.checkers.metadata.lost_decisions import lost_decision
from highwater.checkers.metadata.metadata_divergence import metadata_divergence
from highwater.checkers.run_files import RunFiles
from highwater.checkers.run_tables import Tables
from highwater.checkers.spark.engine import Engine
from tests.support.logdirs import batch
from tests.support.metadata_logs import change, nothing, partition, setting, topic, write
from tests.support.run_builder import RunBuilder, listed
from tests.support.seeds import FIRST, histories

pytestmark = [pytest.mark.drawn, pytest.mark.spark, pytest.mark.slow]

COUNT: Final = histories(20, 400)


@dataclass(slots=True)
class Quorum:
    """The logs of some controllers, each a record an offset: epoch and value.

    Attributes:
        begins: where each log begins; a snapshot covers what is before.
        torn: the controllers whose last batch is torn, behind all that is told here.
        ends: how far the leader knows each log.
        hw: what is committed.
        decided: the settings of the topic and the leaders that were seen, by epoch.
    """

    logs: dict[int, list[tuple[int, bytes]]]
    begins: dict[int, int]
    torn: set[int]
    ends: dict[int, int]
    hw: int
    settings: dict[str, str] = field(default_factory=dict)
    leaders: dict[int, int] = field(default_factory=dict)
    rotten: tuple[int, int] = (0, -1)
    left_out: tuple[int, int] = (0, -1)

    def bound(self, node: int) -> int:
        """The offset below which a log must be what was committed."""
        return min(self.hw, self.ends[node])

    def write(self, path: Path) -> RunFiles:
        """The run, staged by the judge."""
        run = RunBuilder(path, kafka="4.3.1")
        for name, value in self.settings.items():
            run.decided("setting", value, setting=name)
        for epoch, leader in self.leaders.items():
            run.leader(leader, epoch, [1, 2, 3])
        run.quorum(self.ends, self.hw)
        built = run.write()
        for node, records in self.logs.items():
            batches = [
                self._batch(node, offset, epoch, value)
                for offset, (epoch, value) in enumerate(records)
                if offset >= self.begins[node] and (node, offset) != self.left_out
            ]
            if node in self.torn:
                batches.append(batch(len(records), [(None, nothing())], epoch=99)[:-5])
            begin = self.begins[node]
            before = [topic(), *(value for _, value in records[1:begin])]
            snapshots = {(begin, 0): before} if begin else {}
            write(built.path, node, batches, base=begin, snapshots=snapshots)
        return RunFiles.of(listed(built), path.name)

    def _batch(self, node: int, offset: int, epoch: int, value: bytes) -> bytes:
        data = bytearray(batch(offset, [(None, value)], epoch=epoch))
        if (node, offset) == self.rotten:
            data[-1] ^= 1
        return bytes(data)


def quorum(seed: int) -> Quorum:
    """Controllers whose logs differ as much as Raft allows."""
    rng = random.Random(seed)  # noqa: S311
    nodes = range(100, 100 + rng.choice((3, 3, 5)))
    records = [(1, topic()), (1, partition())]
    settings: dict[str, str] = {}
    leaders = {0: 1}
    epoch = 1
    for _ in range(rng.randint(8, 40)):
        epoch += 10 * (rng.random() < 0.2)
        match rng.randrange(3):
            case 0:
                leader = rng.randint(1, 3)
                leaders[len(leaders)] = leader
                records.append((epoch, change(leader=leader)))
            case 1:
                name, value = rng.choice("abc"), str(rng.randrange(1000))
                settings[name] = value
                records.append((epoch, setting(name, value)))
            case _:
                records.append((epoch, nothing()))
    hw = len(records)
    made = Quorum(
        logs={}, begins={}, torn=set(), ends={}, hw=hw, settings=settings, leaders=leaders
    )
    majority = {*rng.sample(nodes, len(nodes) // 2 + 1)}
    for node in nodes:
        elections = [at for at in range(3, hw) if records[at][0] > records[at - 1][0]]
        end = hw if node in majority else rng.choice([rng.randint(3, hw), *elections])
        log = records[:end]
        made.ends[node] = end
        if end in elections:  # it led an epoch that nobody else knew
            log = log + [(log[-1][0] + node - 99, nothing())] * rng.randint(1, 9)
        elif node in majority:
            log = log + [(epoch + 1, setting("d", "1"))] * rng.randint(0, 3)
            made.ends[node] = rng.choice((hw, len(log)))
        made.logs[node] = log
        made.begins[node] = rng.randint(3, end - 1) if end > 4 and rng.random() < 0.3 else 0
        if rng.random() < 0.3:
            made.torn.add(node)
    return made


def rewrite(made: Quorum, node: int, offset: int) -> None:
    """Another record, with a checksum of its own."""
    made.logs[node][offset] = (made.logs[node][offset][0], setting("z", "9"))


def renumber(made: Quorum, node: int, offset: int) -> None:
    """The same record, of another epoch."""
    epoch, value = made.logs[node][offset]
    made.logs[node][offset] = (epoch + 100, value)


def leave_out(made: Quorum, node: int, offset: int) -> None:
    """A hole."""
    made.left_out = (node, offset)


def rot(made: Quorum, node: int, offset: int) -> None:
    """A flipped bit."""
    made.rotten = (node, offset)


MUTATIONS: Final[tuple[Callable[[Quorum, int, int], None], ...]] = (
    rewrite,
    renumber,
    leave_out,
    rot,
)


def mutated(seed: int, mutation: Callable[[Quorum, int, int], None]) -> tuple[Quorum, int]:
    """A quorum with one change, below what is committed, where another log has the record, too."""
    made, rng = quorum(seed), random.Random(seed)  # noqa: S311
    places = [
        (node, offset)
        for node in made.logs
        for offset in range(made.begins[node], made.bound(node))
        if any(
            made.begins[other] <= offset < made.bound(other) for other in made.logs if other != node
        )
    ]
    node, offset = rng.choice(places)
    mutation(made, node, offset)
    return made, offset


@pytest.fixture(scope="module")
def found(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[tuple[str, int | None]]]:
    """By run, the kinds and offsets of its anomalies; all runs in one pass."""
    folder = tmp_path_factory.mktemp("quorums")
    seeds = range(FIRST, FIRST + COUNT)
    cases = [quorum(seed).write(folder / f"valid-{seed}") for seed in seeds]
    for mutation in MUTATIONS:
        name = mutation.__name__
        cases += [mutated(seed, mutation)[0].write(folder / f"{name}-{seed}") for seed in seeds]
    anomalies: dict[str, list[tuple[str, int | None]]] = {case.key: [] for case in cases}
    with Engine(spark) as engine:
        for row in rows_of(metadata_divergence, Tables(engine, folder, cases)):
            anomalies[row["run"]].append((row["kind"], row["offset"]))
        for case in cases:
            # Where the only log of the last epoch has lost a topic, no decision can be read of it:
            # the judge says so, of that run alone.
            senseless = () if case.key.startswith("valid-") else (MetadataRecordError,)
            with contextlib.suppress(*senseless):
                for row in rows_of(lost_decision, Tables(engine, folder, [case])):
                    anomalies[row["run"]].append((row["kind"], row["offset"]))
    return anomalies


def rows_of(checker: Checker, tables: Tables) -> list[dict[str, Any]]:
    rows = checker.find(tables)
    assert isinstance(rows, pa.Table)
    found: list[dict[str, Any]] = rows.to_pylist()
    return found


def test_what_raft_allows_is_no_anomaly(found: dict[str, list[tuple[str, int | None]]]) -> None:
    for seed in range(FIRST, FIRST + COUNT):
        assert found[f"valid-{seed}"] == [], seed


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_one_change_is_found_where_it_is(
    mutation: Callable[[Quorum, int, int], None], found: dict[str, list[tuple[str, int | None]]]
) -> None:
    for seed in range(FIRST, FIRST + COUNT):
        _, offset = mutated(seed, mutation)
        anomalies = {
            one for one in found[f"{mutation.__name__}-{seed}"] if one[0] != "lost-decision"
        }
        assert anomalies == {("metadata-divergence", offset)}, seed

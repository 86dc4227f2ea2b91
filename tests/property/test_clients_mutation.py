"""Valid histories have no anomaly; one put into them is found as what it is, and nothing else is.

``HIGHWATER_HISTORIES`` is how many histories (10,000 is what is published), ``HIGHWATER_SEED`` the
first one's seed. What is said of a failure names the seed of the history that it was found in.
With ``HIGHWATER_HERE`` 0 kernels run in Spark's tasks, however few the rows.
"""

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from highwater.checkers.anomalies.find import find
from highwater.checkers.anomalies.root_causes import caused, truncated_ranges
from highwater.checkers.anomaly_files import gather
from highwater.checkers.core.anomaly import SCHEMA
from highwater.checkers.cycles import cycles
from highwater.checkers.history.view import ClientHistory
from highwater.checkers.spark.engine import HERE_ROWS, Engine
from tests.property.draft import Anomaly, put
from tests.property.generate import Op, history, table
from tests.property.inject import INJECTIONS
from tests.property.inject_cycles import BY_READS, BY_THE_LOG
from tests.support.seeds import FIRST, histories

pytestmark = [pytest.mark.drawn, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(14_400)]

COUNT: Final = histories(20, 400)
HERE: Final = int(os.environ.get("HIGHWATER_HERE", HERE_ROWS))
TOGETHER: Final = 1000
"""Histories whose every mutation is judged in one pass of Spark."""

VALID: Final = "valid"
KINDS: Final = INJECTIONS | BY_READS | BY_THE_LOG

# What Kafka does not promise, and its transactions do all the time.
ALLOWED: Final = {"int-send-skip"}
ALLOWED_BY_THE_LOG: Final = ALLOWED | {
    name + order for name in ("G0", "G1c") for order in ("", "-process", "-realtime")
}

Found = dict[str, Counter[tuple[Anomaly, str | None]]]


@dataclass(slots=True)
class Outcome:
    """How many histories were judged for something, and what went wrong in which."""

    histories: int = 0
    wrong: dict[int, object] = field(default_factory=dict)


def _judge(
    spark: SparkSession, folder: Path, histories: Iterable[tuple[str, list[Op]]], *, ww: bool
) -> Found:
    """Each history's anomalies and their causes, all histories in one pass."""
    path = str(folder / "operations.parquet")
    rows = table(histories)
    pq.write_table(rows, path)
    with Engine(spark, HERE) as engine:
        view = ClientHistory(engine, spark.read.parquet(path), len(rows))
        anomalies = gather(engine, [find(view), *filter(None, [cycles.find(view, ww=ww)])])
        kernel = partial(caused, causes=truncated_ranges(anomalies))
        found = anomalies.map(kernel, SCHEMA).table().to_pylist()
    told: Found = defaultdict(Counter)
    names = ("process", "op", "kind", "partition", "offset", "value")
    for row in found:
        steps = tuple(tuple(one[name] for name in names) for one in row["steps"])
        kind, partition, offset = row["kind"], row["partition"], row["offset"]
        anomaly = Anomaly(kind, partition, offset, row["value"], row["delta"], steps)
        told[row["run"]][anomaly, row["cause"]] += 1
    return told


@pytest.fixture(scope="module")
def outcomes(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[tuple[str, bool], Outcome]:
    """By what was put into the histories, and whether the order of the log was asked for."""
    judged: dict[tuple[str, bool], Outcome] = defaultdict(Outcome)
    for first in range(FIRST, FIRST + COUNT, TOGETHER):
        seeds = range(first, min(first + TOGETHER, FIRST + COUNT))
        for ww, kinds in ((False, INJECTIONS | BY_READS), (True, BY_THE_LOG)):
            folder = tmp_path_factory.mktemp("judged")
            changed: dict[tuple[str, int], tuple[Anomaly | None, list[Op]]] = {}
            for seed in seeds:
                world = history(seed)
                changed[VALID, seed] = None, world.ops
                for kind, inject in kinds.items():
                    changed[kind, seed] = put(world, seed, inject)
            named = ((f"{kind} {seed}", ops) for (kind, seed), (_, ops) in changed.items())
            found = _judge(spark, folder, named, ww=ww)
            for (kind, seed), (anomaly, _) in changed.items():
                outcome = judged[kind, ww]
                outcome.histories += 1
                before, now = found[f"{VALID} {seed}"], found[f"{kind} {seed}"]
                wrong = _unexpected(now, before, anomaly) if anomaly else _unallowed(now, ww=ww)
                if wrong:
                    outcome.wrong[seed] = wrong
    return judged


def _unallowed(now: Counter[tuple[Anomaly, str | None]], *, ww: bool) -> list[Anomaly]:
    allowed = ALLOWED_BY_THE_LOG if ww else ALLOWED
    return [anomaly for anomaly, _ in now if anomaly.kind not in allowed]


def _unexpected(
    now: Counter[tuple[Anomaly, str | None]],
    before: Counter[tuple[Anomaly, str | None]],
    anomaly: Anomaly,
) -> dict[str, object]:
    """What a history shows beside its anomaly and what follows from that, and what it should.

    Which of several cycles that are equally short is shown, is not to be relied on.
    """
    rest = now - Counter({(anomaly, None): 1})
    old = Counter(_shape(one) for one, _ in before.elements())
    new = Counter(_shape(one) for one, cause in rest.elements() if cause != anomaly.called)
    if (anomaly, None) in now and new == old:
        return {}
    return {"expected": anomaly, "found instead": list((now - before).elements())}


def _shape(anomaly: Anomaly) -> Anomaly:
    return anomaly._replace(steps=()) if anomaly.kind.startswith(("G0", "G1c")) else anomaly


def _says(outcome: Outcome) -> str:
    seed = min(outcome.wrong)
    return f"{len(outcome.wrong)} of {outcome.histories}; seed {seed}: {outcome.wrong[seed]}"


@pytest.mark.parametrize("ww", [False, True])
def test_nothing_is_wrong_with_valid_histories(
    outcomes: Mapping[tuple[str, bool], Outcome], ww: bool
) -> None:
    outcome = outcomes[VALID, ww]
    assert not outcome.wrong, _says(outcome)
    assert outcome.histories == COUNT


@pytest.mark.parametrize("kind", KINDS)
def test_an_anomaly_is_found_as_what_it_is(
    outcomes: Mapping[tuple[str, bool], Outcome], kind: str
) -> None:
    outcome = outcomes[kind, kind in BY_THE_LOG]
    assert not outcome.wrong, _says(outcome)
    assert outcome.histories == COUNT

"""A file that cannot be read, or is not what was recorded, is never evidence: every one of a run.

``HIGHWATER_SWEEP`` names runs of real brokers, separated by colons, to be spoilt as well.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from highwater import console
from highwater.api import judge_all
from highwater.checkers.judge import judge
from highwater.harness.runs.history import STEPS, STEPS_TABLE, StreamWriter, to_parquet
from highwater.harness.runs.store import Run
from highwater.runtime.prediction_check import reconcile
from tests.histories.stories import loss
from tests.support import spoiled as sweep
from tests.support.run_builder import RunBuilder

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PASS: Final = 200
"""Runs that are judged in one pass of Spark."""

_GIVEN: Final = [Path(name) for name in os.environ.get("HIGHWATER_SWEEP", "").split(":") if name]


def kept(path: Path) -> Run:
    """A valid run with everything that a recorded one has."""
    run = RunBuilder(path, kafka="4.3.1")
    run.leader(1, 0, [1, 2, 3])
    run.observe(1, 0)
    run.fault("kill", 1, "broker 1 is killed")
    run.tick(500)
    run.fault("kill", 1, "broker 1 is healed", phase="heal")
    run.everywhere([(0, 0, "m0"), (1, 0, "m1"), (2, 0, "m2"), (3, 0, "m3")])
    run.fence(4)
    run.disk([1, 2, 3], [(4, 0, "fence-0")])
    run.log_line(1, "leader", "[2026-11-21 04:55:01,234] INFO leads", offset=0)
    built = run.write()
    for broker in (1, 2, 3):
        run.checkpoint(broker, {0: 5})
        folder = built.replicas / str(broker) / "events-0"
        (folder / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
        (folder / f"{0:020d}.index").write_bytes(bytes(16))
    with StreamWriter(built.stream(STEPS_TABLE), STEPS) as writer:
        writer.append_rows([])
    to_parquet(built.stream(STEPS_TABLE), built.parquet(STEPS_TABLE))
    (built.path / "steps.json").write_text("{}")
    return sweep.close(built)


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    home = tmp_path_factory.mktemp("bases")
    return [kept(home / "kept"), sweep.close(loss(home / "lost")), *map(Run, _GIVEN)]


def _passes(spoilt: Iterator[sweep.Spoilt]) -> Iterator[list[sweep.Spoilt]]:
    batch: list[sweep.Spoilt] = []
    for each in spoilt:
        batch.append(each)
        if len(batch) == PASS:
            yield batch
            batch = []
    yield batch


@pytest.mark.timeout(3600 if _GIVEN else 300)
@pytest.mark.parametrize(
    "index", [0, *(pytest.param(n, marks=pytest.mark.nightly) for n in range(1, 2 + len(_GIVEN)))]
)
def test_spoilt_file_is_no_evidence(
    index: int,
    bases: list[Run],
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    base, other = bases[index], bases[(index + 1) % 2]
    (whole,) = judge([base], spark)
    told = reconcile(base, whole)
    must_be_noticed = sweep.judged(base)
    wrong: list[str] = []
    for batch in _passes(sweep.sweep(base, other, tmp_path / "spoilt")):
        with sweep.without_privileges():
            answers = judge_all([each.run for each in batch], spark)
        for each, answer in zip(batch, answers, strict=True):
            verdict = answer.verdict
            console.show_judged([answer])
            page = sweep.shown(answer.report)
            said = capsys.readouterr().out + page + "\n".join(verdict.reasons)
            if each.path not in must_be_noticed:
                same = (verdict.verdict, verdict.counts) == (whole.verdict, whole.counts)
                if not same or answer.model is None or answer.model.status != told.status:
                    wrong.append(f"{each.name}: {verdict.verdict}, {verdict.reasons}")
                continue
            patterns: tuple[str, ...] = sweep.UNSUPPORTED
            if verdict.account == "none":
                patterns = (*patterns, *sweep.UNCOUNTED)
            wrong += [f"{each.name} says {claim}" for claim in sweep.claims(said, patterns)]
            if verdict.verdict != "unknown":
                wrong.append(f"{each.name}: {verdict.verdict}")
            if Path(each.path).name not in " ".join(verdict.reasons):
                wrong.append(f"{each.name} is not named: {verdict.reasons}")
    assert not wrong, "\n".join(wrong[:60])

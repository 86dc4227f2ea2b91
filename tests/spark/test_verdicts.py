"""The same verdicts and the same anomalies, row by row, on every kind of Spark."""

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from highwater.api import judge_all
from highwater.checkers.spark.session import spark
from highwater.harness.base.spark_options import SparkOptions
from highwater.harness.base.waiting import await_condition
from highwater.harness.runs.store import Run
from tests.histories.stories import fork, loss
from tests.spark.beds import ROOT, Cluster, standalone, words
from tests.unit.checkers.test_conservation import whole

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

FEW = 15
"""More rows than these are left to tasks: all histories and logs are larger."""

SMALL = {"spark.executor.memory": "512m"}


@pytest.fixture(scope="session")
def runs(shared_store: Path) -> list[Run]:
    """A run that lost records, one whose replicas differ, and one that kept everything."""
    made = {"loss": loss, "fork": fork, "whole": whole}
    return [make(shared_store / name) for name, make in made.items()]


@pytest.fixture(scope="session")
def expected(runs: list[Run]) -> Any:  # noqa: ANN401 - JSON
    """What is found in this process."""
    found = result(start(SparkOptions(driver_memory="512m"), runs))
    assert [one["verdict"]["verdict"] for one in found] == ["invalid", "invalid", "valid"]
    assert all(one["anomalies"] for one in found[:2])
    return found


def start(options: SparkOptions, runs: Sequence[Run | str], *more: str) -> "subprocess.Popen[str]":
    paths = [str(run.path) if isinstance(run, Run) else run for run in runs]
    command = [sys.executable, "-W", "ignore", "-m", "tests.spark.judging", *paths]
    return subprocess.Popen(
        [*command, *words(options), *more],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def result(process: "subprocess.Popen[str]") -> Any:  # noqa: ANN401 - JSON
    out, err = process.communicate(timeout=500)
    assert process.returncode == 0, err
    return json.loads(out)


@pytest.mark.nightly  # in `make test` a command judges by Spark Connect (test_remote.py)
def test_every_spark_comes_to_the_same(
    any_spark: tuple[str, SparkOptions],
    runs: list[Run],
    expected: Any,  # noqa: ANN401 - JSON
) -> None:
    _, options = any_spark
    assert result(start(options, runs, "--most-here", str(FEW))) == expected


@pytest.mark.nightly
def test_a_command_comes_to_the_same_on_a_cluster_that_shares_this_machine(tmp_path: Path) -> None:
    """It needs no mount namespaces, as the other clusters of these tests do."""
    runs = [fork(tmp_path / "fork"), loss(tmp_path / "loss")]
    command = [sys.executable, "-m", "highwater", "check", *(str(run.path) for run in runs)]
    with standalone(tmp_path, None) as cluster:
        done = subprocess.run(
            [*command, "--json", "--spark-master", cluster.url],
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
    assert done.returncode == 1, done.stderr
    on_cluster = json.loads(done.stdout)
    here = [one.summary() for one in judge_all(runs, spark())]
    assert on_cluster == json.loads(json.dumps(here))
    assert [one["verdict"] for one in on_cluster] == ["invalid", "invalid"]
    for worker in cluster.workers:
        assert list((tmp_path / worker.host).rglob("stderr")), f"{worker.host} had no executor"


@pytest.mark.nightly
def test_a_worker_that_is_killed_in_the_middle_changes_nothing(
    own_cluster: Cluster,
    runs: list[Run],
    expected: Any,  # noqa: ANN401 - JSON
    shared_store: Path,
) -> None:
    mine = [Run(shared_store / "killed" / run.name) for run in runs]
    for run, own in zip(runs, mine, strict=True):
        shutil.copytree(run.path, own.path, ignore=shutil.ignore_patterns("analysis"))
    options = SparkOptions(master=own_cluster.url, driver_memory="512m", conf=SMALL)
    half = shared_store / "half"
    process = start(options, mine, "--most-here", str(FEW), "--half", str(half))
    await_condition(
        half.stat, what="histories to be read", limit_s=240, passing=(FileNotFoundError,)
    )
    own_cluster.workers[0].kill()
    assert process.poll() is None  # it was in the middle
    assert result(process) == expected

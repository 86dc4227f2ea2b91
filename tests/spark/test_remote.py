"""Runs at URIs, judged on every kind of Spark and in a real S3 store."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from highwater.cli.app import app
from highwater.harness.base.spark_options import SparkOptions
from tests.histories import stories
from tests.spark.beds import ROOT, words
from tests.spark.s3 import S3Store

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]


def check(run: str, options: SparkOptions) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "ignore", "-m", "highwater", "check", run, "--json"]
    return subprocess.run(
        [*command, *words(options)], cwd=ROOT, check=False, capture_output=True, text=True
    )


def checked(run: str, options: SparkOptions) -> dict[str, Any]:
    done = check(run, options)
    assert done.returncode == 1, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def judged_here(
    spark: SparkSession,  # noqa: ARG001 - the command takes the session that is there
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Any]:
    """The answer for the run in this machine's files, without the address of its page."""
    run = stories.fork(tmp_path_factory.mktemp("here") / "a run+b")
    done = CliRunner().invoke(app, ["check", str(run.path), "--json"])
    assert done.exit_code == 1, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    del found["report"]
    return found


def test_every_spark_judges_a_run_at_a_uri_like_one_here(
    any_spark: tuple[str, SparkOptions], shared_store: Path, judged_here: dict[str, Any]
) -> None:
    kind, options = any_spark
    run = stories.fork(shared_store / kind / "a run+b")
    found = checked(f"file://{run.path}", options)
    assert found.pop("report") == f"file:{run.path}/report.html"
    assert found == judged_here
    assert list((run.path / "analysis" / "verdict.json").glob("part-*.txt"))


@pytest.mark.nightly
def test_a_run_in_s3_is_judged_there(
    s3_store: S3Store,
    tmp_path: Path,
    judged_here: dict[str, Any],
    request: pytest.FixtureRequest,
) -> None:
    master = request.getfixturevalue("cluster").url
    conf = s3_store.conf | {"spark.executor.memory": "512m"}
    options = SparkOptions(master=master, driver_memory="512m", conf=conf)
    uri = s3_store.put(stories.fork(tmp_path / "s3" / "a run+b").path, "store/a run+b")
    found = checked(uri, options)
    assert found.pop("report") == f"{uri}/report.html"
    assert found == judged_here
    names = s3_store.names("store/a run+b/analysis/verdict.json")
    assert sum("part-" in name for name in names) == 1


@pytest.mark.nightly  # in `make test` one process fetches (unit/checkers/test_remote_runs.py)
@pytest.mark.parametrize(
    ("uri", "conf", "why"),
    [
        ("file:///none/there", {}, "Path does not exist: "),
        ("s3a://highwater/none", {}, "Path does not exist: "),
        ("s3a://none/run", {}, r".*[Bb]ucket"),
        ("s3a://highwater/run", {"spark.hadoop.fs.s3a.secret.key": "wrong"}, ".*Forbidden"),
    ],
)
def test_what_a_store_refuses_is_told_in_a_sentence(
    uri: str, conf: dict[str, str], why: str, request: pytest.FixtureRequest
) -> None:
    if uri.startswith("s3a:"):
        conf = request.getfixturevalue("s3_store").conf | conf
    done = check(uri, SparkOptions(driver_memory="512m", conf=conf))
    assert (done.returncode, done.stdout) == (4, "")
    *_, sentence, hint = done.stderr.splitlines()  # behind what goes on
    assert re.match(f"highwater: {re.escape(uri)} cannot be read: {why}", sentence), sentence
    assert "--spark-conf" in hint

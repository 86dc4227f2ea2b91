"""A tiny job on every kind of Spark and on a real S3 server; what is lacking is told in a line."""

import json
import os
import re
import socket
import subprocess
import sys
import time
import venv
import warnings
from pathlib import Path
from typing import Any

import pytest

from highwater.harness.base.spark_options import SparkOptions
from highwater.harness.base.waiting import await_condition
from tests.spark.beds import LOOPBACK, ROOT, Cluster, words
from tests.spark.s3 import S3Store

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

ROWS = 1000
TOTAL = sum(number * 7919 % 1000 for number in range(ROWS))

OWN = """
from pyspark.sql import SparkSession
from highwater.checkers.spark.session import spark
from highwater.harness.base.spark_options import SparkOptions
mine = SparkSession.builder.master("local[1]").config("spark.driver.memory", "512m").getOrCreate()
settings = mine.conf.getAll
found = spark(SparkOptions(session=mine))
assert mine.conf.getAll == settings
print("the same" if found is mine else "another", end=", alive: ")
print(mine.range(1).count())
"""


def start(options: SparkOptions, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "ignore", "-m", "tests.spark.tiny", *words(options), *more]
    return subprocess.Popen(
        command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def result(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


def complaint(options: SparkOptions, *more: str) -> str:
    process = start(options, *more)
    out, err = process.communicate(timeout=240)
    assert (process.returncode, out) == (4, ""), err
    return err


@pytest.mark.nightly  # `make test` judges by Spark Connect (test_remote.py)
def test_every_spark_gets_the_package_and_shares_nothing_else(
    any_spark: tuple[str, SparkOptions], shared_store: Path
) -> None:
    kind, options = any_spark
    found = result(start(options, "--at", str(shared_store / kind)))
    assert found["total"] == TOTAL
    assert all("highwater-" in one and ".zip/" in one for one in found["packages"])
    for names in found["temporary"]:
        assert "highwater-scratch-" not in names  # the driver's, in the same folder of this machine
    assert list((shared_store / kind).glob("*.parquet"))


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("what", "victims"),
    [
        ("worker", "own_cluster"),
        ("executor", "cluster"),  # its worker begins another
    ],
)
def test_a_worker_may_be_killed_in_the_middle(
    what: str, victims: str, shared_store: Path, request: pytest.FixtureRequest
) -> None:
    sparks: Cluster = request.getfixturevalue(victims)
    marks = shared_store / f"marks-{what}"
    marks.mkdir()
    options = SparkOptions(
        master=sparks.url, driver_memory="512m", conf={"spark.executor.memory": "512m"}
    )
    process = start(options, "--seconds", "2", "--marks", str(marks))
    lost = sparks.workers[0]
    await_condition(
        lambda: len(list(marks.glob(f"{lost.host}*"))),
        lambda tasks: tasks == 2,  # one has ended there, and one has just begun
        what="tasks to begin",
        limit_s=120,
    )
    if what == "worker":
        lost.kill()
    else:
        assert lost.kill_executors() == 1
    assert result(process)["total"] == TOTAL
    assert len(list(marks.iterdir())) > 16  # what was under way has begun anew


@pytest.mark.nightly
@pytest.mark.parametrize("where", ["here", "cluster"])
def test_a_real_s3_server_is_written_and_read(
    where: str, s3_store: S3Store, request: pytest.FixtureRequest
) -> None:
    master = None if where == "here" else request.getfixturevalue("cluster").url
    conf = s3_store.conf | {"spark.executor.memory": "512m"}
    options = SparkOptions(master=master, driver_memory="512m", conf=conf)
    found = result(start(options, "--at", f"{s3_store.uri}/{where}"))
    assert found["total"] == TOTAL
    assert sum(name.endswith(".parquet") for name in s3_store.names(where)) == 16


@pytest.mark.nightly
def test_a_worker_without_our_libraries_is_told_in_a_sentence(
    cluster: Cluster, shared_store: Path
) -> None:
    bare = shared_store / "bare"
    venv.create(bare, with_pip=False, symlinks=True)
    conf = {"spark.executor.memory": "512m", "spark.pyspark.python": str(bare / "bin" / "python")}
    found = complaint(SparkOptions(master=cluster.url, driver_memory="512m", conf=conf))
    assert re.match(r"highwater: Spark's workers have no Python package \w+\n", found)
    assert "docs/spark.md" in found
    assert len(found.splitlines()) == 2


@pytest.mark.nightly
def test_a_worker_without_that_python_is_told_in_a_sentence(cluster: Cluster) -> None:
    conf = {"spark.executor.memory": "512m", "spark.pyspark.python": "/opt/none/python"}
    found = complaint(SparkOptions(master=cluster.url, driver_memory="512m", conf=conf))
    assert found.startswith("highwater: Spark's workers lack /opt/none/python, the Python that")
    assert len(found.splitlines()) == 2


def test_a_server_that_does_not_answer_is_told_in_a_sentence() -> None:
    with socket.socket() as taken:
        taken.bind((LOOPBACK, 0))  # and does not listen
        url = f"sc://{LOOPBACK}:{taken.getsockname()[1]}"
        began = time.monotonic()
        found = complaint(SparkOptions(remote=f"{url}/;token=secret"))
    assert time.monotonic() - began < 60
    assert found.startswith(f"highwater: no Spark Connect server responds at {url} within")
    assert "secret" not in found


def test_a_server_of_another_version_is_told_in_a_sentence() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PySpark's own, about a pandas that is newer than it
        from tests.spark.old_server import VERSION, old_server  # noqa: PLC0415 - as it warns
    with old_server() as url:
        found = complaint(SparkOptions(remote=url))
    told = (
        f"highwater: the Spark Connect server {url} runs Spark {VERSION}, but this machine has"
        " Spark 4."
    )
    assert found.startswith(told)
    assert len(found.splitlines()) == 2


def test_a_master_that_does_not_answer_is_told_in_a_sentence() -> None:
    with socket.socket() as taken:
        taken.bind((LOOPBACK, 0))
        url = f"spark://{LOOPBACK}:{taken.getsockname()[1]}"
        found = complaint(SparkOptions(master=url, driver_memory="512m"))
    assert found.startswith(f"highwater: no Spark master responds at {url}\n")
    assert len(found.splitlines()) == 2


@pytest.mark.nightly
def test_a_session_of_ones_own_is_used_as_it_is() -> None:
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", OWN],
        cwd=ROOT,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "the same, alive: 1\n"


def test_master_and_server_exclude_each_other() -> None:
    both = ["--spark-master", "local[1]", "--spark-remote", "sc://127.0.0.1"]
    command = [sys.executable, "-m", "highwater", "check", "run", *both]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--spark-master and --spark-remote exclude each other" in done.stderr

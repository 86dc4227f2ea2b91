"""A tiny job on every kind of Spark and on a real S3 server; what is lacking is told in a line."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from aiokafka.record._crecords import crc32c_cython as crc32c

from harness.spark import SparkOptions
from harness.waiting import await_condition
from tests.spark.beds import ROOT, Cluster, words
from tests.spark.s3 import S3Store

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]

ROWS = 1000
TOTAL = sum(crc32c(str(value).encode()) for value in range(ROWS))


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


def test_every_spark_gets_the_package_and_shares_nothing_else(
    any_spark: tuple[str, SparkOptions], shared_store: Path
) -> None:
    kind, options = any_spark
    found = result(start(options, "--at", str(shared_store / kind)))
    assert found["total"] == TOTAL
    assert all("highwater-" in one and ".zip/" in one for one in found["packages"])
    for names in found["temporary"]:
        assert "highwater-spark-" not in names  # the driver's, in the same folder of this machine
    assert list((shared_store / kind).glob("*.parquet"))


def test_a_worker_may_be_killed_in_the_middle(own_cluster: Cluster) -> None:
    options = SparkOptions(
        master=own_cluster.url, driver_memory="512m", conf={"spark.executor.memory": "512m"}
    )
    process = start(options, "--seconds", "1")
    lost, other = own_cluster.workers
    for worker in own_cluster.workers:
        await_condition(worker.busy, bool, what=f"{worker.log} to work", limit_s=90)
    time.sleep(3)  # by now tasks have ended on both, whose results are lost with the worker
    lost.kill()
    assert result(process)["total"] == TOTAL
    assert other.executors() == [] or other.process.is_running()


def test_an_executor_may_be_killed_in_the_middle(own_cluster: Cluster) -> None:
    options = SparkOptions(
        master=own_cluster.url, driver_memory="512m", conf={"spark.executor.memory": "512m"}
    )
    process = start(options, "--seconds", "1")
    lost = own_cluster.workers[0]
    await_condition(lost.busy, bool, what=f"{lost.log} to work", limit_s=90)
    assert lost.kill_executors() == 1
    assert result(process)["total"] == TOTAL


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

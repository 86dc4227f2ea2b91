"""The judge on a standalone cluster of Spark: a master and two workers, processes of their own."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pyspark
import pytest

from highwater.api import judge_all
from highwater.checkers.spark.java import find_java
from highwater.checkers.spark.session import spark
from highwater.harness.base.waiting import await_condition
from tests.histories.stories import fork, loss

pytestmark = [pytest.mark.spark, pytest.mark.nightly, pytest.mark.timeout(600)]

_LIMIT_S = 90.0


@contextmanager
def daemon(folder: Path, name: str, *arguments: str) -> Iterator[Path]:
    """A daemon of Spark's own, on loopback, in the foreground of a process; yields its log."""
    log = folder / f"{name}.log"
    home = Path(pyspark.__file__).parent
    environment = os.environ | {
        "JAVA_HOME": str(find_java()),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "128m",
    }
    command = [str(home / "bin" / "spark-class"), *arguments]
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, stdout=file, stderr=file, env=environment, start_new_session=True
        )
        try:
            yield log
        finally:
            family = [psutil.Process(process.pid)]
            family += family[0].children(recursive=True)
            for one in family:
                one.kill()
            process.wait()


def said(log: Path, pattern: str) -> str:
    """What a daemon says, as soon as it does."""

    def look() -> re.Match[str] | None:
        return re.search(pattern, log.read_text(errors="replace"))

    found = await_condition(
        look, lambda found: found is not None, what=f"{log.name} to say {pattern}", limit_s=_LIMIT_S
    )
    assert found is not None
    return found[0]


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """The URL of a cluster of two workers, of one core each."""
    package = "org.apache.spark.deploy"
    loopback = ("--host", "127.0.0.1", "--webui-port", "0")
    with daemon(tmp_path, "master", f"{package}.master.Master", *loopback, "--port", "0") as log:
        url = said(log, r"spark://127\.0\.0\.1:\d+")
        worker = (f"{package}.worker.Worker", *loopback, "--cores", "1", "--memory", "1g")
        with (
            daemon(tmp_path, "worker-1", *worker, "--work-dir", str(tmp_path / "1"), url) as one,
            daemon(tmp_path, "worker-2", *worker, "--work-dir", str(tmp_path / "2"), url) as two,
        ):
            for each in (one, two):
                said(each, "Successfully registered with master")
            yield url


def test_a_cluster_of_two_workers_comes_to_the_same_verdicts(master: str, tmp_path: Path) -> None:
    runs = [fork(tmp_path / "fork"), loss(tmp_path / "loss")]
    command = [
        sys.executable,
        "-m",
        "highwater",
        "check",
        *(str(run.path) for run in runs),
        "--json",
    ]
    done = subprocess.run(
        [*command, "--spark-master", master],
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
    for number in (1, 2):
        executors = list((tmp_path / str(number)).rglob("stderr"))
        assert executors, f"worker {number} had no executor"

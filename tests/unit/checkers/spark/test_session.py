"""Whatever ends who judges or its JVM, neither is left behind, and the terminal stays silent."""

import contextlib
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from highwater.harness.base.waiting import await_condition

pytestmark = pytest.mark.spark

PROGRAM = """
import signal, sys
import psutil
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
from highwater.checkers.spark.session import spark
from highwater.harness.base.spark_options import SparkOptions
session = spark(SparkOptions(driver_memory="512m"))
session.sparkContext.parallelize([3], 1).foreach(session.sparkContext.accumulator(0).add)
java = [child.pid for child in psutil.Process().children(recursive=True) if child.name() == "java"]
print(*java, session.conf.get("spark.local.dir"), flush=True)
sys.stdin.read()
"""
FORGETS = """
from highwater.checkers.spark.session import spark
from highwater.harness.base.spark_options import SparkOptions
gateway = spark(SparkOptions(driver_memory="512m")).sparkContext._gateway
unused = gateway.jvm.java.lang.Object()._target_id
gateway.proc.kill()
gateway.proc.wait()
gateway._gateway_client.garbage_collect_object(unused, False)  # as a thread of py4j's does
"""


def start(program: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error::UserWarning", "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "how",
    [
        "killed with a JVM that hangs",
        "interrupted",
        pytest.param("bereft", marks=pytest.mark.nightly),  # by day the next test is
        pytest.param("ended", marks=pytest.mark.nightly),  # as commands of other tests by day
    ],
)
def test_no_jvm_is_left_behind_and_nothing_is_said(how: str) -> None:
    process = start(PROGRAM)
    assert process.stdout is not None
    words = process.stdout.readline().split()
    assert len(words) == 2, process.stderr and process.stderr.read()
    jvm, folder = psutil.Process(int(words[0])), Path(words[1])
    if how == "interrupted":
        process.send_signal(signal.SIGINT)
    elif how == "bereft":
        jvm.kill()
        await_condition(
            jvm.status,
            lambda status: status == psutil.STATUS_ZOMBIE,
            what="the JVM to end",
            limit_s=60,
        )
    elif how != "ended":
        jvm.suspend()
        process.kill()
    said = process.communicate(timeout=60)[1]
    gone, alive = psutil.wait_procs([jvm], timeout=60)
    assert (len(gone), alive) == (1, [])
    if how == "interrupted":
        assert said.strip().endswith("KeyboardInterrupt")
        assert "py4j" not in said
    else:
        assert said == ""
    if how in {"ended", "interrupted"}:
        assert not folder.exists()


@pytest.mark.slow
def test_nothing_is_said_of_objects_of_a_jvm_that_has_gone() -> None:
    process = start(FORGETS)
    assert process.communicate(timeout=120) == ("", "")
    assert process.returncode == 0


def test_the_jvm_has_room_for_the_code_of_a_long_session(spark: SparkSession) -> None:
    """A quick compiler's usual 48 MB were full after a minute, and a query ended with an error."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    pools = jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
    rooms = [pool.getUsage().getMax() for pool in pools if pool.getName().startswith("Code")]
    assert sum(rooms) >= 200 << 20


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_jvm_starts_from_an_archive_of_its_classes(spark: SparkSession) -> None:
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    maps = Path(f"/proc/{gateway.proc.pid}/maps").read_text(encoding="ascii")
    assert re.search(r"/archives/spark-\w+-\w+\.jsa$", maps, re.MULTILINE)


@pytest.mark.slow
def test_a_rehearsal_ends_with_who_asked_for_it() -> None:
    rehearsal = subprocess.Popen(
        [sys.executable, "-m", "highwater.checkers.archive_training"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    [jvm] = await_condition(
        lambda: _jvms_below(psutil.Process(rehearsal.pid)),
        lambda jvms: len(jvms) == 1,
        what="the rehearsal's JVM",
        limit_s=60,
    )
    rehearsal.communicate(timeout=60)
    assert rehearsal.returncode == 1
    gone, alive = psutil.wait_procs([jvm], timeout=60)
    assert (len(gone), alive) == (1, [])


def _jvms_below(process: psutil.Process) -> list[psutil.Process]:
    """Return the JVMs that a process started, but not Spark's launcher, which ends before them."""
    jvms = []
    for child in process.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if child.name() == "java" and "org.apache.spark.launcher.Main" not in child.cmdline():
                jvms.append(child)
    return jvms

"""Sparks to judge on, as processes of their own on loopback, which end by their ids.

What works for Spark (a cluster's workers, a Connect server) has a mount namespace of its own: it
shares nothing with the tests but the store and the Python that it is started with, not even
``/tmp``, and none of this project's packages is there.
"""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import psutil
import pyspark
import pytest

from highwater.checkers.spark.java import write_java_home
from highwater.harness.base.scratch import scratch
from highwater.harness.base.spark_options import SparkOptions
from highwater.harness.base.waiting import await_condition

ROOT: Final = Path(__file__).parents[2]
HOME: Final = Path(pyspark.__file__).parent
LOOPBACK: Final = "127.0.0.1"

_HOSTS: Final = ("127.0.0.2", "127.0.0.3")
"""Of workers: of one host, an executor would look for another's files on its own disk."""

_PAGE: Final = ("--webui-port", "0")

_LIMIT_S: Final = 240.0
_END_LIMIT_S: Final = 10.0
_PACKAGES: Final = ("checkers", "clusters", "harness", "highwater", "nemesis", "reports")
_OURS: Final = ("PYTHONPATH", "SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "XDG_CACHE_HOME")
_ALONE: Final = """
set -e
temporary=$1; shift
mount -t tmpfs tmpfs /mnt
number=0
for kept; do
  if [ "$kept" = -- ]; then break; fi
  number=$((number + 1)); mkdir /mnt/$number; mount --bind "$kept" /mnt/$number
done
mount -t tmpfs tmpfs "$temporary"
chmod 1777 "$temporary"
number=0
while [ "$1" != -- ]; do
  number=$((number + 1)); mkdir -p "$1"; mount --bind /mnt/$number "$1"; shift
done
shift
for folder in $HIDDEN; do
  if [ -d "$folder" ]; then mount -t tmpfs -o ro tmpfs "$folder"; fi
done
mkdir "$temporary/home"; cd "$temporary/home"
HOME=$PWD exec "$@"
"""
"""Keeps some folders, hides our packages and what else is temporary, and runs a command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """A process of ours that serves others at an address of loopback, and its log."""

    log: Path
    process: psutil.Process
    host: str

    def said(self, pattern: str) -> str:
        """Return what it says, or the pattern's group of it, as soon as it does."""

        def look() -> re.Match[str] | None:
            text = self.log.read_text(errors="replace")
            found = re.search(pattern, text)
            assert found or self.process.status() != psutil.STATUS_ZOMBIE, text
            return found

        what = f"{self.log} to say {pattern}"
        found = await_condition(look, lambda found: found is not None, what=what, limit_s=_LIMIT_S)
        assert found is not None
        return str(found[found.lastindex or 0])

    def kill(self) -> None:
        """Kill it with all that works for it, as a machine that loses its power does."""
        _kill(self.process)

    def executors(self) -> list[psutil.Process]:
        """Return the JVMs in which a worker works for applications."""
        return [one for one in self.process.children() if "ExecutorBackend" in _command(one)]

    def busy(self) -> bool:
        """Tell whether a worker's executors have a Python, so that a kernel runs or has run."""
        pythons = [each for one in self.executors() for each in _family(one)[1:]]
        return any("pyspark" in _command(each) for each in pythons)

    def kill_executors(self) -> int:
        """Kill what works for applications, which a worker starts anew, and say how many."""
        found = self.executors()
        for one in found:
            _kill(one)
        return len(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A standalone cluster.

    Attributes:
        url: of its master.
        workers: of one core each.
    """

    url: str
    workers: Sequence[Daemon]


def require_namespaces() -> None:
    """Skip a test where this user may not give a process a mount namespace of its own."""
    command = ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    there = shutil.which("unshare") is not None
    if not there or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("needs mount namespaces, which this user may not make: run the tests as root")


@contextmanager
def standalone(folder: Path, store: Path | None) -> Iterator[Cluster]:
    """Run a master and two workers that share nothing but the store.

    Args:
        folder: of logs.
        store: what the workers see of the tests' files; None: everything, and they work in folders
            named as their hosts, beside the logs.
    """
    package = "org.apache.spark.deploy"
    master = _spark(f"{package}.master.Master", "--host", LOOPBACK, "--port", "0", *_PAGE)
    with daemon(folder / "master.log", master) as serving, contextlib.ExitStack() as stack:
        url = serving.said(r"spark://127\.0\.0\.1:\d+")
        workers = []
        for host in _HOSTS:
            work = "work" if store else str(folder / host)
            size = ("--cores", "1", "--memory", "1g", "--work-dir", work)
            worker = _spark(f"{package}.worker.Worker", "--host", host, *_PAGE, *size, url)
            command = alone(worker, store) if store else worker
            started = daemon(folder / f"worker-{host}.log", command, host)
            workers.append(stack.enter_context(started))
        for each in workers:
            each.said("Successfully registered with master")
        yield Cluster(url=url, workers=workers)


@contextmanager
def connect(folder: Path, store: Path, conf: Mapping[str, str] | None = None) -> Iterator[str]:
    """Run a Spark Connect server with two cores that shares nothing but the store; its URL.

    Args:
        folder: of its log.
        store: what it sees of the tests' files.
        conf: Spark's settings.
    """
    settings = {
        "spark.connect.grpc.binding.address": LOOPBACK,
        "spark.connect.grpc.binding.port": "0",
        "spark.driver.host": LOOPBACK,
        "spark.ui.enabled": "false",
        **(conf or {}),
    }
    command = [
        *(str(HOME / "bin" / "spark-submit"), "--master", "local[2]", "--driver-memory", "512m"),
        *(word for key, value in settings.items() for word in ("--conf", f"{key}={value}")),
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
    ]
    with daemon(folder / "connect.log", alone(command, store)) as server:
        port = server.said(r"Connect server started at: \S+:(\d+)")
        yield f"sc://{LOOPBACK}:{port}"


def words(options: SparkOptions) -> list[str]:
    """Return the command line's words for some options."""
    pairs = (f"{key}={value}" for key, value in options.conf.items())
    conf = [word for pair in pairs for word in ("--spark-conf", pair)]
    if options.remote:
        return ["--spark-remote", options.remote, *conf]
    master = ["--spark-master", options.master] if options.master else []
    return [*master, "--driver-memory", options.driver_memory, *conf]


def alone(command: Sequence[str], *kept: Path) -> list[str]:
    """Return a command that runs another in a mount namespace of its own.

    Args:
        command: it sees a ``/tmp`` of its own, and none of our packages.
        kept: folders that it shares with us, wherever they are.
    """
    temporary = Path(tempfile.gettempdir()).resolve()
    python = {Path(sys.prefix), Path(sys.prefix).resolve(), Path(sys.base_prefix), HOME}
    shared = [*kept, _java_home(), *(one for one in python if one.is_relative_to(temporary))]
    shell = ["sh", "-c", _ALONE, "alone", str(temporary), *map(str, shared), "--", *command]
    return ["unshare", "--mount", "--propagation", "private", *shell]


@cache
def _java_home() -> Path:
    """Return the Java home of what is started here, which each of them sees."""
    return write_java_home(scratch("java"))


@contextmanager
def daemon(log: Path, command: Sequence[str], host: str = LOOPBACK) -> Iterator[Daemon]:
    """Run a command until the block ends, for Spark at an address of loopback."""
    environment = {name: value for name, value in os.environ.items() if name not in _OURS} | {
        "JAVA_HOME": str(_java_home()),
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": host,
        "SPARK_DAEMON_MEMORY": "512m",
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
        "PYSPARK_PYTHON": sys.executable,
        "HIDDEN": " ".join(str(ROOT / name) for name in _PACKAGES),
    }
    with log.open("wb") as file:
        started = subprocess.Popen(
            command, stdout=file, stderr=file, env=environment, start_new_session=True
        )
    process = psutil.Process(started.pid)
    try:
        yield Daemon(log=log, process=process, host=host)
    finally:
        _kill(process)
        started.wait()


def _spark(name: str, *arguments: str) -> list[str]:
    return [str(HOME / "bin" / "spark-class"), name, *arguments]


def _family(process: psutil.Process) -> list[psutil.Process]:
    try:
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _kill(process: psutil.Process) -> None:
    """Kill a process and all that it started."""
    family = _family(process)
    for one in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()
    psutil.wait_procs(family[1:], timeout=_END_LIMIT_S)

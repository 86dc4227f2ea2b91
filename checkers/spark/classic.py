"""A classic Spark session: its JVM is a child of this process, and ends with it.

Spark's JVM ends when its standard input ends, so neither Ctrl-C nor ``kill -9`` of this process
leaves a JVM behind. Spark's output goes to a file in its temporary directory, which is removed at
the end. Only this module needs a SparkContext.
"""

import contextlib
import logging
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import psutil
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from highwater.checkers.spark.class_archive import flags as sharing_flags
from highwater.checkers.spark.failures import first_line
from highwater.checkers.spark.java import JAVA_HOME, write_java_home
from highwater.harness.base.cleanup import at_end
from highwater.harness.base.errors import HarnessError
from highwater.harness.base.jvm_class_archive import COLLECTOR, Flags
from highwater.harness.base.scratch import scratch
from highwater.harness.base.spark_options import SparkOptions
from highwater.harness.base.waiting import await_condition

_LAST_WORDS: Final = 600  # the number of characters of Spark's output that an error quotes
_EXECUTOR_LIMIT_S: Final = 120.0
_ANSWER_LIMIT_S: Final = 10.0
_END_LIMIT_S: Final = 10.0
_LOOK_S: Final = 0.05
_KILL_LATER: Final = """
began() { cut -d ' ' -f 22 "/proc/$0/stat"; }
then=$(began)
read -r _
[ "$(began)" = "$then" ] && kill -9 "$0"
"""
"""A shell script that kills the JVM when the script's input ends. It compares the start times of
the process, because a later process may have the same id. Only Linux has these times (proc(5))."""

_LOOPBACK: Final = "127.0.0.1"
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_PYTHON: Final = "spark.pyspark.python"

_JVM_OPTIONS: Final = f"{COLLECTOR} -Duser.timezone=UTC"
_QUICK: Final = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
"""Use only the fast compiler (C1), and reserve 240 MB for machine code. The default of 48 MB is
soon full, because Spark generates classes. When it is full, queries fail."""
_LARGE: Final = "-XX:NewRatio=1"
"""Use half of the heap for new objects, because almost all rows are read only once
(docs/results.md)."""

_SETTINGS: Final = {
    "spark.app.name": "highwater",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.python.worker.reuse": "true",
}


def running() -> SparkSession | None:
    """Return this process's classic session, if there is one."""
    session = SparkSession._instantiatedSession  # noqa: SLF001 - no public way for other threads
    stopped = session is None or session.sparkContext._jsc is None  # noqa: SLF001 - as above
    return None if stopped else session


def is_local(session: SparkSession) -> bool:
    """Return whether a session is a classic session that runs only on this machine."""
    classic = isinstance(session, SparkSession)
    return classic and str(session.conf.get("spark.master", "")).startswith("local")


def start(
    options: SparkOptions,
    settings: Mapping[str, str],
    *,
    heavy: bool = False,
    sharing: Flags | None = None,
) -> SparkSession:
    """Start the session, the only session in this process.

    Args:
        options: the session's master, heap and settings.
        settings: the SQL settings that verdicts need; ``options`` may change them.
        heavy: whether better machine code is worth the time to compile it.
        sharing: flags for class data sharing. None means the flags of the class archive, which is
            made if it is missing.

    Raises:
        HarnessError: Spark did not start.
    """
    master = options.master or "local[*]"
    _require_answer(master)
    os.environ["PYSPARK_PYTHON"] = _python(master, options.conf)
    shared = sharing_flags(JAVA_HOME) if sharing is None else sharing
    temporary = scratch("spark")
    os.environ["JAVA_HOME"] = str(write_java_home(temporary))
    launching = threading.Lock()
    at_end(partial(_clear, temporary, launching))
    conf = _configuration(master, options, settings, temporary)
    paths = " ".join(f'"{path}"' for path in (*shared, f"-Djava.io.tmpdir={temporary}"))
    flags = (_JVM_OPTIONS, _LARGE if heavy else _QUICK, paths, options.conf.get(_JAVA_OPTIONS, ""))
    conf.set(_JAVA_OPTIONS, " ".join(filter(None, flags)))
    log = temporary / "spark.log"
    logging.getLogger().addFilter(_is_not_py4js)
    try:
        with log.open("wb") as file, warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # PySpark warns about a pandas that is newer than PySpark
            launch: Callable[..., Any] = launch_gateway  # it has no types
            with launching, _temporary_files_in(temporary):
                gateway = launch(conf, {"stdout": file, "stderr": file})
                at_end(partial(_end, gateway, _guard(gateway.proc.pid)))
            context = SparkContext(gateway=gateway, conf=conf)
            # Print no error if the JVM ends while PySpark waits for its accumulators' values.
            server: Any = context._accumulatorServer  # noqa: SLF001 - nothing public
            server.handle_error = lambda *_: None
            session = SparkSession(context)
            if not master.startswith("local"):
                _await_executor(context)
    except Exception as error:
        words = log.read_text(errors="replace")[-_LAST_WORDS:].strip() if log.exists() else ""
        raise HarnessError(
            f"Spark did not start: {first_line(error)}",
            hint=f"Spark's output ends with: {words}" if words else "",
        ) from error
    return session


def _is_not_py4js(record: logging.LogRecord) -> bool:
    """Return False for py4j's log messages about an error, which have its traceback.

    py4j logs an error when the JVM has ended. The caller of py4j also gets the error as an
    exception. py4j's own thread (``clientserver.FinalizerWorker``) has no caller.
    """
    return record.module != "java_gateway"


def _require_answer(master: str) -> None:
    """Raise an error if no master of a standalone cluster responds.

    Spark would wait for a minute.
    """
    if not master.startswith("spark://"):
        return
    for place in master.removeprefix("spark://").split(","):
        host, _, port = place.rpartition(":")
        with contextlib.suppress(OSError, ValueError):
            socket.create_connection((host.strip("[]"), int(port)), _ANSWER_LIMIT_S).close()
            return
    raise HarnessError(
        f"no Spark master responds at {master}",
        hint="Write spark://HOST:PORT as the master's log or web page shows it.",
    )


def _python(master: str, conf: Mapping[str, str]) -> str:
    """Return the path of the workers' Python.

    The workers use this process's Python, unless the settings name another.
    """
    named = conf.get(_PYTHON)
    if named is None and not master.startswith("local"):
        named = os.environ.get("PYSPARK_PYTHON")
    return named or sys.executable


def _configuration(
    master: str, options: SparkOptions, settings: Mapping[str, str], temporary: Path
) -> SparkConf:
    conf = SparkConf(loadDefaults=False).setMaster(master)
    conf.set("spark.driver.memory", options.driver_memory)
    if _nearby(master):
        os.environ["SPARK_LOCAL_IP"] = _LOOPBACK
        conf.set("spark.driver.host", _LOOPBACK).set("spark.driver.bindAddress", _LOOPBACK)
    if not master.startswith("local"):
        conf.set("spark.executor.extraJavaOptions", _JVM_OPTIONS)
    conf.set("spark.local.dir", str(temporary))
    conf.set("spark.sql.warehouse.dir", str(temporary / "warehouse"))
    return conf.setAll([*_SETTINGS.items(), *settings.items(), *options.conf.items()])


def _await_executor(context: SparkContext) -> None:
    """Wait until a cluster has started an executor for the session. Spark has no limit for this."""
    memory = context.getConf().get("spark.executor.memory", "1g")
    await_condition(
        lambda: context._jsc.sc().getExecutorMemoryStatus().size(),  # noqa: SLF001 - nothing public
        lambda members: members > 1,  # the driver is a member, too
        what=f"{context.master} to start an executor with {memory} of memory",
        limit_s=_EXECUTOR_LIMIT_S,
    )


def _nearby(master: str) -> bool:
    """Return whether all parts of Spark run on this machine."""
    host = urlsplit(master).hostname if "://" in master else _LOOPBACK
    return host in (_LOOPBACK, "localhost")


@contextlib.contextmanager
def _temporary_files_in(folder: Path) -> Iterator[None]:
    """Use Highwater's own directory for PySpark's JVM.

    A killed JVM does not remove a directory that PySpark made.
    """
    before = tempfile.tempdir
    tempfile.tempdir = str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before


def _clear(folder: Path, launching: threading.Lock) -> None:
    """Remove Spark's folder after every JVM that uses it was killed.

    A JVM starts only under the lock ``launching``. This function acquires the lock, and never
    releases it: a JVM that is still starting would make the folder again, or fail to find it and
    never end.
    """
    deadline = time.monotonic() + _END_LIMIT_S
    while not launching.acquire(timeout=_LOOK_S) and time.monotonic() < deadline:
        _kill_children_of(folder)  # the thread that starts a JVM waits for it
    psutil.wait_procs(_kill_children_of(folder), timeout=_END_LIMIT_S)
    shutil.rmtree(folder, ignore_errors=True)


def _kill_children_of(folder: Path) -> list[psutil.Process]:
    killed = []
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if any(str(folder) in word for word in child.cmdline()):
                child.kill()
                killed.append(child)
    return killed


def end_in_order(session: SparkSession) -> None:
    """Stop the session and wait until its JVM has exited normally."""
    gateway: Any = session.sparkContext._gateway  # noqa: SLF001 - nothing public
    session.stop()
    gateway.proc.stdin.close()
    gateway.proc.wait()


def _guard(jvm: int) -> subprocess.Popen[bytes]:
    """Start a process that kills the JVM when this process is killed.

    This is for a JVM that hangs; others exit at the end of their input. A later process with the
    same id is not killed.
    """
    return subprocess.Popen(
        ["/bin/sh", "-c", _KILL_LATER, str(jvm)],
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # so that a terminal's Ctrl-C does not reach it
    )


def _end(gateway: Any, guard: subprocess.Popen[bytes]) -> None:  # noqa: ANN401 - py4j has no types
    """Kill the JVM.

    The session stops first, so that PySpark logs no errors. The Python workers are killed too,
    because they might write into a folder that is being removed.
    """
    workers: list[psutil.Process] = []
    with contextlib.suppress(psutil.Error):
        workers = psutil.Process(gateway.proc.pid).children(recursive=True)
    with contextlib.suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PySpark warns about a JVM that was interrupted
        if (session := running()) is not None:
            session.stop()
        gateway.shutdown()
    gateway.proc.kill()
    gateway.proc.wait()
    guard.kill()
    guard.communicate()
    for worker in workers:
        with contextlib.suppress(psutil.Error):
            worker.kill()
    psutil.wait_procs(workers, timeout=_END_LIMIT_S)

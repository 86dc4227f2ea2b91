"""The Spark session that judges: one a process, quiet, small, and gone when the process is.

Spark's JVM ends when its standard input does, so neither Ctrl-C nor ``kill -9`` of this process leaves
one behind. What Spark has to say goes to a file beside its temporary data, and with that it is removed.
"""

import atexit
import contextlib
import os
import shutil
import sys
import tempfile
import threading
import warnings
from concurrent.futures import Future
from pathlib import Path
from typing import Final, Self

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from checkers.java import find_java
from checkers.kafka_log import register
from harness.errors import HarnessError

_LAST_WORDS: Final = 600  # characters of Spark's own complaint that an error quotes
_lock = threading.Lock()

# The serial collector and C1 alone: a judgement is many short jobs on two cores.
_JVM_OPTIONS: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Duser.timezone=UTC"

_SETTINGS: Final = {
    "spark.app.name": "highwater",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.shuffle.partitions": "8",  # the most; AQE joins small ones together
    "spark.default.parallelism": "2",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",  # run names stay strings
    "spark.sql.caseSensitive": "true",
    "spark.python.worker.reuse": "true",
}


def spark(master: str | None = None, driver_memory: str = "2g") -> SparkSession:
    """This process's session, started if it is not running.

    Args:
        master: Spark's master URL; None is ``local[N]`` with N the cores, four at most.
        driver_memory: heap of the JVM that does all the work.

    Raises:
        HarnessError: there is no Java that Spark starts on, or Spark did not start.
    """
    return start_in_background(master, driver_memory).result()


class SparkStarter:
    """Starts the session at once and hands it out when it is needed; leaving the block does not stop it.

    ``with SparkStarter() as starter: ...; starter.session()``
    """

    def __init__(self, master: str | None = None, driver_memory: str = "2g") -> None:
        self._future = start_in_background(master, driver_memory)

    def session(self) -> SparkSession:
        """The session, waited for. Raises what ``spark`` raises."""
        return self._future.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None


def start_in_background(
    master: str | None = None, driver_memory: str = "2g"
) -> Future[SparkSession]:
    """Start the session while something else is done; ``result()`` is the session, or raises.

    Always on a thread of its own, also because Spark puts its own Ctrl-C handler on a main thread.
    """
    future: Future[SparkSession] = Future()

    def start() -> None:
        try:
            with _lock:
                future.set_result(_running() or _start(master, driver_memory))
        except BaseException as error:  # noqa: BLE001 - it is the caller's, whatever it is
            future.set_exception(error)

    threading.Thread(target=start, name="spark-start", daemon=True).start()
    return future


def _running() -> SparkSession | None:
    session = SparkSession.getActiveSession() or SparkSession._instantiatedSession  # noqa: SLF001 - other threads see no active one
    return session if session is not None and session._sc._jsc is not None else None  # noqa: SLF001 - stopped or not


def _start(master: str | None, driver_memory: str) -> SparkSession:
    temporary = Path(tempfile.mkdtemp(prefix="highwater-spark-"))
    os.environ["JAVA_HOME"] = str(find_java())
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    conf = _configuration(
        master or f"local[{min(os.cpu_count() or 2, 4)}]", driver_memory, temporary
    )
    log = temporary / "spark.log"
    try:
        with log.open("wb") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of PySpark's about pandas, at import
            gateway = launch_gateway(conf, {"stdout": file, "stderr": file})
            session = SparkSession(SparkContext(gateway=gateway, conf=conf))
    except Exception as error:
        words = log.read_text(errors="replace")[-_LAST_WORDS:].strip() if log.exists() else ""
        shutil.rmtree(temporary, ignore_errors=True)
        raise HarnessError(
            f"Spark did not start: {error}", hint=f"It said: {words}" if words else ""
        ) from error
    atexit.register(_stop, session, temporary)
    register(session)
    return session


def _configuration(master: str, driver_memory: str, temporary: Path) -> SparkConf:
    conf = SparkConf(loadDefaults=False).setMaster(master).set("spark.driver.memory", driver_memory)
    conf.set("spark.driver.extraJavaOptions", f"{_JVM_OPTIONS} -Djava.io.tmpdir={temporary}")
    conf.set("spark.local.dir", str(temporary))
    conf.set("spark.sql.warehouse.dir", str(temporary / "warehouse"))
    for name, value in _SETTINGS.items():
        conf.set(name, value)
    return conf


def _stop(session: SparkSession, temporary: Path) -> None:
    with contextlib.suppress(Exception):
        session.stop()
    process = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001 - the JVM's own handle
    if process is not None:
        with contextlib.suppress(Exception):
            SparkContext._gateway.shutdown()  # noqa: SLF001 - no public way
            process.stdin.close()
            process.wait(timeout=10)
    shutil.rmtree(temporary, ignore_errors=True)

"""The Spark session that judges: one a process, quiet, small, and gone when the process is.

Spark's JVM ends when its standard input does, so neither Ctrl-C nor ``kill -9`` of this process
leaves one behind. What Spark has to say goes to a file beside its temporary data, and with that it
is removed.
"""

import contextlib
import os
import re
import shutil
import sys
import tempfile
import threading
import warnings
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit

import psutil
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from checkers.java import find_java
from checkers.sharing import flags as sharing_flags
from checkers.warmup import warm_up
from harness.archive import COLLECTOR, Flags
from harness.cleanup import at_end
from harness.errors import HarnessError
from harness.waiting import await_condition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_LINE_MAX: Final = 300  # characters of a crash that a verdict quotes
_LAST_WORDS: Final = 600  # characters of Spark's own complaint that an error quotes
_CORES_MAX: Final = 4
_EXECUTOR_LIMIT_S: Final = 120.0
_END_LIMIT_S: Final = 10.0
_LOOPBACK: Final = "127.0.0.1"
_FOLDER: Final = "highwater-spark-"
_lock = threading.Lock()

HEAVY_BYTES: Final = 64 << 20
"""From so many bytes of replicas on, better machine code is worth its making.

A first small judgement takes 14 CPU seconds with the JVM's quick compiler alone and 25 with both; a
million operations of clients 12 or 18, ten million 35 with either. Only the records of replicas
pass through the JVM one by one.
"""

_MANY: Final = 20_000
_MANY_ROWS: Final = {
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.shuffle.partitions": "8",  # the most; AQE joins small ones together
}
_FEW_ROWS: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
}
"""Code that Spark generates for each query takes longer to make than few rows take without it (a
million operations of which 500 records are lost: 10.2 s with it and 6.6 s without)."""

_JVM_OPTIONS: Final = f"{COLLECTOR} -Duser.timezone=UTC"
_QUICK: Final = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
"""The quick compiler alone, which would have the JVM reserve 48 MB for code instead of 240: classes
that Spark generates fill that within a minute of judging, and a JVM that finds no room for a method
handle ends the query with an error."""

_SETTINGS: Final = {
    "spark.app.name": "highwater",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",  # run names stay strings
    "spark.sql.caseSensitive": "true",
    "spark.sql.parquet.compression.codec": "lz4_raw",  # of what is read again within seconds
    "spark.python.worker.reuse": "true",
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
}


def spark(
    master: str | None = None, driver_memory: str = "2g", *, heavy: bool = False
) -> SparkSession:
    """This process's session, started if it is not running.

    Args:
        master: Spark's master URL; None is ``local[N]`` with N the cores, four at most. The workers
            of a cluster need this package and the same paths: they read runs where they lie, and
            share the folder that ``TMPDIR`` names.
        driver_memory: heap of the JVM that does all the work.
        heavy: whether much will be judged, more than ``HEAVY_BYTES``.

    Raises:
        HarnessError: there is no Java that Spark starts on, or Spark did not start.
    """
    return SparkStarter(master, driver_memory, heavy=heavy).session()


def scratch(name: str) -> Path:
    """An empty folder for files of this process alone; what a killed process left goes first."""
    return Path(tempfile.mkdtemp(prefix=f"{_FOLDER}{os.getpid()}-{name}-"))


class SparkStarter:
    """Starts the session at once, and hands it out when it is needed.

    ``with SparkStarter() as starter: ...; session = starter.session()``. Until it is needed, the
    session judges a tiny run of its own, because a JVM's first judgement is several times as slow
    as its second. Leaving the block stops nothing: the process has one session, and ends it.

    Attributes:
        future: the session, as soon as it can be used.
    """

    def __init__(
        self, master: str | None = None, driver_memory: str = "2g", *, heavy: bool = False
    ) -> None:
        self.future: Future[SparkSession] = Future()
        self._needed = threading.Event()
        # On a thread of its own also because Spark puts its own Ctrl-C handler on a main thread.
        self._thread = threading.Thread(
            target=self._run,
            args=(master, driver_memory),
            kwargs={"heavy": heavy},
            name="spark-start",
            daemon=True,
        )
        self._thread.start()

    def session(self) -> SparkSession:
        """The session, waited for. Raises what ``spark`` raises."""
        self._needed.set()
        session = self.future.result()
        self._thread.join()
        return session

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def _run(self, master: str | None, driver_memory: str, *, heavy: bool) -> None:
        try:
            with _lock:
                running = _running()
                session = running or start(master, driver_memory, heavy=heavy)
        except BaseException as error:  # noqa: BLE001 - it is the caller's, whatever it is
            self.future.set_exception(error)
            return
        self.future.set_result(session)
        if running is None and not self._needed.is_set():
            # Nobody waits for it: where it fails, the first judgement will say why.
            with contextlib.suppress(Exception):
                warm_up(session)


def _running() -> SparkSession | None:
    session = SparkSession._instantiatedSession  # noqa: SLF001 - no public way sees other threads'
    stopped = session is None or session.sparkContext._jsc is None  # noqa: SLF001 - likewise
    return None if stopped else session


def start(
    master: str | None, driver_memory: str, *, heavy: bool = False, sharing: Flags | None = None
) -> SparkSession:
    """Start the session, of which a process has one; ``spark`` says what of what.

    Args:
        master: as for ``spark``.
        driver_memory: likewise.
        heavy: likewise.
        sharing: the JVM's flags of class data sharing; None: the archive's, made if need be.

    Raises:
        HarnessError: as from ``spark``.
    """
    java = find_java()
    os.environ["JAVA_HOME"] = str(java)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    shared = sharing_flags(java) if sharing is None else sharing
    temporary = _temporary_folder()
    conf = _configuration(
        master or f"local[{min(os.cpu_count() or 2, _CORES_MAX)}]", driver_memory, temporary
    )
    conf.set("spark.driver.extraJavaOptions", _java_options(temporary, shared, heavy=heavy))
    log = temporary / "spark.log"
    try:
        with log.open("wb") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PySpark's own, about a pandas that is newer than it
            launch: Callable[..., Any] = launch_gateway  # without types
            with _temporary_files_in(temporary):
                gateway = launch(conf, {"stdout": file, "stderr": file})
            at_end(partial(_end, gateway))
            session = SparkSession(_quiet(SparkContext(gateway=gateway, conf=conf)))
            _await_executor(session)
    except Exception as error:
        words = log.read_text(errors="replace")[-_LAST_WORDS:].strip() if log.exists() else ""
        raise HarnessError(
            f"Spark did not start: {first_line(error)}", hint=f"It said: {words}" if words else ""
        ) from error
    return session


def _quiet(context: SparkContext) -> SparkContext:
    """Have nothing printed where the JVM ends while PySpark waits for its accumulators' values."""
    server: Any = context._accumulatorServer  # noqa: SLF001 - nothing public
    server.handle_error = lambda *_: None
    return context


def _configuration(master: str, driver_memory: str, temporary: Path) -> SparkConf:
    conf = SparkConf(loadDefaults=False).setMaster(master).set("spark.driver.memory", driver_memory)
    if _nearby(master):
        os.environ["SPARK_LOCAL_IP"] = _LOOPBACK
        conf.set("spark.driver.host", _LOOPBACK).set("spark.driver.bindAddress", _LOOPBACK)
    if not master.startswith("local"):
        conf.set("spark.executor.extraJavaOptions", _JVM_OPTIONS)
    conf.set("spark.local.dir", str(temporary))
    conf.set("spark.sql.warehouse.dir", str(temporary / "warehouse"))
    for name, value in (_SETTINGS | _MANY_ROWS).items():
        conf.set(name, value)
    return conf


def _await_executor(session: SparkSession) -> None:
    """Go on when a cluster has given us an executor; Spark itself would wait for ever.

    Raises:
        WaitTimeoutError: it gave none.
    """
    context = session.sparkContext
    if str(context.master).startswith("local"):
        return
    await_condition(
        lambda: context._jsc.sc().getExecutorMemoryStatus().size(),  # noqa: SLF001 - nothing public
        lambda members: members > 1,  # the driver is one
        what=f"{context.master} to give an executor of 1 GB",
        limit_s=_EXECUTOR_LIMIT_S,
    )


def _java_options(temporary: Path, sharing: Flags, *, heavy: bool) -> str:
    """The serial collector, as a judgement is many short jobs; and a compiler for their size."""
    quick = () if heavy else (_QUICK,)
    paths = (*sharing, f"-Djava.io.tmpdir={temporary}")
    return " ".join((_JVM_OPTIONS, *quick, *(f'"{one}"' for one in paths)))


def _nearby(master: str) -> bool:
    """Whether nobody on another machine has to reach the driver."""
    host = urlsplit(master).hostname if "://" in master else _LOOPBACK
    return host in (_LOOPBACK, "localhost")


def _temporary_folder() -> Path:
    """A folder for all that Spark writes, removed at exit; those of killed processes go first."""
    for left in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*-*"):
        owner = left.name.removeprefix(_FOLDER).split("-")[0]
        if owner.isdecimal() and not psutil.pid_exists(int(owner)):
            shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{_FOLDER}{os.getpid()}-"))
    at_end(partial(_clear, folder))
    return folder


@contextlib.contextmanager
def _temporary_files_in(folder: Path) -> "Iterator[None]":
    """Have PySpark wait for its JVM in a folder of ours: it leaves its own where it is ended."""
    before = tempfile.tempdir
    tempfile.tempdir = str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before


def _clear(folder: Path) -> None:
    """Remove Spark's folder, after a JVM that is only starting, which would make it again."""
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if any(str(folder) in word for word in child.cmdline()):
                child.kill()
                child.wait(_END_LIMIT_S)
    shutil.rmtree(folder, ignore_errors=True)


def first_line(error: Exception) -> str:
    """Return the first line of an error that says something, without Java's stack."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = next((line for line in lines if not line.startswith("An error occurred")), "")
    return re.sub(r"\s+", " ", telling or type(error).__name__)[:_LINE_MAX]


def require_alive(session: SparkSession) -> None:
    """Go on if a session still answers.

    Raises:
        HarnessError: it does not, so that nothing it says of a run means anything.
    """
    try:
        session.sql("SELECT 1").collect()
    except Exception as error:
        raise HarnessError(
            "Spark ended while it was judging",
            hint="Verdicts and reports are as they were before. Judge again: highwater check RUN",
        ) from error


def end_in_order(session: SparkSession) -> None:
    """Stop the session and await the end of its JVM, which does then what it does at its end."""
    gateway: Any = session.sparkContext._gateway  # noqa: SLF001 - nothing public
    session.stop()
    gateway.proc.stdin.close()
    gateway.proc.wait()


def _end(gateway: Any) -> None:  # noqa: ANN401 - py4j has no types
    """End the JVM: nothing in it is wanted. Stopping it first ends this side of it quietly."""
    with contextlib.suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PySpark's own, of a JVM that was interrupted
        if (session := _running()) is not None:
            session.stop()
        gateway.shutdown()
    gateway.proc.kill()
    gateway.proc.wait()

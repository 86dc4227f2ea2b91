"""The Spark session that judges runs. Each process has one session, with the same settings.

It is a classic session that this process starts (``checkers.spark.classic``), a session on a Spark
Connect server (``checkers.spark.connect``), or the caller's own session.
"""

import threading
from concurrent.futures import Future
from functools import partial
from typing import Final

from pyspark.sql import SparkSession

from highwater.checkers.spark import classic, connect
from highwater.checkers.spark.workers import prepare
from highwater.harness.base.errors import HarnessError
from highwater.harness.base.spark_options import HERE, SparkOptions

_lock = threading.Lock()

HEAVY_BYTES: Final = 64 << 20
"""The least number of bytes of histories and replicas for which the JVM's optimising compiler
saves time (docs/results.md)."""

SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "true",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",  # run names stay strings
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.shuffle.partitions": "32",  # the greatest number; AQE joins small ones
}
"""Settings of a session for any amount of data; ``--spark-conf`` may change them. Spark's
default of 10,000 rows in an Arrow batch takes more processor time."""

_ON_THIS_MACHINE: Final = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "8",
}
"""Settings for this machine: adaptive execution (AQE) would run each stage of a small query as a
separate job."""


def spark(options: SparkOptions = HERE, *, heavy: bool = False) -> SparkSession:
    """Return this process's session; start it if it is not running.

    ``heavy`` states whether more than ``HEAVY_BYTES`` will be judged.

    Raises:
        HarnessError: Spark did not start or does not respond, or its workers cannot judge.
    """
    return SparkStarter(options, heavy=heavy).session()


class SparkStarter:
    """Starts the session at once, and returns it when needed. The session ends with this process.

    Args:
        options: the session's options.
        heavy: whether more than ``HEAVY_BYTES`` will be judged.
    """

    def __init__(self, options: SparkOptions = HERE, *, heavy: bool = False) -> None:
        self._future: Future[SparkSession] = Future()
        # The thread is also needed because on a main thread Spark would set its own handler of
        # Ctrl-C.
        run = partial(self._run, options, heavy=heavy)
        threading.Thread(target=run, name="spark-start", daemon=True).start()

    def session(self) -> SparkSession:
        """Wait for the session, and return it. Raises the same errors as ``spark``."""
        return self._future.result()

    def _run(self, options: SparkOptions, *, heavy: bool) -> None:
        try:
            with _lock:
                session = options.session or _running(options) or _started(options, heavy=heavy)
                if options.session is not None or not classic.is_local(session):
                    prepare(session)
        except BaseException as error:  # noqa: BLE001 - the caller gets every error
            self._future.set_exception(error)
            return
        self._future.set_result(session)


def _running(options: SparkOptions) -> SparkSession | None:
    if options.remote is None:
        return classic.running()
    if classic.running() is not None:
        raise HarnessError(
            "this process has its own Spark session, so it cannot have a session on a server",
            hint="Stop that session first, or pass it in SparkOptions(session=…).",
        )
    return connect.running(options.remote)


def _started(options: SparkOptions, *, heavy: bool) -> SparkSession:
    if options.remote is None:
        settings = SETTINGS if options.master else SETTINGS | _ON_THIS_MACHINE
        return classic.start(options, settings, heavy=heavy)
    return connect.start(options.remote, SETTINGS | dict(options.conf))

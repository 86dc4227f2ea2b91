"""Many runs' tables as one: the columns of ``harness.history``, and ``run`` beside them.

``run`` holds the key of a case (``r0``, ``r1``, …), which unlike a directory's name is unique and
safe in a path. What several checkers read is computed once and kept.
"""

import contextlib
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Final, Self

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812

from checkers import disks, fates, frames, kafka_log
from checkers.clients import skips
from checkers.clients.numbers import Source
from checkers.clients.sequence import wrong_steps
from checkers.clients.view import View, in_order
from checkers.segments.files import segments
from checkers.staging import Case, plain, stage, staged
from harness.history import OPERATIONS_TABLE, TABLES
from harness.store import Run

_SPARK_TYPES: Final = {
    pa.string(): T.StringType(),
    pa.int32(): T.IntegerType(),
    pa.int64(): T.LongType(),
    pa.list_(pa.int32()): T.ArrayType(T.IntegerType()),
}


class Tables:
    """The tables of the runs under judgement.

    Args:
        spark: the session.
        staging: an empty folder that outlives this object's use.
        cases: the runs; their ``reasons`` grow by what is missing or broken.
    """

    def __init__(self, spark: SparkSession, staging: Path, cases: Sequence[Case]) -> None:
        self.spark = spark
        self.staging = staging
        self.cases = tuple(cases)
        for case in self.cases:
            stage(case, staging)

    @classmethod
    def load(cls, runs: Sequence[Run], spark: SparkSession) -> Self:
        """The tables of runs for a notebook; ``run`` holds their names, which must differ.

        Raises:
            StoreError: a run's plan or status is missing or broken.
        """
        temporary = spark.conf.get("spark.local.dir")
        staging = Path(tempfile.mkdtemp(prefix="tables-", dir=temporary))
        return cls(spark, staging, [Case.of(run, run.name) for run in runs])

    @cached_property
    def operations(self) -> DataFrame:
        """``harness.history.OPERATIONS`` of every run."""
        return self._read(OPERATIONS_TABLE)

    @property
    def ops(self) -> DataFrame:
        """``operations`` under the name of its file, as ``harness.history.TABLES`` has it."""
        return self.operations

    @cached_property
    def partitions(self) -> DataFrame:
        """``harness.history.PARTITIONS`` of every run."""
        return self._read("events/partitions")

    @cached_property
    def replicas(self) -> DataFrame:
        """``harness.history.REPLICAS`` of every run."""
        return self._read("events/replicas")

    @cached_property
    def faults(self) -> DataFrame:
        """``harness.history.FAULTS`` of every run."""
        return self._read("events/faults")

    @cached_property
    def log_lines(self) -> DataFrame:
        """``harness.history.LOG_LINES`` of every run."""
        return self._read("events/log_lines")

    @cached_property
    def settings(self) -> DataFrame:
        """One row a run: ``run, acks, idempotent, quiesced, compacted, partitions``."""
        rows = {
            "run": [case.key for case in self.cases],
            "acks": [case.plan.workload.acks for case in self.cases],
            "idempotent": [case.plan.workload.idempotence for case in self.cases],
            "quiesced": [case.status.quiesced for case in self.cases],
            "compacted": [case.compacted for case in self.cases],
            "partitions": pa.array([case.plan.topic.partitions for case in self.cases], pa.int32()),
        }
        return self.local(pa.table(rows))

    @cached_property
    def log(self) -> DataFrame:
        """Every record on every replica's disk and every damaged stretch, in ``disks.COLUMNS``."""
        if not self._on_disk:
            empty = self.spark.createDataFrame([], kafka_log.schema_of(disks.SOURCE))
            return disks.records(empty)
        found = kafka_log.read_log(self.spark, self._logs, disks.SOURCE)
        return self.keep("log", disks.records(found))

    @property
    def _logs(self) -> list[Path]:
        return [self.staging / "log" / case.key for case in self.cases]

    @cached_property
    def _on_disk(self) -> int:
        """About how many records the disks hold."""
        return sum(kafka_log.about(segments(folder / "replicas")) for folder in self._logs)

    @cached_property
    def ends(self) -> list[disks.End]:
        """Where each replica's log begins and ends on disk."""
        return disks.ends(self.spans)

    @cached_property
    def spans(self) -> list[disks.Span]:
        """What each replica's log holds of each leader epoch."""
        return disks.spans(self.log)

    @cached_property
    def books(self) -> list[fates.Book]:
        """The books of every partition, and how far the final read came in it."""
        return fates.books(self)

    @cached_property
    def view(self) -> View:
        """What clients saw, for ``checkers.clients``."""
        keys = [case.key for case in self.cases]
        found = [(staged(self.staging, OPERATIONS_TABLE, key), key) for key in keys]
        sources = [Source(str(path), key) for path, key in found if path.exists()]
        operations = in_order(self._scan(OPERATIONS_TABLE))
        return View(operations, sources, self.staging / "clients", final_read=True)

    @cached_property
    def decided(self) -> Path:
        """Every record of which something is amiss: a folder of files, in ``deciding.FATE``."""
        return fates.fates(self, self.kept("fates"))

    def prefetch(self) -> None:
        """Compute what the checkers share, clients' side and disks side by side.

        What cannot be computed raises again where a checker asks for it: that checker's crash.
        """
        with ThreadPoolExecutor(3, thread_name_prefix="tables") as pool:
            pool.submit(getattr, self, "ends")
            with contextlib.suppress(Exception):
                self.view.scan()  # all of the following need it
                pool.submit(getattr, self.view, "order")
                wrong_steps(self.view)
                self.view.hold(fates.wants(self) | skips.wants(self.view))
            pool.submit(getattr, self, "decided")

    @cached_property
    def nothing(self) -> Path:
        """No anomalies, as a checker may return them."""
        folder = self.kept("nothing")
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def local(self, table: pa.Table) -> DataFrame:
        """A small table that is already here, for Spark to join with."""
        return self.spark.createDataFrame(table)

    def keep(self, name: str, frame: DataFrame) -> DataFrame:
        """Compute a frame once, into the staging folder."""
        return frames.write(frame, self.kept(name))

    def kept(self, name: str) -> Path:
        """Where a frame is kept under a name, or may be."""
        return self.staging / "kept" / name

    def _read(self, name: str) -> DataFrame:
        found = self._scan(name)
        return found.select("run", *(column.name for column in TABLES[name]))

    def _scan(self, name: str) -> DataFrame:
        columns = [T.StructField("run", T.StringType())] + [
            T.StructField(column.name, _SPARK_TYPES[plain(column.type)]) for column in TABLES[name]
        ]
        return self.spark.read.schema(T.StructType(columns)).parquet(str(self.staging / name))

"""The tables of all judged runs together. A column ``run`` is added to each table.

``run`` is the key of a run (``r0``, ``r1``, …). Unlike a directory's name, a key is unique and safe
in a path. Checkers derive their own tables from these tables (``core.derived``).
"""

import re
import tempfile
from collections.abc import Sequence
from functools import cached_property, reduce
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from highwater.checkers.inspection import replica_extents
from highwater.checkers.run_files import RunFiles, plain, stage
from highwater.checkers.run_rows import from_here, in_order
from highwater.checkers.spark import kafka_log
from highwater.checkers.spark.binary_files import literal
from highwater.checkers.spark.engine import Engine
from highwater.harness.base.scratch import scratch
from highwater.harness.runs.history import OPERATIONS_TABLE, TABLES
from highwater.harness.runs.store import Run


class Tables:
    """The tables of the judged runs.

    Args:
        engine: the engine of the Spark session.
        folder: an empty folder for copies of unfinished tables. It must exist while this object is
            used.
        cases: the runs. Missing and broken files are added to their ``reasons``.
    """

    def __init__(self, engine: Engine, folder: Path, cases: Sequence[RunFiles]) -> None:
        self.engine = engine
        self.spark = engine.spark
        self.cases = tuple(cases)
        self.derived: dict[object, Any] = {}
        for case in self.cases:
            stage(case, Path(tempfile.mkdtemp(dir=folder)))

    @classmethod
    def load(cls, runs: Sequence[Run], spark: SparkSession) -> Self:
        """Return the tables of runs for a notebook, in which ``run`` is the run's name.

        Two runs must not have the same name.

        Raises:
            StoreError: a run's plan or status is missing or broken.
        """
        cases = [RunFiles.of(run, run.name) for run in runs]
        return cls(Engine(spark), scratch("tables"), cases)

    @cached_property
    def operations(self) -> DataFrame:
        """The table ``harness.runs.history.OPERATIONS`` of every run."""
        return self._read(OPERATIONS_TABLE)

    @property
    def ops(self) -> DataFrame:
        """The same as ``operations``; the history's file has the name ``ops``."""
        return self.operations

    @cached_property
    def partitions(self) -> DataFrame:
        """The table ``harness.runs.history.PARTITIONS`` of every run."""
        return self._read("events/partitions")

    @cached_property
    def replicas(self) -> DataFrame:
        """The table ``harness.runs.history.REPLICAS`` of every run."""
        return self._read("events/replicas")

    @cached_property
    def faults(self) -> DataFrame:
        """The table ``harness.runs.history.FAULTS`` of every run."""
        return self._read("events/faults")

    @cached_property
    def log_lines(self) -> DataFrame:
        """The table ``harness.runs.history.LOG_LINES`` of every run."""
        return self._read("events/log_lines")

    @cached_property
    def log(self) -> DataFrame:
        """Every record and damaged range of every replica, in ``replica_extents.COLUMNS``."""
        segments = [segment for case in self.cases for segment in case.segments]
        if not kafka_log.about(segments):
            empty = self.spark.createDataFrame([], kafka_log.schema_of(replica_extents.SOURCE))
            return replica_extents.records(empty)
        log = kafka_log.read_segments(self.spark, segments, replica_extents.SOURCE)
        return self.engine.keep(replica_extents.records(log))

    @cached_property
    def remote_log(self) -> DataFrame | None:
        """Every record and damaged range of the remote tiers' segments; None without segments."""
        segments = [segment for case in self.cases for segment in case.remote_segments]
        if not kafka_log.about(segments):
            return None
        log = kafka_log.read_segments(self.spark, segments, replica_extents.SOURCE)
        return self.engine.keep(replica_extents.records(log))

    def local(self, table: pa.Table) -> DataFrame:
        """Return a small table of this process as a Spark frame, for joins."""
        return self.engine.given(table)

    def _read(self, name: str) -> DataFrame:
        return self.numbered(name).select("run", *(column.name for column in TABLES[name]))

    def numbered(self, name: str) -> DataFrame:
        """Return a table of all runs, with the columns ``run`` and ``at`` (the row's number)."""
        columns = [field.with_type(plain(field.type)) for field in TABLES[name]]
        schema = from_arrow_schema(pa.schema(columns))
        parts = [
            from_here(self.engine, case.tables[name], case.key, schema.names)
            for case in self.cases
            if name in case.sealed
        ]
        runs = {
            case.key: case.source(name)
            for case in self.cases
            if name in case.tables and name not in case.sealed
        }
        if runs:
            parts.append(self._files(runs, schema))
        if not parts:
            return self.spark.createDataFrame([], schema.add("run", "string").add("at", "long"))
        return reduce(DataFrame.unionByName, parts)

    def _files(self, runs: dict[str, str], schema: StructType) -> DataFrame:
        plain_paths = [re.sub("^file:/+", "/", run) for run in runs.values()]
        files = dict(zip(plain_paths, runs.values(), strict=True))
        ordered = in_order(self.spark.read.schema(schema).parquet(*map(literal, files.values())))
        if len(runs) == 1:
            return ordered.withColumn("run", F.lit(*runs))
        path = F.replace(F.col("_metadata.file_path"), F.lit("+"), F.lit("%2B"))
        path = F.regexp_replace(F.url_decode(path), "^file:/+", "/")
        names = F.broadcast(self.local(pa.table({"path": plain_paths, "run": [*runs]})))
        return ordered.withColumn("path", path).join(names, "path").drop("path")

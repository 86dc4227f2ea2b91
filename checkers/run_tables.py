"""Many runs' tables as one: the columns of ``harness.runs.history``, and ``run`` beside them.

``run`` holds the key of a case (``r0``, ``r1``, …), which unlike a directory's name is unique and
safe in a path. Tables that several checkers read are computed once and persisted.
"""

import re
import tempfile
from collections.abc import Sequence
from functools import cached_property, reduce
from pathlib import Path
from typing import Self

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from highwater.checkers.anomalies import record_outcomes
from highwater.checkers.anomalies.find import OF_RUNS, findings, tell
from highwater.checkers.compaction.last_values import (
    LastValues,
    last_values,
    replaced_of,
    without_skips,
)
from highwater.checkers.groups.undelivered import undelivered
from highwater.checkers.history.findings import FINDING
from highwater.checkers.history.view import ClientHistory, from_here, in_order
from highwater.checkers.inspection import replica_extents
from highwater.checkers.metadata.controller_logs import ControllerLog, read_logs
from highwater.checkers.run_files import RunFiles, plain, stage
from highwater.checkers.spark import kafka_log
from highwater.checkers.spark.binary_files import literal
from highwater.checkers.spark.engine import Engine, Rows
from highwater.checkers.transactions import atomicity
from highwater.checkers.transactions.exactly_once import exactly_once
from highwater.harness.base.scratch import scratch
from highwater.harness.runs.history import OPERATIONS_TABLE, TABLES
from highwater.harness.runs.store import Run


class Tables:
    """The tables of the runs under judgement.

    Args:
        engine: of the session.
        folder: an empty one that outlives this object's use, for copies of unfinished tables.
        cases: the runs; their ``reasons`` get what is missing or broken.
    """

    def __init__(self, engine: Engine, folder: Path, cases: Sequence[RunFiles]) -> None:
        self.engine = engine
        self.spark = engine.spark
        self.cases = tuple(cases)
        for case in self.cases:
            stage(case, Path(tempfile.mkdtemp(dir=folder)))

    @classmethod
    def load(cls, runs: Sequence[Run], spark: SparkSession) -> Self:
        """Return the tables of runs for a notebook; ``run`` holds their names, which must differ.

        Raises:
            StoreError: a run's plan or status is missing or broken.
        """
        cases = [RunFiles.of(run, run.name) for run in runs]
        return cls(Engine(spark), scratch("tables"), cases)

    @cached_property
    def operations(self) -> DataFrame:
        """``harness.runs.history.OPERATIONS`` of every run."""
        return self._read(OPERATIONS_TABLE)

    @property
    def ops(self) -> DataFrame:
        """``operations`` under the name of its file, as ``harness.runs.history.TABLES`` has it."""
        return self.operations

    @cached_property
    def partitions(self) -> DataFrame:
        """``harness.runs.history.PARTITIONS`` of every run."""
        return self._read("events/partitions")

    @cached_property
    def replicas(self) -> DataFrame:
        """``harness.runs.history.REPLICAS`` of every run."""
        return self._read("events/replicas")

    @cached_property
    def faults(self) -> DataFrame:
        """``harness.runs.history.FAULTS`` of every run."""
        return self._read("events/faults")

    @cached_property
    def log_lines(self) -> DataFrame:
        """``harness.runs.history.LOG_LINES`` of every run."""
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
        """The same of the remote tiers' segments; None if there are none."""
        segments = [segment for case in self.cases for segment in case.remote_segments]
        if not kafka_log.about(segments):
            return None
        log = kafka_log.read_segments(self.spark, segments, replica_extents.SOURCE)
        return self.engine.keep(replica_extents.records(log))

    @cached_property
    def ends(self) -> list[replica_extents.LogExtent]:
        """The beginning and the end of each replica's log on disk."""
        return replica_extents.ends(self.spans)

    @cached_property
    def spans(self) -> list[replica_extents.Span]:
        """The leader epochs of each replica's log."""
        return replica_extents.spans(self.log)

    @cached_property
    def controller_logs(self) -> dict[str, list[ControllerLog]]:
        """The metadata log of each KRaft controller, by run."""
        return {case.key: read_logs(case) for case in self.cases}

    @cached_property
    def books(self) -> list[record_outcomes.PartitionLedger]:
        """The ledger of every partition, and how far the final read came in it."""
        return record_outcomes.books(self.view, self.cases)

    @cached_property
    def view(self) -> ClientHistory:
        """The clients' view of the runs."""
        size = sum(case.operations for case in self.cases)
        return ClientHistory(self.engine, self._scan(OPERATIONS_TABLE), size, final_read=True)

    @cached_property
    def client_anomalies(self) -> Rows:
        """The anomalies of clients and of records' outcomes, computed together, once."""
        values = self._last_values
        replaced = None if values is None else values.replaced
        kinds_found = [
            record_outcomes.decided(self.view, self.cases, self.books, replaced),
            *findings(self.view, OF_RUNS),
        ]
        if any(case.plan.workload.transactions for case in self.cases):
            kinds_found += self._of_transactions()
        if (of_groups := undelivered(self.view)) is not None:
            kinds_found.append(of_groups)
        if values is not None:
            kinds_found.append(values.resurrected)
        return without_skips(tell(self.view, kinds_found), self.cases).persist()

    @cached_property
    def _last_values(self) -> LastValues | None:
        return last_values(self.view, self.cases)

    def _of_transactions(self) -> list[Rows]:
        """Return what is wrong with transactions as a whole, in ``findings.FINDING``.

        Compaction removes records of a transaction one by one.
        """
        cases = [case for case in self.cases if not case.compacted]
        runs = {case.key for case in cases}
        books = [book for book in self.books if book.run in runs]
        limits = record_outcomes.limits(self.view.names, cases, books)
        sendings = atomicity.sendings(self.view, limits)
        torn = sendings.by(["deed"], atomicity.torn, FINDING)
        landed = sendings.not_null("there").distinct(["deed"])["deed"]
        of_loops = exactly_once(self.view, landed)
        return [torn] if of_loops is None else [torn, of_loops]

    @cached_property
    def grouped(self) -> frozenset[str]:
        """The runs in which clients have joined groups that the history names."""
        return self.view.grouped

    @cached_property
    def ledgers(self) -> dict[str, dict[str, int]]:
        """The ledger of every run: the fields of ``harness.runs.verdict.Ledger``."""
        counted = self.client_anomalies.counts(["run", "kind"]).to_pylist()
        counts = {(row["run"], row["kind"]): row["count"] for row in counted}
        replaced = {} if self._last_values is None else replaced_of(self.view, self._last_values)
        return record_outcomes.ledger(self.books, counts, replaced)

    def local(self, table: pa.Table) -> DataFrame:
        """Return a small table of this process for Spark to join with."""
        return self.engine.given(table)

    def _read(self, name: str) -> DataFrame:
        scan = self._scan(name)
        return scan.select("run", *(column.name for column in TABLES[name]))

    def _scan(self, name: str) -> DataFrame:
        """Return a table of all runs, with ``run`` and the number ``at`` of each row in its run."""
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
        """Return the files of some runs by their paths or URIs; some may be equal."""
        plain_paths = [re.sub("^file:/+", "/", run) for run in runs.values()]
        files = dict(zip(plain_paths, runs.values(), strict=True))
        ordered = in_order(self.spark.read.schema(schema).parquet(*map(literal, files.values())))
        if len(runs) == 1:
            return ordered.withColumn("run", F.lit(*runs))
        path = F.replace(F.col("_metadata.file_path"), F.lit("+"), F.lit("%2B"))
        path = F.regexp_replace(F.url_decode(path), "^file:/+", "/")
        names = F.broadcast(self.local(pa.table({"path": plain_paths, "run": [*runs]})))
        return ordered.withColumn("path", path).join(names, "path").drop("path")

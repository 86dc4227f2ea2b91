"""The Spark data source ``kafka-log``: every record on every replica's disk, of one run or of many.

    spark.dataSource.register(KafkaLog)
    spark.read.format("kafka-log").load("store/latest")

Arrow batches go to Spark as they are decoded; no row is ever a Python object.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from checkers.log_format import SCHEMA, Segment, read_segment, segments
from harness.errors import UsageError

NAME: Final = "kafka-log"
SPARK_SCHEMA: Final[StructType] = from_arrow_schema(SCHEMA)

TASK_BYTES: Final = 4 << 20
"""What a task reads: longer segments are split between batches, short ones put together."""

Stretch = tuple[Segment, int, int]
"""A segment, and the bytes from and to which it is read."""


class KafkaLog(DataSource):
    """Reads frozen log directories.

    Options:
        path: a run, or its folder ``replicas``; ``load`` takes a list of them as well.
    """

    @classmethod
    def name(cls) -> str:
        """What ``spark.read.format`` calls it."""
        return NAME

    def schema(self) -> StructType:
        """The columns of ``log_format.SCHEMA``."""
        return SPARK_SCHEMA

    def reader(self, schema: StructType) -> "Reader":  # noqa: ARG002 - there is one schema
        """Plan the read of the folders named by the options."""
        paths = json.loads(self.options.get("paths", "[]"))
        if "path" in self.options:
            paths.append(self.options["path"])
        if not paths:
            raise UsageError(
                "kafka-log was told no path", hint='Say .load("store/latest"), or a list of runs.'
            )
        return Reader([Path(path) for path in paths])


class Task(InputPartition):
    """What one Spark task reads."""

    def __init__(self, stretches: list[Stretch]) -> None:
        super().__init__(stretches)
        self.stretches = stretches


class Reader(DataSourceReader):
    """Splits the segments of some runs into tasks of about equal size, and reads them."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = paths

    def partitions(self) -> Sequence[InputPartition]:
        """One task for every ``TASK_BYTES``, at least one."""
        found = [segment for path in self.paths for segment in segments(replicas_of(path))]
        return [Task(stretches) for stretches in plan(found)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one task."""
        assert isinstance(partition, Task)
        for segment, start, stop in partition.stretches:
            yield from read_segment(segment, start=start, stop=stop)


def replicas_of(path: Path) -> Path:
    """The folder ``replicas`` of a run, or the path itself when it is that folder."""
    inside = path / "replicas"
    return inside if inside.is_dir() else path


def plan(found: Sequence[Segment]) -> list[list[Stretch]]:
    """Put the bytes of the segments into tasks of at most ``TASK_BYTES`` each, in order."""
    tasks: list[list[Stretch]] = [[]]
    room = TASK_BYTES
    for segment in found:
        size = _size(segment)
        at = 0
        while True:
            if not room:
                tasks.append([])
                room = TASK_BYTES
            take = min(room, size - at)
            tasks[-1].append((segment, at, at + take))
            room -= take
            at += take
            if at >= size:
                break
    return tasks


def _size(segment: Segment) -> int:
    try:
        return Path(segment.path).stat().st_size
    except OSError:  # read_segment will say so
        return 0


def register(spark: SparkSession) -> None:
    """Make ``kafka-log`` known to a session."""
    spark.dataSource.register(KafkaLog)


def read_log(spark: SparkSession, paths: Iterable[Path]) -> DataFrame:
    """The records of some runs, each named by its folder or by ``replicas`` in it; none: no rows.

    The session must know the source, see ``register``.

    Raises:
        UsageError: one of them is no folder.
    """
    names = []
    for path in paths:
        if not path.is_dir():
            raise UsageError(f"{path} is not a folder", hint="Name a run, or its folder replicas.")
        names.append(str(path.absolute()))
    if not names:
        return spark.createDataFrame([], SPARK_SCHEMA)
    return spark.read.format(NAME).load(names)

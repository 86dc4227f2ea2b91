"""The Spark data source ``kafka-log``: every record on every replica's disk, in one or many runs.

    register(spark)
    spark.read.format("kafka-log").load("store/latest")

Arrow batches are sent to Spark when they are decoded; no row becomes a Python object. Spark's JVM
copies every value of a batch into a row, which takes longer than decoding the segment. So a caller
names the columns that it needs, by ``read_log`` or as a schema:

    spark.read.schema("topic string, offset long").format("kafka-log").load("store/latest")

The judge calls ``read_segments`` instead, because Spark starts three more processes for a data
source in Python.
"""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from highwater.checkers.kafka_files.reader import SCHEMA, read_file, read_segment
from highwater.checkers.kafka_files.segment_files import FILE_BYTES_MAX, Segment, segments
from highwater.checkers.spark.binary_files import contents, whole_files
from highwater.checkers.spark.engine import mapped
from highwater.harness.base.errors import UsageError
from highwater.harness.base.files import open_regular

NAME: Final = "kafka-log"
SPARK_SCHEMA: Final[StructType] = from_arrow_schema(SCHEMA)

TASK_BYTES_MIN: Final = 1 << 20
"""The least number of bytes in a task, because Spark's Python worker needs time to begin a task."""

TASK_BYTES_MAX: Final = 32 << 20
"""The greatest number of compressed bytes in a task. Decompressed, they become one partition."""

HERE_BYTES: Final = 1 << 16
"""The greatest number of bytes that this process reads itself, because Spark's Python worker
starts slowly."""

_DECODED_MAX: Final = 64 << 20
"""The greatest number of decompressed bytes in this process."""

_RECORD_BYTES: Final = 100

FileRange = tuple[Segment, int, int]
"""A segment, with the range of bytes to read."""


class KafkaLog(DataSource):
    """Reads frozen log directories. ``load`` accepts runs, or their folders ``replicas``."""

    @classmethod
    def name(cls) -> str:
        """Return the data source's name for ``spark.read.format``."""
        return NAME

    def schema(self) -> StructType:
        """Return all columns, for a caller that names no columns."""
        return SPARK_SCHEMA

    def reader(self, schema: StructType) -> "SegmentReader":
        """Plan the read: the options name the folders, and the schema names the columns."""
        for field in schema:
            if field.dataType != schema_of([field.name])[0].dataType:
                raise UsageError(
                    f"kafka-log's column {field.name} is not of type "
                    f"{field.dataType.simpleString()}",
                    hint=f"Its type is {SPARK_SCHEMA[field.name].dataType.simpleString()}.",
                )
        paths = json.loads(self.options.get("paths", "[]"))
        if "path" in self.options:
            paths.append(self.options["path"])
        if not paths:
            raise UsageError(
                "kafka-log has no path", hint='Write .load("store/latest"), or a list of runs.'
            )
        return SegmentReader([Path(path) for path in paths], schema.names)


class SegmentReader(DataSourceReader):
    """Splits the segments of some runs into tasks of about equal size."""

    def __init__(self, paths: Sequence[Path], columns: Sequence[str]) -> None:
        self.paths = paths
        self.columns = list(columns)

    def partitions(self) -> Sequence[InputPartition]:
        """Return about one task per core, but no tasks that are very large or very small."""
        all_segments = [segment for path in self.paths for segment in segments(replicas_of(path))]
        tasks = plan(all_segments, cores=os.cpu_count() or 1)
        return [InputPartition(ranges) for ranges in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the records of one task."""
        return _records(partition.value, self.columns)


def _records(ranges: Iterable[FileRange], columns: list[str]) -> Iterator[pa.RecordBatch]:
    for segment, start, stop in ranges:
        for batch in read_segment(segment, start=start, stop=stop):
            yield batch.select(columns)


def replicas_of(path: Path) -> Path:
    """Return the folder ``replicas`` of a run, for the path of the run or of this folder."""
    inside = path / "replicas"
    return inside if inside.is_dir() else path


def about(segments_read: Iterable[Segment]) -> int:
    """Return an estimate of the number of records; 0 only if all segments are empty and local."""
    return -(-sum(map(_size, segments_read)) // _RECORD_BYTES)


def plan(segments_read: Sequence[Segment], *, cores: int) -> list[list[FileRange]]:
    """Divide the bytes of the segments among tasks, in order: about one task per core.

    Long segments are split between batches; short segments share a task.
    """
    sizes = [_size(segment) for segment in segments_read]
    task_bytes = min(max(-(-sum(sizes) // cores), TASK_BYTES_MIN), TASK_BYTES_MAX)
    tasks: list[list[FileRange]] = [[]]
    room = task_bytes
    for segment, size in zip(segments_read, sizes, strict=True):
        at = 0
        while True:
            if not room:
                tasks.append([])
                room = task_bytes
            take = min(room, size - at)
            tasks[-1].append((segment, at, at + take))
            room -= take
            at += take
            if at >= size:
                break
    return tasks


def _size(segment: Segment) -> int:
    """Return how many bytes of a segment must be read.

    A hole (an unwritten part) at the segment's end is reported as damage, but its bytes are not
    read.
    """
    if segment.remote:
        return 1
    try:
        with open_regular(segment.path) as file:
            whole = min(file.seek(0, os.SEEK_END), FILE_BYTES_MAX)
            hole = os.lseek(file.fileno(), 0, os.SEEK_HOLE) if whole else 0
            return whole if _data_behind(file.fileno(), hole) else min(whole, hole + 1)
    except OSError:  # ``read_segment`` reports the error
        return 0


def _data_behind(file: int, hole: int) -> bool:
    try:
        return os.lseek(file, hole, os.SEEK_DATA) >= 0
    except OSError:
        return False


def register(spark: SparkSession) -> None:
    """Register ``kafka-log`` as a data source of a session."""
    spark.dataSource.register(KafkaLog)


def schema_of(columns: Iterable[str]) -> StructType:
    """Return the schema of some columns, in the order given.

    Raises:
        UsageError: there is no such column.
    """
    names = list(columns)
    if unknown := [name for name in names if name not in SPARK_SCHEMA.names]:
        raise UsageError(
            f"kafka-log has no column {', '.join(unknown)}",
            hint=f"It has {', '.join(SPARK_SCHEMA.names)}.",
        )
    return StructType([SPARK_SCHEMA[name] for name in names])


def read_log(
    spark: SparkSession, paths: Iterable[Path], columns: Iterable[str] = SPARK_SCHEMA.names
) -> DataFrame:
    """Return the records of these runs. A path is a run's folder, or its folder ``replicas``.

    Name the ``columns`` that you use: Spark itself does not leave out unused columns.

    Raises:
        UsageError: a path is not a folder, or there is no such column.
    """
    schema = schema_of(columns)
    all_segments: list[Segment] = []
    for path in paths:
        if not path.is_dir():
            raise UsageError(
                f"{path} is not a directory", hint="Name a run, or its directory replicas."
            )
        all_segments += segments(replicas_of(path.absolute()))
    return _read(spark, all_segments, schema)


def read_segments(
    spark: SparkSession, segments_read: Sequence[Segment], columns: Iterable[str]
) -> DataFrame:
    """Return the records of segments on this machine or in a store, with ``run`` and ``broker``.

    The paths must be valid where Spark's tasks run, or be URIs.

    Raises:
        UsageError: there is no such column.
    """
    schema = schema_of(columns)
    there = [segment for segment in segments_read if segment.remote]
    if not there:
        return _read(spark, segments_read, schema)
    log = _read_there(spark, there, schema)
    here = [segment for segment in segments_read if not segment.remote]
    return log.union(_read(spark, here, schema)) if here else log


def _read_there(
    spark: SparkSession, segments_read: Sequence[Segment], schema: StructType
) -> DataFrame:
    """Return the records of segments that only Spark can read, one complete segment at a time."""
    by_path: dict[str, list[Segment]] = {}  # several runs may have the same path
    for segment in segments_read:
        by_path.setdefault(segment.path, []).append(segment)
    names = schema.names

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for path, file in whole_files(batches):
            for segment in by_path[path]:
                yield from (batch.select(names) for batch in read_file(file, segment))

    files = contents(spark, list(by_path))
    return mapped(files, read, _arrow(names))


def _read(spark: SparkSession, segments_read: Sequence[Segment], schema: StructType) -> DataFrame:
    tasks = plan(segments_read, cores=os.cpu_count() or 1)
    names = schema.names
    if sum(map(_size, segments_read)) <= HERE_BYTES and (few := _here(tasks, names)) is not None:
        return spark.createDataFrame(few.combine_chunks())

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from _records(tasks[number], names)

    numbers = spark.range(len(tasks), numPartitions=len(tasks))
    return mapped(numbers, read, _arrow(names))


def _arrow(names: Iterable[str]) -> pa.Schema:
    return pa.schema([SCHEMA.field(name) for name in names])


def _here(tasks: Iterable[list[FileRange]], names: list[str]) -> pa.Table | None:
    batches, size = [], 0
    for batch in _records(chain.from_iterable(tasks), names):
        batches.append(batch)
        size += batch.nbytes
        if size > _DECODED_MAX:
            return None
    return pa.Table.from_batches(batches, _arrow(names))

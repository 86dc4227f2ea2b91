"""The files of a run: the files to judge, and the files that are missing or broken.

Files are judged in place. Only the streams of a run that ended early are copied, up to their last
complete batch. Missing and changed files (``harness.runs.manifest``) are not judged. A replica with
such a segment is not judged.
"""

import contextlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.parquet as pq

from highwater.checkers.kafka_files.checkpoints import (
    HIGH_WATERMARK,
    LOG_START,
    RECOVERY_POINT,
    CheckpointError,
    read_offsets,
)
from highwater.checkers.kafka_files.segment_files import Segment, inside, limited
from highwater.checkers.kafka_files.whole_copies import (
    gap,
    incomplete,
    incomplete_segment,
    metadata_segments,
    missing_begin,
    missing_end,
    missing_metadata,
)
from highwater.checkers.remote_runs import RemoteRun
from highwater.harness.base.errors import StoreError
from highwater.harness.runs import manifest
from highwater.harness.runs.broker_log_dirs import merged_copy
from highwater.harness.runs.history import (
    ADDED,
    OPERATIONS_TABLE,
    QUORUM_TABLE,
    TABLES,
    WHERE_RECORDED,
    completed,
    read_stream,
)
from highwater.harness.runs.plan import Plan, Topic
from highwater.harness.runs.store import MORE_LOG_DIRS, Run, RunStatus, is_table_among
from highwater.harness.runs.topics.remote_tier import remote_partition, remote_segment
from highwater.harness.runs.verdict import UnusedFile

_SCHEMAS: Final = {**TABLES, **WHERE_RECORDED}
_REPLICAS: Final = "events/replicas"
_NAMED_MAX: Final = 5
"""The greatest number of unusable files that a message names. A message counts the others."""


@dataclass(slots=True, kw_only=True)
class RunFiles:
    """One run to judge: its plan, its status, and its missing or damaged files.

    Attributes:
        key: a unique name of the run, in every table's column ``run``.
        unread: missing or damaged files of the run, which are not read.
        unsealed: the number of complete rows in each table that was never finished.
        recorded: the number of rows of each table, if the manifest has it.
        tables: the Parquet file of each table that can be read, by the table's name.
        sealed: the tables whose Parquet files are copies of streams, on this machine only.
        operations: the number of rows in the history to judge.
        replicas: the folders of the topic's replicas on all brokers that are compared.
        metadata_logs: the folder of each KRaft controller's metadata log, by node id.
        merged: a copy of ``replicas``, if the run ended early and brokers had several log
            directories; None if the replicas are in the run's own directory.
    """

    key: str
    run: Run
    plan: Plan
    status: RunStatus
    unread: list[UnusedFile] = field(default_factory=list)
    unsealed: dict[str, int] = field(default_factory=dict)
    recorded: dict[str, int] = field(default_factory=dict)
    tables: dict[str, Path] = field(default_factory=dict)
    sealed: set[str] = field(default_factory=set)
    operations: int = 0
    replicas: list[Path] = field(default_factory=list)
    metadata_logs: dict[int, Path] = field(default_factory=dict)
    merged: Path | None = None

    @classmethod
    def of(cls, run: Run, key: str) -> Self:
        """Return a run to judge: read its small files, and verify all files that are judged.

        Raises:
            StoreError: the run's plan or status is missing, broken, or differs from the manifest.
        """
        plan, status = run.plan(), run.status()
        digests = run.digests if isinstance(run, RemoteRun) else {}
        unread = list(manifest.verify(run, digests))
        if wrong := next((unused for unused in unread if unused.path == "plan.json"), None):
            raise StoreError(f"{run.path / wrong.path} {wrong.why}")
        recorded = manifest.rows(run)
        return cls(key=key, run=run, plan=plan, status=status, unread=unread, recorded=recorded)

    def afresh(self) -> Self:
        """Return the same run as before ``stage``, so that ``stage`` can be called again."""
        return replace(
            self,
            unread=list(self.unread),
            unsealed={},
            tables={},
            sealed=set(),
            replicas=[],
            metadata_logs={},
            merged=None,
        )

    @property
    def log_directories(self) -> Path:
        """The folder with one subfolder for each broker, with its replicas and checkpoints."""
        return self.merged or self.run.replicas

    @property
    def listed(self) -> bool:
        """True if the run has an intact manifest, which lists all of its files."""
        broken = any(unused.path == manifest.NAME for unused in self.unread)
        return bool(self.status.manifest) and not broken

    @property
    def cut(self) -> str:
        """The phase in which the run ended early; empty if it ended normally."""
        return "" if self.status.phase == "frozen" else self.status.phase

    @property
    def reasons(self) -> list[str]:
        """The reasons why the run cannot be judged completely, one sentence each."""
        reasons = []
        if self.cut:
            reasons = [f"The run ended early, in its phase {self.cut}. Its files were judged."]
        reasons += [unused.says for unused in self.unread[:_NAMED_MAX]]
        if (more := len(self.unread) - _NAMED_MAX) > 0:
            reasons.append(f"{more:,} more files of the run are missing or damaged.")
        if self.unsealed:
            tables = ", ".join(f"{name} ({rows:,} rows)" for name, rows in self.unsealed.items())
            reasons.append(
                f"Unfinished tables were judged up to their last complete batch: {tables}."
            )
        return reasons

    def lacks(self, name: str) -> bool:
        """Return True if a table of the run is missing or changed."""
        return is_table_among(name, [unused.path for unused in self.unread])

    def rows(self, name: str, columns: list[str] | None = None) -> list[dict[str, Any]]:
        """Return the rows of a small table, sorted by ``time_ns`` if they have this column.

        A run without this table gives no rows.
        """
        if name not in self.tables:
            return []
        table = pq.read_table(self.tables[name], columns=columns)
        if "time_ns" in table.column_names:
            table = table.sort_by("time_ns")
        rows: list[dict[str, Any]] = table.to_pylist()
        return rows

    @property
    def compacted(self) -> bool:
        """True if Kafka may remove records from the middle of this run's topic."""
        return self.plan.topic.compacted

    @property
    def copyless(self) -> bool:
        """True if no disk was copied: an external cluster has no command, or the run only reads."""
        outside = self.plan.external
        return outside is not None and ("copy" not in outside.commands or bool(self.plan.read_only))

    @property
    def broken(self) -> frozenset[Path]:
        """The paths of missing or damaged files and replicas."""
        return frozenset(self.run.path / unused.path for unused in self.unread)

    @property
    def committed(self) -> dict[int, int]:
        """The offset up to which each controller's metadata log must have records, by node id."""
        rows = self.rows(QUORUM_TABLE, ["time_ns", "node", "leo", "hw"])
        watermark = max((row["hw"] for row in rows), default=0)
        # A node's last LEO is used, because a fault may have emptied its disk earlier.
        ends = {row["node"]: row["leo"] for row in rows}
        return {node: min(watermark, end) for node, end in ends.items()}

    @property
    def segments(self) -> list[Segment]:
        """The segments of the replicas that are compared.

        The ``run`` of these segments is this run's ``key``.
        """
        return limited(
            [
                replace(
                    segment,
                    run=self.key,
                    path=self.uri_of(Path(segment.path)) or segment.path,
                    named_by_keys=self.plan.named_by_keys and segment.topic == self.plan.topic.name,
                )
                for folder in self.replicas
                for segment in inside(folder)
            ]
        )

    @property
    def remote_segments(self) -> list[Segment]:
        """The segments in the topic's remote tier, as replicas of the brokers -1, -2, ….

        Each segment is a separate replica, because several leaders may have copied the same
        offsets.
        """
        topic, broken = self.plan.topic.name, self.broken
        files = [
            (file, partition, base)
            for folder in sorted(self.run.remote_tier.glob("*/"))
            if (partition := remote_partition(folder.name, topic)) is not None
            for file in sorted(folder.iterdir())
            if (base := remote_segment(file.name)) is not None
            if not broken & {file, folder, self.run.remote_tier}
        ]
        return [
            Segment(
                path=str(file),
                run=self.key,
                broker=-number,
                topic=topic,
                partition=partition,
                base_offset=base,
            )
            for number, (file, partition, base) in enumerate(files, 1)
        ]

    def source(self, name: str) -> str:
        """Return the path or URI from which Spark reads a table that is not in ``sealed``."""
        return self.uri_of(self.run.parquet(name)) or str(self.tables[name])

    def uri_of(self, path: Path) -> str:
        """Return the URI of a file in a remote run; empty for a run on this machine."""
        return self.run.uri_of(path) if isinstance(self.run, RemoteRun) else ""


def stage(case: RunFiles, folder: Path) -> None:
    """Find a run's readable files, copy streams into ``folder``, and record unreadable files."""
    for name in TABLES:
        if not case.lacks(name):
            _stage_table(case, name, folder / f"{name.replace('/', '-')}.parquet")
    for name in WHERE_RECORDED:
        there = os.path.lexists(case.run.parquet(name)) or case.run.unsealed(name)
        if there and not case.lacks(name):
            _stage_table(case, name, folder / f"{name.replace('/', '-')}.parquet")
    _merge_log_dirs(case, folder / "replicas")
    _stage_replicas(case)
    _stage_remote_tier(case)
    _stage_metadata_logs(case)


def _stage_table(case: RunFiles, name: str, part: Path) -> None:
    parquet, stream = case.run.parquet(name), case.run.stream(name)
    which = stream if case.run.unsealed(name) else parquet
    path = which.relative_to(case.run.path).as_posix()
    try:
        if which is stream:
            case.unsealed[name] = _copy_stream(stream, part, name)
            case.sealed.add(name)
            case.tables[name] = part
        elif why := _unusable(pq.read_metadata(parquet), _SCHEMAS[name], case.recorded.get(name)):
            case.unread.append(UnusedFile(path=path, why=why))
        else:
            case.tables[name] = parquet.resolve()
        if name == OPERATIONS_TABLE and name in case.tables:
            case.operations = pq.read_metadata(case.tables[name]).num_rows
    except FileNotFoundError:
        case.unread.append(UnusedFile(path=path, why="is missing"))
    except (OSError, pa.ArrowException) as error:
        part.unlink(missing_ok=True)
        case.unread.append(UnusedFile(path=path, why=f"cannot be read: {_words(error)}"))


def _words(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    line = str(error).partition("\n")[0].rstrip(".")
    return re.sub(r"(Could not open Parquet input source )?'?<Buffer>'?: ", "", line)


def _unusable(data: pq.FileMetaData, schema: pa.Schema, recorded: int | None) -> str:
    if missing := _missing_columns(data.schema.to_arrow_schema(), schema):
        return f"has no usable column {missing}"
    if recorded is not None and data.num_rows != recorded:
        return f"has {data.num_rows:,} of the {recorded:,} rows that were recorded"
    return ""


def _missing_columns(schema: pa.Schema, required: pa.Schema) -> str:
    """Return the names of missing columns and of columns of a wrong type, as text.

    Dictionary encoding does not matter. A column that a later release of Highwater added may be
    missing: Spark reads it as null.
    """
    return ", ".join(
        column.name
        for column in required
        if (
            column.name not in ADDED
            if column.name not in schema.names
            else plain(schema.field(column.name).type) != plain(column.type)
        )
    )


def plain(kind: pa.DataType) -> pa.DataType:
    """Return the type of a column's values without its dictionary encoding."""
    if pa.types.is_dictionary(kind):
        return plain(kind.value_type)
    if pa.types.is_list(kind):
        return pa.list_(kind.value_type)  # the name of a list's element does not matter
    return kind


def _copy_stream(stream: Path, part: Path, name: str) -> int:
    table = _SCHEMAS[name]
    rows = 0
    with pq.ParquetWriter(part, table) as writer:
        for batch in read_stream(stream):
            writer.write_table(completed(pa.Table.from_batches([batch]), table))
            rows += batch.num_rows
    return rows


def _merge_log_dirs(case: RunFiles, folder: Path) -> None:
    """Merge each broker's log directories into one copy, if the harness was killed before this."""
    more = case.run.path / MORE_LOG_DIRS
    if not more.is_dir() or not case.run.replicas.is_dir():
        return
    try:
        merged_copy(case.run.replicas, _replica_names(case.plan.topic), folder)
        case.merged = folder
    except OSError as error:
        why = f"cannot be read: {_words(error)}"
        case.unread.append(UnusedFile(path=f"{MORE_LOG_DIRS}/", why=why))


def _replica_names(topic: Topic) -> set[str]:
    return {f"{topic.name}-{number}" for number in range(topic.partitions)}


def _stage_replicas(case: RunFiles) -> None:
    source = case.log_directories
    if not source.is_dir():
        if not case.copyless:
            why = "is missing: no disk was compared"
            case.unread = [unused for unused in case.unread if not _inside(unused.path, "replicas")]
            case.unread.insert(0, UnusedFile(path="replicas/", why=why))
        return
    topic = case.plan.topic
    names = _replica_names(topic)
    unread = [unused.path for unused in case.unread if not unused.path.endswith("-checkpoint")]
    folders = sorted(path for path in source.glob("*/*/") if path.name in names)
    answered = _answered(case)
    for folder in folders:
        path = f"replicas/{folder.relative_to(source).as_posix()}"
        if any(_inside(path_unread, path) for path_unread in unread):
            continue
        if why := "" if isinstance(case.run, RemoteRun) else _missing(case, folder, answered):
            case.unread.append(UnusedFile(path=path, why=why))
        else:
            case.replicas.append(folder)
    planned = topic.partitions * topic.replication_factor
    if len(folders) < planned:
        why = f"holds {len(folders)} of the {planned} replicas of {topic.name}"
        why += ": the others were not compared"
        case.unread.insert(0, UnusedFile(path="replicas/", why=why))


def _missing(case: RunFiles, folder: Path, answered: Mapping[tuple[str, str], int]) -> str:
    """Return a text about the missing parts of a replica's directory; empty if nothing is missing.

    If all files of the manifest exist, the copy is complete: then the broker itself lost the
    records. If the replicas were not in sync at the end, the end of a log is not checked: the
    broker may have truncated the log just before the copy.
    """
    segments = limited(inside(folder))
    if (why := incomplete(folder, segments)) or case.listed:
        return why
    reached = _checkpoints(case, folder)
    begin = "" if case.plan.tiered else missing_begin(folder, segments, reached.get(LOG_START))
    if why := begin or gap(segments, compacted=case.compacted):
        return why
    if not case.status.quiesced:
        return ""
    broker = folder.parent.name
    reached[f"the last response of broker {broker}"] = answered.get((broker, folder.name), 0)
    return missing_end(folder, segments, reached)


def _stage_remote_tier(case: RunFiles) -> None:
    """Exclude segments of the remote tier whose copies are incomplete."""
    if case.listed or not case.plan.tiered or isinstance(case.run, RemoteRun):
        return
    unread = {segment.path: incomplete_segment(segment) for segment in case.remote_segments}
    if not case.run.remote_tier.is_dir() and any(
        segments[0].base_offset for folder in case.replicas if (segments := limited(inside(folder)))
    ):
        unread[str(case.run.remote_tier)] = "is missing: the oldest records were not compared"
    case.unread += [
        UnusedFile(path=Path(path).relative_to(case.run.path).as_posix(), why=why)
        for path, why in unread.items()
        if why
    ]


def _answered(case: RunFiles) -> dict[tuple[str, str], int]:
    if case.listed:
        return {}
    columns = ["time_ns", "broker", "topic", "partition", "leo"]
    return {
        (str(row["broker"]), f"{row['topic']}-{row['partition']}"): row["leo"]
        for row in case.rows(_REPLICAS, columns)
        if row["leo"] is not None
    }


def _checkpoints(case: RunFiles, folder: Path) -> dict[str, int]:
    """Return a replica's offset in each of its broker's checkpoint files, by file name."""
    partition = case.plan.topic.name, int(folder.name.rpartition("-")[2])
    reached: dict[str, int] = {}
    for name in (HIGH_WATERMARK, RECOVERY_POINT, LOG_START):
        path = folder.parent / name
        with contextlib.suppress(CheckpointError):
            if path not in case.broken and os.path.lexists(path):
                offsets = read_offsets(path)
                reached |= {name: offsets[partition]} if partition in offsets else {}
    return reached


def _stage_metadata_logs(case: RunFiles) -> None:
    """Use the metadata logs of all controllers, or of no controller.

    If one log is missing, no checker can decide which records are on a majority.
    """
    folders = manifest.metadata_logs(case.run)
    paths = {folder.relative_to(case.run.path).as_posix(): folder for folder in folders.values()}
    unread = [
        UnusedFile(path=path, why=why)
        for controller, (path, folder) in zip(folders, paths.items(), strict=True)
        if not case.listed and not isinstance(case.run, RemoteRun)
        if (why := _missing_metadata(case, controller, folder))
    ]
    if why := _missing_controllers(case, folders):
        unread.append(UnusedFile(path="coordination/", why=why))
    if not any(_inside(unused.path, path) for unused in case.unread for path in paths):
        case.metadata_logs = {} if unread else folders
    case.unread += unread


def _missing_controllers(case: RunFiles, folders: Mapping[int, Path]) -> str:
    """Return a text about the controllers without a metadata log; empty if all have one.

    The quorum's table lists the voters. Without this table, only the planned number of controllers
    is known.
    """
    outside = case.plan.external is not None or isinstance(case.run, RemoteRun)
    if case.listed or outside:
        return ""
    voters = {row["node"] for row in case.rows(QUORUM_TABLE, ["node", "voter"]) if row["voter"]}
    if lacking := sorted(voters - folders.keys()):
        return f"lacks the metadata log of controller {', '.join(map(str, lacking))}"
    planned = case.plan.controllers
    if 0 < len(folders) < planned:
        return f"holds the metadata logs of {len(folders)} of the {planned} controllers"
    return ""


def _missing_metadata(case: RunFiles, controller: int, folder: Path) -> str:
    """Return a text about the missing parts of a controller's log; empty if it is complete."""
    segments = metadata_segments(case.key, controller, folder)
    committed = case.committed
    if why := incomplete(folder, segments) or missing_metadata(
        folder, segments, committed.get(controller, 0)
    ):
        return why
    return (
        ""
        if controller in committed
        else (f"may be incomplete: {QUORUM_TABLE} has no log end offset of this controller")
    )


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")

"""Lays the files of runs out as Spark reads them, and notes what is missing or broken.

``<staging>/<table>/run=<key>/part.parquet``: sealed Parquet is linked there, and the stream of a
run that was cut short is copied up to its last whole batch.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import pyarrow as pa
import pyarrow.parquet as pq

from harness.history import ADDED, TABLES, read_stream
from harness.plan import Plan
from harness.store import Run, Status


@dataclass(slots=True, kw_only=True)
class Case:
    """One run to judge: what it was asked to do, how far it came, and what is wrong with its files.

    Attributes:
        key: names the run in every table's ``run`` column; unlike a directory's name it is unique.
        reasons: why the run cannot be judged as a whole, a sentence each.
    """

    key: str
    run: Run
    plan: Plan
    status: Status
    reasons: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, run: Run, key: str) -> Self:
        """Read a run's small files. Raises StoreError when they are missing or broken."""
        return cls(key=key, run=run, plan=run.plan(), status=run.status())

    @property
    def compacted(self) -> bool:
        """Whether Kafka may remove records from the middle of this run's topic."""
        return "compact" in self.plan.topic.config.get("cleanup.policy", "")

    @property
    def copyless(self) -> bool:
        """Whether its cluster was somebody else's, who has no command to copy disks."""
        outside = self.plan.external
        return outside is not None and "copy" not in outside.commands

    @property
    def replica_folders(self) -> list[Path]:
        """The folders of the topic's replicas, of every broker."""
        topic = self.plan.topic
        names = [f"{topic.name}-{partition}" for partition in range(topic.partitions)]
        brokers = sorted(self.run.replicas.iterdir()) if self.run.replicas.is_dir() else []
        return [broker / name for broker in brokers for name in names if (broker / name).is_dir()]


def stage(case: Case, staging: Path) -> None:
    """Make a run's tables readable below ``staging``; ``case.reasons`` tells what could not be."""
    if case.status.phase != "frozen":
        case.reasons.append(
            f"The run was cut short in its phase {case.status.phase}: what it left was judged."
        )
    for name in TABLES:
        folder = staging / name / f"run={case.key}"
        folder.mkdir(parents=True)
        if reason := _stage_table(case.run.path, name, folder / "part.parquet"):
            case.reasons.append(reason)
    _stage_replicas(case, staging)


def staged(staging: Path, name: str, key: str) -> Path:
    """Where one run's table was staged; no such file when it could not be."""
    return staging / name / f"run={key}" / "part.parquet"


def _stage_table(run: Path, name: str, part: Path) -> str | None:
    parquet, stream = run / f"{name}.parquet", run / f"{name}.arrows"
    try:
        if parquet.exists():
            found = pq.read_schema(parquet)
            if missing := _missing_columns(found, TABLES[name]):
                return f"{name}.parquet has no usable column {missing}."
            part.symlink_to(parquet.resolve())
            return None
        if not stream.exists():
            return f"{name}.parquet is missing."
        return _copy_stream(stream, part, name)
    except (OSError, pa.ArrowException) as error:
        part.unlink(missing_ok=True)
        which = parquet if parquet.exists() else stream
        return f"{name}{which.suffix} cannot be read: {str(error).splitlines()[0].rstrip('.')}."


def _missing_columns(found: pa.Schema, wanted: pa.Schema) -> str:
    """The columns that are not there or of another type; dictionaries count as what they hold.

    A column that later releases added is null in an older run, which Spark reads as that.
    """
    return ", ".join(
        column.name
        for column in wanted
        if (
            column.name not in ADDED
            if column.name not in found.names
            else plain(found.field(column.name).type) != plain(column.type)
        )
    )


def plain(kind: pa.DataType) -> pa.DataType:
    """The type that a column's values have, dictionary or not."""
    if pa.types.is_dictionary(kind):
        return plain(kind.value_type)
    if pa.types.is_list(kind):
        return pa.list_(kind.value_type)  # whatever its element is called
    return kind


def _copy_stream(stream: Path, part: Path, name: str) -> str:
    wanted = TABLES[name]
    rows = 0
    with pq.ParquetWriter(part, wanted) as writer:
        for batch in read_stream(stream):
            writer.write_batch(batch)
            rows += batch.num_rows
    return f"{name} was not sealed: its {rows} rows up to the last whole batch were judged."


def _stage_replicas(case: Case, staging: Path) -> None:
    folder = staging / "log" / case.key
    folder.mkdir(parents=True)
    if not case.run.replicas.is_dir():
        (folder / "replicas").mkdir()
        if case.copyless:
            return
        case.reasons.append("replicas/ is missing: no disk was compared.")
        return
    (folder / "replicas").symlink_to(case.run.replicas.resolve(), target_is_directory=True)
    topic = case.plan.topic
    wanted = topic.partitions * topic.replication_factor
    found = len(case.replica_folders)
    if found < wanted:
        case.reasons.append(
            f"replicas/ holds {found} of the {wanted} replicas of {topic.name}:"
            " the others were not compared."
        )

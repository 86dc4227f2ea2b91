"""Lays the files of runs out as Spark reads them, and notes what is missing or broken.

``<staging>/<table>/run=<key>/part.parquet``: sealed Parquet is linked there, and the stream of a
run that was cut short is copied up to its last whole batch. ``<staging>/log/<key>/replicas``: the
replicas' segments and checkpoint files are linked there. What is no evidence
(``harness.manifest``) is not staged, and of a replica without all of its segments nothing is.
"""

import os
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Self

import pyarrow as pa
import pyarrow.parquet as pq

from harness import manifest
from harness.errors import StoreError
from harness.history import ADDED, OPERATIONS_TABLE, TABLES, read_stream
from harness.plan import Plan
from harness.store import Run, Status
from harness.verdict import Unread

_NAMED_MAX: Final = 5
"""Files that are no evidence and are named in the reasons; the others are counted."""


@dataclass(slots=True, kw_only=True)
class Case:
    """One run to judge: what it was asked to do, how far it came, and what is wrong with its files.

    Attributes:
        key: names the run in every table's ``run`` column; unlike a directory's name it is unique.
        replicas: where the replicas that are compared are staged; None before ``stage``.
        unread: what of the run is no evidence, and is not staged.
        unsealed: tables that were never finished, and how many rows of each are whole.
        recorded: table to how many of its rows were recorded, as far as the run says so.
        operations: how many rows of the history were staged.
    """

    key: str
    run: Run
    plan: Plan
    status: Status
    replicas: Path | None = None
    unread: list[Unread] = field(default_factory=list)
    unsealed: dict[str, int] = field(default_factory=dict)
    recorded: dict[str, int] = field(default_factory=dict)
    operations: int = 0

    @classmethod
    def of(cls, run: Run, key: str) -> Self:
        """Read a run's small files, and verify all that are judged.

        Raises:
            StoreError: its plan or status is missing, broken, or not what was recorded.
        """
        plan, status = run.plan(), run.status()
        unread = list(manifest.verify(run))
        if wrong := next((one for one in unread if one.path == "plan.json"), None):
            raise StoreError(f"{run.path / wrong.path} {wrong.why}")
        recorded = manifest.rows(run)
        return cls(key=key, run=run, plan=plan, status=status, unread=unread, recorded=recorded)

    def afresh(self) -> Self:
        """The same run, to be staged once more."""
        return replace(self, replicas=None, unread=list(self.unread), unsealed={})

    @property
    def cut(self) -> str:
        """The phase in which the run was cut short; empty when it ended."""
        return "" if self.status.phase == "frozen" else self.status.phase

    @property
    def reasons(self) -> list[str]:
        """Why the run cannot be judged as a whole, a sentence each."""
        found = []
        if self.cut:
            phase = self.cut
            found = [f"The run was cut short in its phase {phase}: what it left was judged."]
        found += [each.says for each in self.unread[:_NAMED_MAX]]
        if (more := len(self.unread) - _NAMED_MAX) > 0:
            found.append(f"{more:,} more files of the run are no evidence either.")
        if self.unsealed:
            names = [f"{name} {rows:,}" for name, rows in self.unsealed.items()]
            first = f"{names[0]} rows up to the last whole batch"
            what = ", ".join([first, *names[1:]])
            found.append(f"Tables that were never finished were judged: {what}.")
        return found

    def lacks(self, name: str) -> bool:
        """Whether a table of the run is no evidence."""
        return any(each.path.rpartition(".")[0] == name for each in self.unread)

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
        """The folders of the topic's replicas, of every broker, as far as they were staged."""
        return [] if self.replicas is None else sorted(self.replicas.glob("*/*/"))


def stage(case: Case, staging: Path) -> None:
    """Make a run's files readable below ``staging``; ``case.reasons`` tells what could not be."""
    for name in TABLES:
        folder = staging / name / f"run={case.key}"
        folder.mkdir(parents=True)
        if not case.lacks(name):
            _stage_table(case, name, folder / "part.parquet")
    _stage_replicas(case, staging / "log" / case.key / "replicas")


def staged(staging: Path, name: str, key: str) -> Path:
    """Where one run's table was staged; no such file when it could not be."""
    return staging / name / f"run={key}" / "part.parquet"


def _stage_table(case: Case, name: str, part: Path) -> None:
    parquet, stream = case.run.parquet(name), case.run.stream(name)
    which = stream if case.run.unsealed(name) else parquet
    path = which.relative_to(case.run.path).as_posix()
    try:
        if which is stream:
            case.unsealed[name] = _copy_stream(stream, part, name)
        elif why := _unusable(pq.read_metadata(parquet), TABLES[name], case.recorded.get(name)):
            case.unread.append(Unread(path=path, why=why))
        else:
            part.symlink_to(parquet.resolve())
        if name == OPERATIONS_TABLE and part.exists():
            case.operations = pq.read_metadata(part).num_rows
    except FileNotFoundError:
        case.unread.append(Unread(path=path, why="is missing"))
    except (OSError, pa.ArrowException) as error:
        part.unlink(missing_ok=True)
        case.unread.append(Unread(path=path, why=f"cannot be read: {_words(error)}"))


def _words(error: Exception) -> str:
    """The system's word, or the first line of Arrow's without the names of its own classes."""
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    line = str(error).partition("\n")[0].rstrip(".")
    return re.sub(r"(Could not open Parquet input source )?'?<Buffer>'?: ", "", line)


def _unusable(found: pq.FileMetaData, wanted: pa.Schema, recorded: int | None) -> str:
    """Why a table is no evidence, the end of a sentence; empty where it is."""
    if missing := _missing_columns(found.schema.to_arrow_schema(), wanted):
        return f"has no usable column {missing}"
    if recorded is not None and found.num_rows != recorded:
        return f"has {found.num_rows:,} of the {recorded:,} rows that were recorded"
    return ""


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


def _copy_stream(stream: Path, part: Path, name: str) -> int:
    wanted = TABLES[name]
    rows = 0
    with pq.ParquetWriter(part, wanted) as writer:
        for batch in read_stream(stream):
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows


def _stage_replicas(case: Case, target: Path) -> None:
    target.mkdir(parents=True)
    case.replicas = target
    source = case.run.replicas
    if not source.is_dir():
        if not case.copyless:
            why = "is missing: no disk was compared"
            case.unread = [each for each in case.unread if not _inside(each.path, "replicas")]
            case.unread.insert(0, Unread(path="replicas/", why=why))
        return
    topic = case.plan.topic
    names = {f"{topic.name}-{number}" for number in range(topic.partitions)}
    unread = {each.path for each in case.unread}
    found = 0
    for folder in sorted(path for path in source.glob("*/*/") if path.name in names):
        path = folder.relative_to(case.run.path).as_posix()
        found += 1
        if not any(_inside(each, path) and not each.endswith("-checkpoint") for each in unread):
            _link(folder, target / folder.parent.name / folder.name, unread, path)
    for broker in sorted(target.iterdir()):
        home = source / broker.name
        _link(home, broker, unread, f"replicas/{broker.name}")
    wanted = topic.partitions * topic.replication_factor
    if found < wanted:
        why = (
            f"holds {found} of the {wanted} replicas of {topic.name}: the others were not compared"
        )
        case.unread.insert(0, Unread(path="replicas/", why=why))


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _link(source: Path, target: Path, unread: set[str], path: str) -> None:
    """Link the files of a folder into another, but for those that are no evidence."""
    target.mkdir(parents=True, exist_ok=True)
    for file in source.iterdir():
        if file.is_file() and f"{path}/{file.name}" not in unread:
            (target / file.name).symlink_to(file.resolve())

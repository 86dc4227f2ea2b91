"""The store: a folder of runs. A run is a directory, and can be judged again.

store/<run>/
  plan.json  environment.json  status.json     all settings; the machine; the progress
  history/   ops.arrows while running -> ops.parquet
  events/    partitions, replicas, faults, steps, log_lines, decisions, quorum (in the same way)
  steps.json                                   the steps of its schedule, for a repetition
  manifest.json                                each judged file, and the rows of each table
  replicas/<broker>/<topic>-<partition>/…      frozen log directories, with the checkpoint files
  kafka-tiered-storage/<topic>-<partition>-<id>/…  the remote tier, if there is one
  coordination/controller*/__cluster_metadata-0/…  each KRaft controller's metadata log
  logs/      broker and controller logs
  analysis/  verdict.json  anomalies.parquet
  report.html
store/latest -> the last run
"""

import os
import re
import secrets
import shutil
from collections.abc import Iterable
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeVar

import msgspec

from highwater.harness.base.errors import NotThereError, StoreError, UsageError
from highwater.harness.base.files import is_file, open_regular, read_regular, write_whole
from highwater.harness.runs.missed_step import MissedStep
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.verdict import Verdict

if TYPE_CHECKING:
    import pyarrow as pa

Phase = Literal["booting", "running", "healing", "reading", "frozen"]
METADATA_LOG: Final = "__cluster_metadata-0"
"""The folder of the metadata log in a KRaft node's log directory."""

LONE_CONTROLLER: Final = 100
"""The node id of a KRaft controller that is the only controller."""

COORDINATOR_TOPICS: Final = ("__transaction_state", "__consumer_offsets", "__share_group_state")
"""Topics whose partition leaders are the coordinators of transactions, of groups and of share
groups."""

MORE_LOG_DIRS: Final = "log-dirs"
"""A cluster's folder with the brokers' additional log directories: ``<broker id>/<number>``."""

REMOTE_TIER: Final = "kafka-tiered-storage"
"""The run's folder with the remote tier. LocalTieredStorage uses this name."""

COORDINATORS_FOLDER: Final = "coordinator-topics"
"""The run's folder with the replicas of ``COORDINATOR_TOPICS``."""

_CONTROLLER: Final = re.compile(r"controller(-(?P<id>\d+))?")
_T = TypeVar("_T", bound=msgspec.Struct)
_WHAT_MOST: Final = 60
"""The greatest length of the fault names in a run's name. File names have at most 255
characters."""


class StandingEnd(msgspec.Struct, frozen=True, kw_only=True):
    """A partition in which the final read ended at the last stable offset, before the fence record.

    Attributes:
        lso: the last stable offset, before which read_committed readers stop.
        fence: offset of the fence record, which every in-sync replica has.
        seconds: time for which the reader had waited at the last stable offset.
    """

    partition: int
    lso: int
    fence: int
    seconds: float


class RunStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a run. The file is written again in every phase.

    Attributes:
        phase: the last phase that began. Only a run in phase ``frozen`` is complete.
        quiesced: whether every replica was back in the ISR before the final read.
        problems: sentences about actions of the harness that failed.
        seconds: time from the run's creation to its last phase.
        manifest: SHA-256 of ``manifest.json`` (``harness.runs.manifest``). Empty during the run,
            and in old runs without a manifest.
        missed: the step of a model's schedule that brokers did not follow.
        standing: partitions in which an open transaction ended the final read.
        clock_step_s: seconds by which this machine's wall clock was moved during the run. If it was
            moved, the times of brokers' log lines are not known, so the run has no log lines.
    """

    phase: Phase
    quiesced: bool = False
    problems: tuple[str, ...] = ()
    seconds: float = 0.0
    manifest: str = ""
    missed: MissedStep | None = None
    standing: tuple[StandingEnd, ...] = ()
    clock_step_s: float = 0.0


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """The software, machine and addresses that a run used.

    Attributes:
        started_at_ns: wall clock at time 0 of the history, nanoseconds since the epoch.
        addresses: broker id to ``host:port``.
        coordination: the system that keeps the cluster's metadata: zookeeper or kraft.
        truncation: a sentence about the truncation of a new follower's log on this release.
        levels: broker id to the broker's jars, protocol and message format at the start.
        digests: jar name to sha256.
        libraries: client drivers' libraries, such as ``franz-go 1.22.3``.
    """

    started_at_ns: int
    highwater: str
    python: str
    platform: str
    java: str
    addresses: dict[int, str]
    coordination: str = ""
    truncation: str = ""
    levels: dict[int, str] = {}
    digests: dict[str, str] = {}
    packages: dict[str, str] = {}
    git_commit: str | None = None
    libraries: tuple[str, ...] = ()


def is_table_among(name: str, paths: Iterable[str]) -> bool:
    """Return whether a run's files include a table, as a stream or as Parquet."""
    return any(path.rpartition(".")[0] == name for path in paths)


class Run:
    """One run directory: the paths of its files, and its small JSON files as values.

    Methods raise ``StoreError`` if their file is missing, is broken or has another schema.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def name(self) -> str:
        """The run's name, which is the name of its directory."""
        return self.path.name

    @property
    def replicas(self) -> Path:
        """Log directories as they were at the run's end, one folder for each broker id."""
        return self.path / "replicas"

    @property
    def coordinators(self) -> Path:
        """Copies of the coordinators' topics at the run's end, if every broker had replicas."""
        return self.path / COORDINATORS_FOLDER

    @property
    def remote_tier(self) -> Path:
        """The remote tier: a folder ``<topic>-<partition>-<topic id>`` for each partition."""
        return self.path / REMOTE_TIER

    @property
    def disks_here(self) -> bool:
        """True if the replicas' files can be read at ``replicas``; False only for a remote run."""
        return True

    @property
    def metadata_logs(self) -> dict[int, Path]:
        """Node id to the folder of the KRaft controller's metadata log, if the folder exists.

        A single controller has no id in its folder's name.
        """
        folders = sorted((self.path / "coordination").glob(f"controller*/{METADATA_LOG}/"))
        names = ((_CONTROLLER.fullmatch(folder.parent.name), folder) for folder in folders)
        return {int(name["id"] or LONE_CONTROLLER): folder for name, folder in names if name}

    @property
    def logs(self) -> Path:
        """Broker and controller logs."""
        return self.path / "logs"

    @property
    def analysis(self) -> Path:
        """The folder into which the judge writes."""
        return self.path / "analysis"

    @property
    def anomalies(self) -> Path:
        """The file of all anomalies, with the columns of ``checkers.core.anomaly.SCHEMA``."""
        return self.analysis / "anomalies.parquet"

    @property
    def report(self) -> Path:
        """The HTML report."""
        return self.path / "report.html"

    def stream(self, table: str) -> Path:
        """Return the path of a table's stream, to which rows are appended during the run."""
        return self.path / f"{table}.arrows"

    def parquet(self, table: str) -> Path:
        """Return the path of a table of ``TABLES`` after the run has ended."""
        return self.path / f"{table}.parquet"

    def unsealed(self, table: str) -> bool:
        """Return whether a table is still a stream, and not Parquet: the run has not ended."""
        return os.path.lexists(self.stream(table)) and not os.path.lexists(self.parquet(table))

    def table(self, name: str) -> "pa.Table":
        """Return a table of ``TABLES`` from its Parquet file, or from its stream."""
        from highwater.harness.runs.history import read_table  # noqa: PLC0415 - for Arrow, which the base lacks

        try:
            file = self.parquet(name) if self.parquet(name).exists() else self.stream(name)
            open_regular(file).close()  # refuses a pipe, for which PyArrow would wait
            return read_table(file, name)
        except (OSError, ValueError) as error:  # an ArrowInvalid is a ValueError
            raise StoreError(f"{self.path} has no readable {name}: {error}") from error

    def judged_bytes(self) -> int:
        """Return the size in bytes of the history, the replicas and the remote tier."""
        places = (self.replicas, self.remote_tier, self.parquet("history/ops").parent)
        walks = (walk for place in places for walk in os.walk(place))
        files = (Path(home, name) for home, _, names in walks for name in names)
        return sum(file.stat().st_size for file in files if is_file(file))

    def seal(self) -> None:
        """Convert every stream to Parquet.

        Raises:
            StoreError: the disk cannot be read or written; the stream remains.
            pa.ArrowInvalid: a stream is too short to have a schema.
        """
        from highwater.harness.runs.history import (  # noqa: PLC0415 - see above
            OPTIONAL,
            TABLES,
            to_parquet,
        )

        for table in (*TABLES, *OPTIONAL):
            try:
                if self.stream(table).exists():
                    to_parquet(self.stream(table), self.parquet(table))
            except OSError as error:
                raise StoreError(
                    f"{self.stream(table)} cannot become Parquet: {error.strerror or error}",
                    hint="Free space on that disk, and check that the disk works.",
                ) from error

    def plan(self) -> Plan:
        """Return the plan."""
        try:
            return Plan.from_json(self._read("plan.json"))
        except StoreError as error:
            error.message = error.message.replace("plan.json is", f"{self.path / 'plan.json'} is")
            raise

    def environment(self) -> Environment:
        """Return the run's environment: software, machine and addresses."""
        return _decode(self._read("environment.json"), Environment, "environment.json")

    def status(self) -> RunStatus:
        """Return the run's progress."""
        return _decode(self._read("status.json"), RunStatus, "status.json")

    def verdict(self) -> Verdict:
        """Return the judge's verdict. Raise ``StoreError`` if it has another schema."""
        if not self.judged:
            self._refuse_unended()
        return Verdict.from_json(self._read("analysis/verdict.json"))

    @property
    def judged(self) -> bool:
        """True if there is a verdict file, even if it is malformed."""
        return is_file(self.analysis / "verdict.json")

    def _refuse_unended(self) -> None:
        """Raise an error if the run has not ended, so that it has no verdict."""
        if not is_file(self.path / "status.json"):
            return
        phase = self.status().phase
        if phase != "frozen":
            raise StoreError(
                f"{self.name} was not judged: it is {phase}, or was interrupted while {phase}",
                hint="Wait until the run ends, or judge its incomplete files: highwater check RUN",
            )

    def write(self, name: str, text: bytes) -> Path:
        """Write one small file atomically."""
        write_whole(self.path / name, text)
        return self.path / name

    def write_struct(self, name: str, value: msgspec.Struct) -> Path:
        """Write a value as an indented JSON file."""
        return self.write(name, msgspec.json.format(msgspec.json.encode(value), indent=2))

    def _read(self, name: str) -> bytes:
        try:
            return read_regular(self.path / name)
        except FileNotFoundError as error:
            hint = (
                "Judge the run first: highwater check RUN"
                if name.startswith("analysis")
                else "Give the directory with plan.json, which highwater run printed."
            )
            raise StoreError(f"{self.path} has no {name}", hint=hint) from error
        except OSError as error:
            raise StoreError(f"{self.path / name} cannot be read: {error.strerror}") from error


class Store:
    """A store: a directory with one subdirectory for each run."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def create(self, plan: Plan, *, now: datetime, name: str | None = None) -> Run:
        """Make a new run directory with its plan, and let ``latest`` point to it.

        The directory becomes visible only when it is complete. Without ``name``, its name is made
        from the time and the plan.

        Raises:
            UsageError: the path has a comma.
            StoreError: the folder cannot be written.
        """
        if name is None:
            replay = "replay" if plan.schedule or plan.steps else None
            replay = "rolling" if plan.rolls else replay
            faults = "-".join(word.partition("=")[0] for word in plan.nemesis)[:_WHAT_MOST]
            what = plan.story or replay or faults or "calm"
            stamp = now.strftime("%Y%m%dT%H%M%S")
            name = f"{stamp}-{plan.kafka}-{what}-{secrets.token_hex(2)}"
        if "," in str(path := self.root.absolute() / name):
            raise UsageError(
                f"{path} has a comma, but brokers separate log directories by commas",
                hint="Choose another folder with --store, or another --name.",
            )
        new = Run(self.root / f".new-{secrets.token_hex(4)}")
        made = new.path
        try:
            new.path.mkdir(parents=True)
            new.write("plan.json", plan.to_json())
            new.write_struct("status.json", RunStatus(phase="booting"))
            made = new.path.rename(self.root / name)
            self._point_latest(name)
        except OSError as error:
            shutil.rmtree(made, ignore_errors=True)
            raise StoreError(
                f"the store {self.root} cannot be written: {error.strerror}",
                hint="Choose another folder with --store.",
            ) from error
        return Run(self.root / name)

    def open(self, name: str | Path) -> Run:
        """Return the run at a path, or with that name in this store; raise if it does not exist."""
        for path in (Path(name), self.root / name):
            if _may_be_run(path):
                return Run(path.resolve())
        names = self.names()
        hint = f"Runs in this store: {', '.join(names[-5:]) or 'none yet'}."
        if near := get_close_matches(str(name), names, 1):
            hint = f"Did you mean {near[0]}? {hint}"
        raise NotThereError(f"{name} is not a run directory", hint=hint)

    def names(self) -> list[str]:
        """Return the names of the store's runs, oldest first, including unreadable directories."""
        paths = (path for path in self.root.glob("*/") if not path.name.startswith("."))
        return sorted(path.name for path in paths if not path.is_symlink() and _may_be_run(path))

    def _point_latest(self, name: str) -> None:
        link = self.root / f".latest-{secrets.token_hex(4)}"
        link.symlink_to(name)
        link.replace(self.root / "latest")


def _may_be_run(path: Path) -> bool:
    try:
        return (path / "plan.json").is_file()
    except PermissionError:
        return True


def _decode(text: bytes, kind: type[_T], name: str) -> _T:
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.MsgspecError as error:
        raise StoreError(f"{name} is broken: {error}") from error

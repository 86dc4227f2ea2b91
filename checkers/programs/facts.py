"""The facts that a run shows of its program: inputs, outputs, committed positions and lives."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from highwater.checkers.groups.events import FOREVER, Row
from highwater.checkers.groups.offsets_topic import commits_on_disk
from highwater.checkers.kafka_files.reader import read_partition
from highwater.checkers.programs.outcomes import INPUT
from highwater.checkers.run_files import RunFiles
from highwater.harness.base.errors import UsageError
from highwater.harness.runs.history import (
    FENCE,
    FINAL,
    GROUPS_TABLE,
    INSTANCES_TABLE,
    OPERATIONS_TABLE,
    OUTPUTS_TABLE,
    READ,
    SEND,
)
from highwater.harness.runs.plan import Plan, ProgramPlan
from highwater.harness.runs.programs.expressions import ProgramRecord, expression

_MS: Final = 1_000_000


class Position(NamedTuple):
    """A committed offset of one partition.

    Attributes:
        time_ns: when it took effect, since the run's start.
        transactional: whether it was part of a transaction.
    """

    time_ns: int
    offset: int
    transactional: bool


class Output(NamedTuple):
    """An output, since the run's start in nanoseconds, and where it is."""

    time_ns: int
    partition: int
    offset: int


class InstanceEvent(NamedTuple):
    """Something that happened to an instance; ``event`` is that of ``history.INSTANCES``."""

    time_ns: int
    instance: int
    life: int
    event: str
    status: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramFacts:
    """Facts about the program of one run.

    Attributes:
        inputs: in ``outcomes.INPUT``, those that the final read has returned.
        names: with a column ``value``, all records that were ever sent.
        outputs: in columns of ``history.OUTPUTS``, those of kind output.
        exempt: names of the inputs that need no output.
        complete: whether all outputs were read, and one at least names an input.
        positions: the group's committed offset of each partition in the end.
        commits: the committed offsets of each partition, in order; None if no disk has them.
        events: of instances, in order of time.
        undisturbed_ns: until when nothing but the program had a fault.
        started_ms: the run's start, since 1970.
    """

    plan: Plan
    program: ProgramPlan
    inputs: pa.Table
    names: pa.Table
    outputs: pa.Table
    exempt: Sequence[str]
    complete: bool
    positions: Mapping[int, int | None]
    commits: Mapping[int, Sequence[Position]] | None
    events: Sequence[InstanceEvent]
    undisturbed_ns: int
    started_ms: float

    @classmethod
    def of(cls, case: RunFiles) -> Self | None:
        """Return the facts of a run; None if it has no program, or its tables cannot be read."""
        tables = (OPERATIONS_TABLE, OUTPUTS_TABLE, INSTANCES_TABLE)
        lacking = case.lacks("environment") or any(name not in case.tables for name in tables)
        if case.plan.program is None or lacking:
            return None
        operations = pq.read_table(
            case.tables[OPERATIONS_TABLE],
            columns=["process", "kind", "phase", "partition", "offset", "value"],
        )
        judged = operations.filter(pc.not_equal(operations["process"], FENCE))
        final = pc.and_(pc.equal(judged["kind"], READ), pc.equal(judged["phase"], FINAL))
        sent = judged.filter(pc.equal(judged["kind"], SEND)).select(["value"])
        inputs = judged.filter(final).select(INPUT.names).cast(INPUT)
        rows = pq.read_table(case.tables[OUTPUTS_TABLE])
        ends = rows.filter(pc.equal(rows["kind"], "end"))["partition"].to_pylist()
        outputs = rows.filter(pc.equal(rows["kind"], "output"))
        started_ms = case.run.environment().started_at_ns / _MS
        commits = _commits(case, started_ms)
        return cls(
            plan=case.plan,
            program=case.plan.program,
            inputs=inputs.filter(pc.is_in(inputs["value"], sent["value"].combine_chunks())),
            names=sent,
            outputs=outputs,
            exempt=rows.filter(pc.equal(rows["kind"], "exempt"))["input"].to_pylist(),
            complete=len({*ends}) == case.plan.topic.partitions
            and outputs["input"].null_count < len(outputs),
            positions=_positions(case, commits),
            commits=commits,
            events=_events(case),
            undisturbed_ns=_undisturbed_ns(case),
            started_ms=started_ms,
        )

    def outputs_of(self, names: Sequence[str]) -> dict[str, list[Output]]:
        """Return the outputs of some inputs by name, in the order of their times."""
        rows = self.outputs.filter(pc.is_in(self.outputs["input"], pa.array(names, pa.string())))
        by_name: dict[str, list[Output]] = defaultdict(list)
        for row in rows.to_pylist():
            time_ns = since_start_ns(row["timestamp_ms"], self.started_ms)
            by_name[row["input"]].append(Output(time_ns, row["partition"], row["offset"]))
        return {name: sorted(outputs) for name, outputs in by_name.items()}


def since_start_ns(timestamp_ms: int | None, started_ms: float) -> int:
    """Return a broker's time as nanoseconds since the run's start; of none, 0."""
    return 0 if timestamp_ms is None else int((timestamp_ms - started_ms) * _MS)


def position_at(commits: Sequence[Position], time_ns: int) -> int:
    """Return the committed offset at a time; 0 before the first."""
    before = bisect_right(commits, time_ns, key=lambda commit: commit.time_ns)
    return commits[before - 1].offset if before else 0


def _commits(case: RunFiles, started_ms: float) -> dict[int, list[Position]] | None:
    on_disk = commits_on_disk(case)
    if on_disk is None:
        return None
    commits: dict[int, list[Position]] = {n: [] for n in range(case.plan.topic.partitions)}
    for commit in on_disk:
        group, partition = commit.place
        if group == case.plan.group and commit.offset is not None and partition in commits:
            time_ns = since_start_ns(commit.timestamp_ms, started_ms)
            commits[partition].append(Position(time_ns, commit.offset, commit.transactional))
    return commits


def _positions(
    case: RunFiles, commits: Mapping[int, Sequence[Position]] | None
) -> dict[int, int | None]:
    """Return the group's offsets as its coordinator returned them, or else those on the disks."""
    last = {p: of[-1].offset for p, of in (commits or {}).items() if of}
    positions: dict[int, int | None] = {n: last.get(n) for n in range(case.plan.topic.partitions)}
    if GROUPS_TABLE in case.tables:
        for row in pq.read_table(case.tables[GROUPS_TABLE]).to_pylist():
            if row["event"] == "committed" and row["group"] == case.plan.group:
                positions[row["partition"]] = row["offset"]
    return positions


def _events(case: RunFiles) -> list[InstanceEvent]:
    rows = pq.read_table(case.tables[INSTANCES_TABLE]).sort_by("time_ns").to_pylist()
    return [InstanceEvent(**row) for row in rows]


def _undisturbed_ns(case: RunFiles) -> int:
    if "events/faults" not in case.tables:
        return 0
    rows = pq.read_table(case.tables["events/faults"]).to_pylist()
    others = (row for row in rows if row["phase"] == "inject" and not _of_program(row["fault"]))
    return min((row["time_ns"] for row in others), default=FOREVER)


def _of_program(fault: str) -> bool:
    return fault.startswith("app-")


def outputs_on_disk(case: RunFiles, program: ProgramPlan) -> Mapping[str, list[Row]]:
    """Return every record of the output that names an input, committed or not, by that name.

    Of each partition the longest log is read. Rows have ``partition``, ``offset`` and
    ``transactional``. Headers are not read, and a function of the user's may not be here any more:
    then there are none.
    """
    by_name: dict[str, list[Row]] = defaultdict(list)
    try:
        names = expression(program.match)
        for partition in range(case.plan.topic.partitions):
            folders = case.run.replicas.glob(f"*/{program.out}-{partition}/")
            logs = [[*_of_log(folder)] for folder in folders if folder not in case.broken]
            for row in max(logs, key=len, default=[]):
                for name in names(ProgramRecord(row["value"], row["key"])):
                    by_name[name].append(row)
    except UsageError:
        return {}
    return by_name


def _of_log(folder: Path) -> Iterator[Row]:
    columns = ["partition", "offset", "transactional", "control", "key", "value"]
    for batch in read_partition(folder):
        for row in batch.select(columns).to_pylist():
            if row["offset"] is not None and not row["control"]:
                yield row

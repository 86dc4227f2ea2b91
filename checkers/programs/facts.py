"""The facts of a run about its program: inputs, outputs, committed positions, instances."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from highwater.checkers.groups.events import FOREVER, Row
from highwater.checkers.groups.offsets_topic import commits_on_disk
from highwater.checkers.programs.outcomes import INPUT
from highwater.checkers.run_files import RunFiles
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

_MS: Final = 1_000_000
_FAULTS: Final = "events/faults"
_OF_INSTANCES: Final = frozenset(("app-kill", "app-pause", "app-stop", "app-scale"))


_ERRORS: Final = {
    6: "NOT_LEADER_OR_FOLLOWER",
    7: "REQUEST_TIMED_OUT",
    10: "MESSAGE_TOO_LARGE",
    18: "RECORD_LIST_TOO_LARGE",
    19: "NOT_ENOUGH_REPLICAS",
    20: "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    22: "ILLEGAL_GENERATION",
    25: "UNKNOWN_MEMBER_ID",
    27: "REBALANCE_IN_PROGRESS",
    45: "OUT_OF_ORDER_SEQUENCE_NUMBER",
    47: "INVALID_PRODUCER_EPOCH",
    87: "INVALID_RECORD",
    90: "PRODUCER_FENCED",
}


class ProgramRequest(NamedTuple):
    """A request of the program, in nanoseconds since the run's start.

    Attributes:
        answered_ns: the time of the response; None without a response.
        instance: the number of the sender; None if unknown.
        error: Kafka's error code; 0 if the request succeeded; None without a response.
    """

    time_ns: int
    answered_ns: int | None
    instance: int | None
    error: int | None

    @property
    def sender(self) -> str:
        """The instance that sent the request, such as ``instance 1``."""
        return "the program" if self.instance is None else f"instance {self.instance}"

    @property
    def answer(self) -> str:
        """The response in words, for a sentence's end, such as ``got no response``."""
        if self.error is None:
            return "was never answered" if self.answered_ns is None else "was answered"
        refused = f"was refused: {_ERRORS.get(self.error, f'error {self.error}')}"
        return refused if self.error else "was acknowledged"


class Position(NamedTuple):
    """A committed offset of one partition.

    Attributes:
        time_ns: the time since the run's start at which the commit took effect.
        offset: the committed offset; 0 if the offset was deleted, or before the first commit.
        transactional: whether the commit was part of a transaction.
    """

    time_ns: int
    offset: int
    transactional: bool


class Output(NamedTuple):
    """An output: its time in nanoseconds since the run's start, and its partition and offset.

    Attributes:
        by: the request that wrote the output, if the run recorded requests.
        place: the location of the output, as text.
    """

    time_ns: int
    partition: int
    offset: int
    by: ProgramRequest | None = None
    place: str = ""


class InstanceEvent(NamedTuple):
    """An event in the life of an instance; ``event`` is as in ``history.INSTANCES``."""

    time_ns: int
    instance: int
    life: int
    event: str
    status: int | None


class Trouble(NamedTuple):
    """A fault of a broker, or of the program's connections, with its duration."""

    time_ns: int
    until_ns: int
    fault: str
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramFacts:
    """Facts about the program of one run.

    Attributes:
        inputs: the inputs that the final read returned, in ``outcomes.INPUT``.
        names: all records that were sent; the column ``value`` has their names.
        outputs: the rows of kind output, with the columns ``history.OUTPUTS``.
        exempt: names of the inputs that need no output.
        acknowledged: the records that a program without input printed as written, in
            ``outcomes.INPUT``; the column ``partition`` has the number of the instance.
        complete: whether all outputs were read, and at least one output names an input.
        positions: the group's last committed offset in each partition.
        commits: the committed offsets in each partition, in order; None if no disk has them.
        events: the events of instances, in order of time.
        troubles: the faults in order, without faults of the program's processes; None if unknown.
        started_ms: the run's start, in milliseconds since 1970.
    """

    plan: Plan
    program: ProgramPlan
    inputs: pa.Table
    names: pa.Table
    outputs: pa.Table
    exempt: Sequence[str]
    acknowledged: pa.Table
    complete: bool
    positions: Mapping[int, int | None]
    commits: Mapping[int, Sequence[Position]] | None
    events: Sequence[InstanceEvent]
    troubles: Sequence[Trouble] | None
    started_ms: float

    @classmethod
    def of(cls, case: RunFiles) -> Self | None:
        """Return a run's facts; None if the run has no program, or unreadable tables."""
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
            acknowledged=pa.table(
                rows.filter(pc.equal(rows["kind"], "acknowledged"))
                .select(["partition", "offset", "input"])
                .columns,
                schema=INPUT,
            ),
            complete=len({*ends}) == case.plan.program.outlets(case.plan.topic.partitions)
            and outputs["input"].null_count < len(outputs),
            positions=_positions(case, commits),
            commits=commits,
            events=_events(case),
            troubles=_troubles(case),
            started_ms=started_ms,
        )

    @property
    def undisturbed_ns(self) -> int:
        """The time until which no broker had a fault; the program may have had faults."""
        if self.troubles is None:
            return 0
        of_brokers = (fault for fault in self.troubles if not fault.fault.startswith("app-"))
        return min((trouble.time_ns for trouble in of_brokers), default=FOREVER)

    def outputs_of(self, names: Sequence[str]) -> dict[str, list[Output]]:
        """Return the outputs of these inputs, by the inputs' names, in order of time."""
        rows = self.outputs.filter(pc.is_in(self.outputs["input"], pa.array(names, pa.string())))
        by_name: dict[str, list[Output]] = defaultdict(list)
        for row in rows.to_pylist():
            time_ns = since_start_ns(row["timestamp_ms"], self.started_ms)
            outlet, offset = row["partition"], row["offset"]
            place = self.program.place(outlet, offset)
            by_name[row["input"]].append(Output(time_ns, outlet, offset, place=place))
        return {name: sorted(outputs) for name, outputs in by_name.items()}


def since_start_ns(timestamp_ms: int | None, started_ms: float) -> int:
    """Return a broker's timestamp as nanoseconds since the run's start; 0 without a timestamp."""
    return 0 if timestamp_ms is None else int((timestamp_ms - started_ms) * _MS)


def position_at(commits: Sequence[Position], time_ns: int) -> int:
    """Return the committed offset at a time; 0 before the first commit."""
    before = bisect_right(commits, time_ns, key=lambda commit: commit.time_ns)
    return commits[before - 1].offset if before else 0


def passed_by(commits: Sequence[Position], offset: int) -> Position | None:
    """Return the first commit whose position is after an offset; None without such a commit."""
    return next((commit for commit in commits if commit.offset > offset), None)


def _commits(case: RunFiles, started_ms: float) -> dict[int, list[Position]] | None:
    on_disk = commits_on_disk(case)
    if on_disk is None:
        return None
    commits: dict[int, list[Position]] = {n: [] for n in range(case.plan.topic.partitions)}
    for commit in on_disk:
        group, partition = commit.place
        if group == case.plan.group and partition in commits:
            time_ns = since_start_ns(commit.timestamp_ms, started_ms)
            position = Position(time_ns, commit.offset or 0, commit.transactional)
            commits[partition].append(position)
    return commits


def _positions(
    case: RunFiles, commits: Mapping[int, Sequence[Position]] | None
) -> dict[int, int | None]:
    """Return the group's committed offsets from the coordinator's responses, or from the disks."""
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


def _troubles(case: RunFiles) -> list[Trouble] | None:
    if _FAULTS not in case.tables:
        return None
    troubles: list[Trouble] = []
    injected: dict[tuple[str, int | None], Row] = {}
    for row in pq.read_table(case.tables[_FAULTS]).sort_by("time_ns").to_pylist():
        which = row["fault"], row["broker"]
        if row["phase"] == "inject" and row["fault"] not in _OF_INSTANCES:
            injected[which] = row
        elif row["phase"] == "heal" and which in injected:
            troubles.append(_trouble(injected.pop(which), row["time_ns"]))
    return sorted([*troubles, *(_trouble(row, FOREVER) for row in injected.values())])


def _trouble(row: Row, until_ns: int) -> Trouble:
    return Trouble(row["time_ns"], until_ns, row["fault"], row["says"])

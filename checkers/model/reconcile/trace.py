"""One partition of one run as a trace: who led, what each replica and broker said, what is on disk.

Plain Python values. A trace is small (it has what changed, not what was sent); disks and operations
are Arrow tables and NumPy arrays.
"""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.model.rules import Rules, rules_of
from checkers.segments.reader import read_segment, segments
from harness.history import SEND
from harness.plan import Plan
from harness.store import Run, Status

MS: Final = 1_000_000
SECOND: Final = 1000 * MS
NEVER: Final = (1 << 63) - 1
LOOK: Final = 250 * MS
"""Two looks of the observer at one broker are never farther apart, if the machine can keep up."""

_DAY: Final = 86_400 * SECOND
_UNANSWERED: Final = re.compile(
    r"(?:\d{4}-\d\d-\d\dT)?(?P<time>\d\d:\d\d:\d\d\.\d{3})Z? (?:REQTMOUT|FAIL)"
    r" \[(?P<client>[\w-]+)#"
)
"""librdkafka: a request timed out, or its connection broke."""

_IGNORED: Final = frozenset({"error", "election", "kept"})
_EPOCH: Final = re.compile(r"[Ll]eader [Ee]poch (\d+)")
_LEADER: Final = re.compile(
    r"to broker (?:BrokerEndPoint\((?:id=)?)?(\d+)|Current leader is (-?\d+)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """A row of ``events/partitions``."""

    time_ns: int
    leader: int
    epoch: int
    isr: tuple[int, ...]

    @property
    def event(self) -> str:
        """It in words."""
        return f"leader {self.leader}, leader epoch {self.epoch}, ISR {list(self.isr)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What a replica told of itself."""

    time_ns: int
    leo: int
    hw: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of a broker's log."""

    time_ns: int
    broker: int
    kind: str
    offset: int
    text: str

    @property
    def epoch(self) -> int:
        """The leader epoch that it tells, -1 for none."""
        found = _EPOCH.search(self.text)
        return int(found[1]) if found else -1

    @property
    def leader(self) -> int:
        """The leader that it tells, -1 for none."""
        found = _LEADER.search(self.text)
        return int(found[1] or found[2]) if found else -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Struck:
    """A fault on a broker, from its injection until it was healed."""

    fault: str
    broker: int
    since_ns: int
    until_ns: int
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A broker began to lead: from which offset on, and what shows it.

    Attributes:
        unclean: what shows that it was elected from outside the ISR; None: nothing does.
        told: the broker itself wrote the offset down; else it is the LEO that was last observed.
    """

    time_ns: int
    broker: int
    epoch: int
    offset: int
    isr: tuple[int, ...]
    unclean: str | None
    told: bool
    event: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Disk:
    """A replica as it was frozen: parallel arrays in order of the file.

    ``epochs`` holds -1 for formats without.
    """

    offsets: np.ndarray[Any, np.dtype[np.int64]]
    epochs: np.ndarray[Any, np.dtype[np.int64]]
    ids: list[str | None]

    @cached_property
    def at(self) -> dict[int, int]:
        """Offset to index."""
        return {int(offset): index for index, offset in enumerate(self.offsets)}

    def record(self, offset: int | None) -> str | None:
        """The record at an offset."""
        index = None if offset is None else self.at.get(offset)
        return None if index is None else self.ids[index]

    def epoch(self, offset: int) -> int:
        """The leader epoch at an offset, -1 for none."""
        index = self.at.get(offset)
        return -1 if index is None else int(self.epochs[index])

    @property
    def end(self) -> int:
        """The offset after the last."""
        return int(self.offsets[-1]) + 1 if len(self.offsets) else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """All that was observed of one partition, each list in order of time."""

    partition: int
    leaderships: list[Leadership]
    marks: dict[int, list[Mark]]
    lines: dict[int, list[Line]]
    disks: dict[int, Disk]
    starts: list[Start] = field(default_factory=list)

    def leader_at(self, time_ns: int) -> Leadership | None:
        """Who led, by the last row before."""
        index = bisect_right(self.leaderships, time_ns, key=lambda row: row.time_ns)
        return self.leaderships[index - 1] if index else None

    def mark_at(self, broker: int, time_ns: int) -> Mark | None:
        """What a replica last told before."""
        marks = self.marks.get(broker, [])
        index = bisect_right(marks, time_ns, key=lambda mark: mark.time_ns)
        return marks[index - 1] if index else None

    def of_kind(self, broker: int, *kinds: str) -> list[Line]:
        """A broker's lines of some kinds."""
        return [line for line in self.lines.get(broker, ()) if line.kind in kinds]


@dataclass(frozen=True, slots=True)
class Said:
    """A line of a client's log."""

    time_ns: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """A run with all its traces.

    Attributes:
        ops: ``history/ops``, its dictionaries decoded.
        clients: requests that timed out or lost their connection, by the clients' names.
        suspects: the sends of the records that anomalies are about, by the records' ids.
    """

    plan: Plan
    status: Status
    rules: Rules
    faults: list[Struck]
    traces: dict[int, Trace]
    ops: pa.Table
    clients: dict[str, list[Said]] = field(default_factory=dict)
    suspects: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def topic(self) -> str:
        """The topic under test."""
        return self.plan.topic.name

    def suspect(self, values: Iterable[str]) -> None:
        """Look up the sends of some records, all in one pass."""
        wanted = pc.is_in(self.ops["value"], pa.array(sorted(values), pa.string()))
        found = self.ops.filter(pc.and_(pc.equal(self.ops["kind"], SEND), wanted))
        self.suspects.update((row["value"], row) for row in found.to_pylist())


def observe(run: Run) -> Observed:
    """Read everything about a run that the rules can be held against.

    Raises:
        StoreError: a table is missing or broken.
        UsageError: the model knows no such release.
    """
    plan = run.plan()
    rules = rules_of(plan.kafka)
    disks = _disks(run, plan)
    leaderships = _leaderships(run)
    marks, lines = _marks(run), _lines(run, plan)
    traces = {}
    for partition in range(plan.topic.partitions):
        trace = Trace(
            partition=partition,
            leaderships=leaderships[partition],
            marks=marks[partition],
            lines=lines[partition],
            disks={b: disk for (b, p), disk in disks.items() if p == partition},
        )
        trace.starts.extend(_starts(trace))
        traces[partition] = trace
    return Observed(
        plan=plan,
        status=run.status(),
        rules=rules,
        faults=_faults(run, lines[0]),
        traces=traces,
        ops=_plain(run.table("history/ops")),
        clients=_clients(run),
    )


def _clients(run: Run) -> dict[str, list[Said]]:
    """What the clients logged about requests without an answer; nothing, if they left no log."""
    found: dict[str, list[Said]] = defaultdict(list)
    path = run.logs / "clients.log"
    if not path.exists():
        return found
    started_at_ns = run.environment().started_at_ns
    midnight_ns = started_at_ns - started_at_ns % _DAY
    with path.open(encoding="utf-8", errors="backslashreplace") as lines:
        for line in lines:
            if said := _UNANSWERED.match(line):
                hours, minutes, seconds = said["time"].split(":")
                time_ns = int((int(hours) * 3600 + int(minutes) * 60 + float(seconds)) * SECOND)
                since_ns = (midnight_ns + time_ns - started_at_ns) % _DAY
                found[said["client"]].append(Said(since_ns, line.strip()))
    return found


def _plain(table: pa.Table) -> pa.Table:
    """A table without dictionaries."""
    columns = [
        pc.cast(column, column.type.value_type) if pa.types.is_dictionary(column.type) else column
        for column in table.columns
    ]
    return pa.table(columns, names=table.column_names)


def _leaderships(run: Run) -> dict[int, list[Leadership]]:
    """Rows in order of epoch: a broker that is behind may still tell an older one (KRaft)."""
    found: dict[int, list[Leadership]] = defaultdict(list)
    for row in _rows(run, "events/partitions"):
        now = Leadership(
            time_ns=row["time_ns"],
            leader=row["leader"],
            epoch=-1 if row["leader_epoch"] is None else row["leader_epoch"],
            isr=tuple(row["isr"]),
        )
        found[row["partition"]].append(now)
    return found


def _marks(run: Run) -> dict[int, dict[int, list[Mark]]]:
    found: dict[int, dict[int, list[Mark]]] = defaultdict(lambda: defaultdict(list))
    for row in _rows(run, "events/replicas"):
        if row["leo"] is not None and row["hw"] is not None:
            mark = Mark(time_ns=row["time_ns"], leo=row["leo"], hw=row["hw"])
            found[row["partition"]][row["broker"]].append(mark)
    return found


def _lines(run: Run, plan: Plan) -> dict[int, dict[int, list[Line]]]:
    """Lines by partition and broker; what a broker says of itself is told of each partition."""
    found: dict[int, dict[int, list[Line]]] = defaultdict(lambda: defaultdict(list))
    for row in _rows(run, "events/log_lines"):
        if row["kind"] in _IGNORED:
            continue
        line = Line(
            time_ns=row["time_ns"],
            broker=row["broker"],
            kind=row["kind"],
            offset=-1 if row["offset"] is None else row["offset"],
            text=row["line"],
        )
        own = row["partition"]
        for partition in range(plan.topic.partitions) if own is None else (own,):
            found[partition][row["broker"]].append(line)
    return found


def _rows(run: Run, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = run.table(name).to_pylist()
    return sorted((row for row in rows if row["time_ns"] is not None), key=lambda r: r["time_ns"])


def _faults(run: Run, lines: dict[int, list[Line]]) -> list[Struck]:
    """Faults with their ends; what was never healed ends never.

    A shutdown is recorded when it has ended, and begins when its broker says so.
    """
    open_: dict[int, Struck] = {}
    found = []
    for row in _rows(run, "events/faults"):
        broker, time_ns = row["broker"], row["time_ns"]
        if broker is None or row["phase"] == "note":
            continue
        if before := open_.pop(broker, None):
            found.append(replace(before, until_ns=time_ns))
        if row["phase"] == "inject":
            since_ns = time_ns
            if row["fault"] == "stop":
                since_ns = _began_to_stop(lines.get(broker, []), time_ns)
            open_[broker] = Struck(
                fault=row["fault"],
                broker=broker,
                since_ns=since_ns,
                until_ns=NEVER,
                says=row["says"],
            )
    return sorted([*found, *open_.values()], key=lambda one: one.since_ns)


def _began_to_stop(lines: list[Line], time_ns: int) -> int:
    """When a broker that is shut down now began to be."""
    began = None
    for line in lines:
        if line.time_ns <= time_ns and line.kind in {"start", "stop"}:
            began = None if line.kind == "start" else began or line.time_ns
    return began or time_ns


def _disks(run: Run, plan: Plan) -> dict[tuple[int, int], Disk]:
    """The frozen replicas of the topic under test."""
    found: dict[tuple[int, int], list[pa.RecordBatch]] = defaultdict(list)
    names = ["offset", "leader_epoch", "record_id", "control"]
    for segment in segments(Path(run.replicas)) if run.replicas.is_dir() else ():
        if segment.topic == plan.topic.name:
            batches = found[segment.broker, segment.partition]
            batches.extend(batch.select(names) for batch in read_segment(segment))
    return {key: _disk(batches) for key, batches in found.items()}


def _disk(batches: list[pa.RecordBatch]) -> Disk:
    if not batches:
        empty = np.empty(0, np.int64)
        return Disk(offsets=empty, epochs=empty, ids=[])
    table = pa.Table.from_batches(batches)
    table = table.filter(pc.is_valid(table["offset"]))
    return Disk(
        offsets=table["offset"].to_numpy(),
        epochs=pc.fill_null(table["leader_epoch"], -1).to_numpy().astype(np.int64),
        ids=table["record_id"].to_pylist(),
    )


def _starts(trace: Trace) -> list[Start]:
    """Every beginning of a leadership: a broker's own line where it writes one, or its LEO then."""
    own = [line for b in trace.lines for line in trace.of_kind(b, "leader")]
    told = {(line.broker, line.epoch): line for line in reversed(own)}
    found: list[Start] = []
    isr: tuple[int, ...] | None = None
    epoch = None
    for row in trace.leaderships:
        if row.leader >= 0 and row.epoch != epoch:
            outside = row.event if isr is not None and row.leader not in isr else None
            found.append(_start(trace, row, told.pop((row.leader, row.epoch), None), outside))
        isr, epoch = row.isr, row.epoch
    # Who led between two looks of the observer is known by its own line alone.
    found += [
        Start(
            time_ns=line.time_ns,
            broker=line.broker,
            epoch=line.epoch,
            offset=line.offset,
            isr=(),
            unclean=_said_unclean(trace, line.broker, line.epoch, line.time_ns),
            told=True,
            event=line.text,
        )
        for line in told.values()
    ]
    return sorted(found, key=lambda start: (start.epoch, start.time_ns))


def _start(trace: Trace, row: Leadership, line: Line | None, outside: str | None) -> Start:
    offset = line.offset if line else _leo_at(trace, row.leader, row.time_ns)
    event = line.text if line else f"{row.event}; LEO {offset} of broker {row.leader}"
    return Start(
        time_ns=row.time_ns,
        broker=row.leader,
        epoch=row.epoch,
        offset=offset,
        isr=row.isr,
        unclean=_said_unclean(trace, row.leader, row.epoch, row.time_ns) or outside,
        told=line is not None,
        event=event,
    )


def _leo_at(trace: Trace, broker: int, time_ns: int) -> int:
    """Where a log ended by the last word on it: as it was observed, or its own line on a cut."""
    mark = trace.mark_at(broker, time_ns)
    cuts = [one for one in trace.of_kind(broker, "fetcher") if one.time_ns <= time_ns]
    if cuts and (mark is None or mark.time_ns < cuts[-1].time_ns):
        return cuts[-1].offset
    return mark.leo if mark else -1


def _said_unclean(trace: Trace, leader: int, epoch: int, time_ns: int) -> str | None:
    """The controller's own word that it elected somebody from outside the ISR."""
    for broker in trace.lines:
        for line in trace.of_kind(broker, "unclean"):
            now = (
                f"-> {leader}," in line.text and f"leaderEpoch: {epoch - 1} -> {epoch}" in line.text
            )
            then = f"Elect leader {leader} " in line.text and abs(line.time_ns - time_ns) < SECOND
            if now or then:
                return line.text
    return None

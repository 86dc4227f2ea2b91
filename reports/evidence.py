"""What a judged run left behind, read for drawing: observations, faults, cuts and acknowledgements.

A cut-short run lacks tables, or has them as unfinished streams; what could not be read is said in
``Evidence.missing`` and the rest is shown.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from checkers.strikes import Strikes, begun, strikes
from harness.history import OK, RUN, SEND, TABLES, read_stream
from harness.store import Run

Partition: TypeAlias = tuple[str, int]
"""Topic and partition number."""

Place: TypeAlias = tuple[str, int, int]
"""Topic, partition number and offset."""

Ints: TypeAlias = npt.NDArray[np.int64]

UNKNOWN: Final = -1
"""Stands for a LEO or HW that the broker did not tell."""

PAST: Final = {
    "kill": "killed",
    "pause": "paused",
    "stop": "stopped",
    "isolate": "isolated",
    "partition": "cut off",
    "power-failure": "without power",
}
"""How a broker under a fault is called in a drawing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """LEO and HW of one replica over time, a row a change (``UNKNOWN``: it did not answer)."""

    time_ns: Ints
    leo: Ints
    hw: Ints

    def at(self, time_ns: int) -> tuple[int, int, bool]:
        """The last LEO and HW that were told by then, and whether the broker still answered."""
        end = int(np.searchsorted(self.time_ns, time_ns, side="right"))
        last = self._last(end)
        if last < 0:
            return UNKNOWN, UNKNOWN, False
        return int(self.leo[last]), int(self.hw[last]), last == end - 1

    def told(self, time_ns: int) -> int:
        """When the replica's state as of that time was observed; -1 when it never was."""
        last = self._last(int(np.searchsorted(self.time_ns, time_ns, side="right")))
        return int(self.time_ns[last]) if last >= 0 else -1

    def _last(self, end: int) -> int:
        """The last row before index ``end`` in which the replica answered; -1: there is none."""
        answers = np.flatnonzero(self.leo[:end] != UNKNOWN)
        return int(answers[-1]) if len(answers) else -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """From ``time_ns`` on the controller says: this leader (-1: none), this epoch, this ISR."""

    time_ns: int
    leader: int
    epoch: int | None
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A replica cut its log: offsets from ``offset`` on are gone."""

    time_ns: int
    broker: int
    offset: int
    line: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault from inject to heal; ``end_ns`` is None when it was never healed."""

    name: str
    broker: int | None
    start_ns: int
    end_ns: int | None
    says: str
    healed: str = ""

    @property
    def past(self) -> str:
        """The state it puts a broker in, as a word."""
        return PAST.get(self.name, self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Everything observed about one partition."""

    partition: Partition
    tracks: dict[int, Track]
    leaderships: tuple[Leadership, ...]
    cuts: tuple[Cut, ...]

    def leadership(self, time_ns: int) -> Leadership | None:
        """What the controller said at that time."""
        before = [each for each in self.leaderships if each.time_ns <= time_ns]
        return before[-1] if before else None

    @property
    def brokers(self) -> list[int]:
        """Every broker seen with this partition, by id."""
        found = set(self.tracks)
        for each in self.leaderships:
            found |= {*each.isr} | ({each.leader} if each.leader >= 0 else set())
        return sorted(found | {cut.broker for cut in self.cuts})


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Sends of the run itself, those of the final phase apart; all in ns.

    Attributes:
        ended_ns: when each acknowledged one was, ascending.
        took_ns: how long it had taken, in the same order.
        failed_ns: when the others were begun.
    """

    ended_ns: Ints
    took_ns: Ints
    failed_ns: Ints


def _no_pace() -> Pace:
    nothing = np.empty(0, np.int64)
    return Pace(ended_ns=nothing, took_ns=nothing, failed_ns=nothing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that is known of a run besides its verdict.

    Attributes:
        acks: per partition, the times in ns at which sends were acknowledged, ascending.
        acked_at: id of a record to the time of its acknowledgement, for the asked-for ids only.
        sends: for the asked-for places, who was acknowledged there: (sent at, id) in order of time.
        missing: what could not be read, a sentence each.
    """

    scenes: dict[Partition, Scene] = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()
    steps: tuple[Fault, ...] = ()
    acks: dict[Partition, Ints] = field(default_factory=dict)
    acked_at: Mapping[str, int] = field(default_factory=dict)
    sends: Mapping[Place, tuple[tuple[int, str], ...]] = field(default_factory=dict)
    pace: Pace = field(default_factory=_no_pace)
    end_ns: int = 0
    missing: tuple[str, ...] = ()


def gather(run: Run, *, values: Iterable[str] = (), places: Iterable[Place] = ()) -> Evidence:
    """Read everything of a run that is drawn.

    Args:
        run: judged or at least begun.
        values: ids of the records whose acknowledgement times are wanted.
        places: where it is wanted which records were acknowledged.
    """
    missing: list[str] = []
    tables = {name: _table(run, name, missing) for name in TABLES}
    open_ = [
        f"{name} ({tables[name].num_rows:,} rows shown)"
        for name in TABLES
        if run.stream(name).exists() and not run.parquet(name).exists()
    ]
    if open_:
        missing.append(f"Written while the run went on and never finished: {', '.join(open_)}.")
    tracks = _tracks(tables["events/replicas"])
    leaderships = _leaderships(tables["events/partitions"])
    cuts = _cuts(tables["events/log_lines"])
    scenes = {
        key: Scene(
            partition=key,
            tracks=tracks.get(key, {}),
            leaderships=tuple(leaderships.get(key, ())),
            cuts=_merged(cuts.get(key, []), tracks.get(key, {})),
        )
        for key in sorted({*tracks, *leaderships})
    }
    faults, steps = _faults(tables["events/faults"], strikes(run))
    acks, acked_at, last = _acks(tables["history/ops"], set(values))
    ends = [last, *(each.end_ns or each.start_ns for each in (*faults, *steps))]
    ends += [int(t.time_ns[-1]) for s in scenes.values() for t in s.tracks.values()]
    ends += [each.time_ns for s in scenes.values() for each in s.leaderships]
    return Evidence(
        scenes=scenes,
        faults=faults,
        steps=steps,
        acks=acks,
        acked_at=acked_at,
        sends=_sends(tables["history/ops"], set(places)),
        pace=_pace(tables["history/ops"]),
        end_ns=max(ends, default=0),
        missing=tuple(missing),
    )


def _table(run: Run, name: str, missing: list[str]) -> pa.Table:
    """A table of the run; empty, with a sentence in ``missing``, when there is none."""
    schema = TABLES[name]
    try:
        if run.parquet(name).exists():
            return pq.read_table(run.parquet(name)).select(schema.names)
        if run.stream(name).exists():
            return pa.Table.from_batches(list(read_stream(run.stream(name))), schema=schema)
        missing.append(f"{name} is missing.")
    except (pa.ArrowException, OSError, KeyError) as error:
        missing.append(f"{name} cannot be read: {error}")
    return schema.empty_table()


def _ints(column: pa.ChunkedArray) -> Ints:
    filled = pc.fill_null(column, UNKNOWN).cast(pa.int64())
    return np.asarray(filled.to_numpy(), dtype=np.int64)


def _tracks(table: pa.Table) -> dict[Partition, dict[int, Track]]:
    found: dict[Partition, dict[int, Track]] = {}
    keys = table.select(["topic", "partition", "broker"])
    for key in keys.group_by(keys.column_names).aggregate([]).to_pylist():
        mask = pc.and_(
            pc.and_(
                pc.equal(table["topic"], key["topic"]),
                pc.equal(table["partition"], key["partition"]),
            ),
            pc.equal(table["broker"], key["broker"]),
        )
        rows = table.filter(mask).sort_by("time_ns")
        track = Track(time_ns=_ints(rows["time_ns"]), leo=_ints(rows["leo"]), hw=_ints(rows["hw"]))
        found.setdefault((key["topic"], key["partition"]), {})[key["broker"]] = track
    return found


def _leaderships(table: pa.Table) -> dict[Partition, list[Leadership]]:
    found: dict[Partition, list[Leadership]] = {}
    for row in table.sort_by("time_ns").to_pylist():
        found.setdefault((row["topic"], row["partition"]), []).append(
            Leadership(
                time_ns=row["time_ns"],
                leader=row["leader"],
                epoch=row["leader_epoch"],
                isr=tuple(row["isr"]),
            )
        )
    return found


def _cuts(table: pa.Table) -> dict[Partition, list[Cut]]:
    """Cuts that the brokers logged themselves."""
    rows = table.filter(pc.equal(table["kind"], "truncation"))
    found: dict[Partition, list[Cut]] = {}
    for row in rows.to_pylist():
        if row["time_ns"] is None or row["offset"] is None or row["topic"] is None:
            continue
        found.setdefault((row["topic"], row["partition"] or 0), []).append(
            Cut(
                time_ns=row["time_ns"],
                broker=row["broker"],
                offset=row["offset"],
                line=row["line"],
            )
        )
    return found


def _merged(logged: Sequence[Cut], tracks: Mapping[int, Track]) -> tuple[Cut, ...]:
    """Logged cuts, and those only seen as a LEO that went down, in order of time."""
    second = 1_000_000_000
    cuts = list(logged)
    for broker, track in tracks.items():
        told = track.leo != UNKNOWN
        times, leo = track.time_ns[told], track.leo[told]
        for i in np.flatnonzero(leo[1:] < leo[:-1]) + 1:
            seen = Cut(time_ns=int(times[i]), broker=broker, offset=int(leo[i]))
            before = int(times[i - 1])
            if not any(
                each.broker == broker and before - second <= each.time_ns <= seen.time_ns + second
                for each in logged
            ):
                cuts.append(seen)
    return tuple(sorted(cuts, key=lambda cut: cut.time_ns))


def _faults(table: pa.Table, known: Strikes) -> tuple[tuple[Fault, ...], tuple[Fault, ...]]:
    """Pair every inject with the heal after it; notes become steps of their own.

    Args:
        known: when the schedule began to inject what; a fault begins then.
    """
    spans: list[Fault] = []
    steps: list[Fault] = []
    for row in table.sort_by("time_ns").to_pylist():
        name, broker, time_ns = row["fault"], row["broker"], row["time_ns"]
        if row["phase"] == "heal":
            _heal(spans, name, broker, time_ns, row["says"])
            continue
        note = row["phase"] == "note"
        since_ns = time_ns if note else begun(known, name, broker, time_ns)
        fault = Fault(name=name, broker=broker, start_ns=since_ns, end_ns=None, says=row["says"])
        (steps if note else spans).append(fault)
    return tuple(spans), tuple(steps)


def _heal(spans: list[Fault], name: str, broker: int | None, time_ns: int, says: str) -> None:
    for i, span in enumerate(spans):
        if span.end_ns is None and (span.name, span.broker) == (name, broker):
            spans[i] = Fault(
                name=name,
                broker=broker,
                start_ns=span.start_ns,
                end_ns=time_ns,
                says=span.says,
                healed=says,
            )
            return


def _acks(table: pa.Table, values: set[str]) -> tuple[dict[Partition, Ints], dict[str, int], int]:
    """Acknowledgements by partition and of the given ids, and the history's last time; in ns."""
    times = pc.fill_null(table["complete_ns"], 0)
    last = pc.max(times).as_py() or 0
    table = table.filter(
        pc.and_(
            pc.equal(table["kind"].cast(pa.string()), SEND),
            pc.equal(table["outcome"].cast(pa.string()), OK),
        )
    )
    acks: dict[Partition, Ints] = {}
    keys = table.select(["topic", "partition"]).drop_null()
    for key in keys.group_by(keys.column_names).aggregate([]).to_pylist():
        mask = pc.and_(
            pc.equal(table["topic"].cast(pa.string()), key["topic"]),
            pc.equal(table["partition"], key["partition"]),
        )
        acks[key["topic"], key["partition"]] = np.sort(_ints(table.filter(mask)["complete_ns"]))
    wanted = table.filter(pc.is_in(table["value"], pa.array(sorted(values), pa.string())))
    at = zip(wanted["value"].to_pylist(), wanted["complete_ns"].to_pylist(), strict=True)
    return acks, {value: time for value, time in at if time is not None}, int(last)


def _pace(table: pa.Table) -> Pace:
    sent = pc.equal(table["kind"].cast(pa.string()), SEND)
    table = table.filter(pc.and_(sent, pc.equal(table["phase"].cast(pa.string()), RUN)))
    good = pc.equal(table["outcome"].cast(pa.string()), OK)
    failed = table.filter(pc.invert(good))
    answered = table.filter(pc.and_(good, pc.is_valid(table["complete_ns"])))
    answered = answered.sort_by("complete_ns")
    ended = _ints(answered["complete_ns"])
    return Pace(
        ended_ns=ended,
        took_ns=ended - _ints(answered["invoke_ns"]),
        failed_ns=_ints(failed["invoke_ns"]),
    )


def _sends(table: pa.Table, places: set[Place]) -> dict[Place, tuple[tuple[int, str], ...]]:
    """Acknowledged sends at the given places, in order of time."""
    offsets = pa.array(sorted({offset for _, _, offset in places}), pa.int64())
    sent = pc.equal(table["kind"].cast(pa.string()), SEND)
    rows = table.filter(pc.and_(sent, pc.is_in(table["offset"], offsets))).sort_by("invoke_ns")
    found: dict[Place, tuple[tuple[int, str], ...]] = {}
    for row in rows.to_pylist():
        place = (row["topic"], row["partition"], row["offset"])
        if place in places:
            found[place] = (*found.get(place, ()), (row["invoke_ns"], row["value"]))
    return found

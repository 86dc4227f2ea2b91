"""Logs that were cleaned as they should be have all last values; what is taken from them is found.

Records of a few keys are sent, tombstones among them, some aborted and some without an answer; the
log is cleaned as Kafka does it, on each replica as far as it came. Then a row of the history, or a
record or marker of a disk, is removed or changed, and the answer is compared with another one,
by another way: of all rows with all others.

``HIGHWATER_HISTORIES`` is how many histories (10,000 is what is published), ``HIGHWATER_SEED`` the
first one's seed. No Spark: kernels run in this process.
"""

import random
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Final, cast

import pyarrow as pa
import pytest

from highwater.checkers.compaction import replica_values
from highwater.checkers.compaction.last_values import last_values
from highwater.harness.runs.derived_settings import DELETE_RETENTION
from highwater.harness.runs.history import FENCE, FINAL, READ, RUN, SEND
from highwater.harness.runs.plan import Plan, Topic, Workload
from highwater.harness.runs.topics.record_keys import parts
from tests.support.seeds import FIRST, HISTORIES
from tests.support.small_views import RUN as NAME
from tests.support.small_views import anomalies, numbered, view_of

pytestmark = [pytest.mark.drawn, pytest.mark.slow, pytest.mark.timeout(3600)]

MS: Final = 1_000_000
RETENTION_MS: Final = 100

Row = dict[str, Any]
Place = tuple[int, str]
"""Partition and value."""


@dataclass(slots=True)
class Written:
    """A record in a log, with the time at which its send began; ``kept`` if it was committed."""

    name: str
    begun: int
    kept: bool


@dataclass(slots=True)
class Bench:
    """A topic of two partitions, of which records are sent to one after the other."""

    rng: random.Random
    rows: list[Row] = field(default_factory=list)
    logs: list[list[Written]] = field(default_factory=lambda: [[], []])
    now: int = 0
    sent: int = 0

    def row(self, kind: str, value: str, **columns: object) -> Row:
        """An operation that begins now and ends a little later."""
        self.now += self.rng.randint(1, 10) * MS
        row: Row = {
            "kind": kind,
            "process": "p0" if kind == SEND else "reader",
            "phase": RUN,
            "outcome": "ok",
            "invoke_ns": self.now,
            "complete_ns": self.now + self.rng.choice((0, 1, 20)) * MS,
            "topic": "t",
            "offset": None,
            "value": value,
            **columns,
        }
        self.rows.append(row)
        return row

    def send(self) -> None:
        """A record is sent; it is in the log, or not, or in the log and aborted."""
        partition = self.rng.randrange(2)
        operation = self.rng.choice("===~")
        name = f"k{self.rng.randrange(4)}{operation}p0-{self.sent}"
        self.sent += 1
        outcome = self.rng.choice(("ok", "ok", "ok", "ok", "info", "fail"))
        there = outcome == "ok" or self.rng.random() < 0.5
        log = self.logs[partition]
        offset = len(log) if there and self.rng.random() < 0.9 and outcome != "info" else None
        row = self.row(SEND, name, partition=partition, outcome=outcome, offset=offset)
        if there:
            log.append(Written(name, row["invoke_ns"], outcome != "fail"))

    def end(self) -> None:
        """All that the cleaner has left is read to the fences."""
        self.now += self.rng.choice((0, 50, 200)) * MS
        for partition, log in enumerate(self.logs):
            at = {"partition": partition, "phase": FINAL}
            place = len(log)
            self.row(SEND, f"fence-{partition}", process=FENCE, offset=place, **at)
            for offset in cleaned(self.rng, log, self.now):
                self.row(READ, log[offset].name, offset=offset, **at)
                self.now -= 9 * MS if self.rng.random() < 0.9 else 0
            self.row(READ, f"fence-{partition}", offset=place, **at)


def cleaned(rng: random.Random, log: list[Written], now: int) -> list[int]:
    """The offsets that readers of committed records get after the cleaner came to some offset."""
    reach = rng.randint(0, len(log))
    last: dict[str, int] = {}
    for offset, record in enumerate(log[:reach]):
        if record.kept:
            last[_key(record.name)] = offset
    left = []
    for offset, record in enumerate(log):
        if not record.kept:
            continue
        old = now - record.begun > (RETENTION_MS + 50) * MS
        gone = _deletes(record.name) and old and rng.random() < 0.7
        if offset >= reach or (last[_key(record.name)] == offset and not gone):
            left.append(offset)
    return left


def _key(name: str) -> str:
    named = parts(name)
    return name if named is None else named.key


def _deletes(name: str) -> bool:
    named = parts(name)
    return named is not None and named.deletes


def made(seed: int) -> list[Row]:
    """A history of a topic that was cleaned as it should be."""
    bench = Bench(random.Random(seed))  # noqa: S311
    for _ in range(bench.rng.randint(3, 40)):
        bench.send()
    bench.end()
    return bench.rows


def found(rows: list[Row]) -> tuple[set[Place], set[tuple[str, str]]]:
    """The records that may have been replaced; the tombstones that are gone, and what came back."""
    listed = numbered({**row, "at": at} for at, row in enumerate(rows))
    view = view_of(listed)
    topic = Topic(config={DELETE_RETENTION: str(RETENTION_MS)})
    plan = Plan(kafka="4.4.0", topic=topic, workload=Workload(keys=4))
    values = last_values(view, [cast("Any", SimpleNamespace(key=NAME, plan=plan))])
    assert values is not None
    names = {row["key"]: (row["partition"], row["value"]) for row in listed}
    back = anomalies(view, [values.resurrected])
    return (
        {names[key] for key in values.replaced.table()["key"].to_pylist()},
        {(row["steps"][0]["value"], row["value"]) for row in back},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """All that the rows of a history tell of one record."""

    name: str
    partition: int
    begun: int
    offered: int | None
    answered: int | None
    maybe: bool
    there: int | None

    @property
    def lasts(self) -> bool:
        """Whether it was acknowledged."""
        return self.answered is not None


def told(rows: list[Row]) -> tuple[set[Place], set[tuple[str, str]]]:
    """The same by the definition, of all records with all others."""
    records = _told(rows)
    replaced: set[Place] = set()
    back: set[tuple[str, str]] = set()
    for record in records:
        final = [
            row
            for row in rows
            if row["kind"] == READ
            and row["phase"] == FINAL
            and row["partition"] == record.partition
        ]
        if not record.lasts or record.there is not None:
            continue
        others = [
            other
            for other in records
            if other.partition == record.partition and _key(other.name) == _key(record.name)
        ]
        standing = [other for other in others if other.there is not None]
        if any(_follows(record, other, other.there) for other in standing):
            replaced.add((record.partition, record.name))
            continue
        if not final:
            continue
        begun = min(row["invoke_ns"] for row in final)
        ended = max(row["complete_ns"] for row in final)
        expired = [
            other
            for other in others
            if other.maybe
            and other.there is None
            and _deletes(other.name)
            and other.begun + RETENTION_MS * MS <= ended
        ]
        if any(
            other is record or other.offered is None or _follows(record, other, other.offered)
            for other in expired
        ):
            replaced.add((record.partition, record.name))
        last = max(standing, key=lambda other: other.there or 0, default=None)
        if (
            last is not None
            and _deletes(record.name)
            and not _deletes(last.name)
            and record.offered is not None
            and ended - begun < RETENTION_MS * MS
        ):
            furthest = max(
                other.offered or 0
                for other in others
                if _deletes(other.name)
                and other.there is None
                and other.lasts
                and other.offered is not None
                and not any(_follows(other, later, later.there) for later in standing)
            )
            if record.offered == furthest:
                back.add((record.name, last.name))
    return replaced, back


def _follows(record: Told, other: Told, place: int | None) -> bool:
    assert record.answered is not None
    further = record.offered is None or (place is not None and place > record.offered)
    return further or other.begun > record.answered


def _told(rows: list[Row]) -> list[Told]:
    by_name: dict[Place, list[Row]] = {}
    for row in rows:
        if row["value"].startswith("k"):
            by_name.setdefault((row["partition"], row["value"]), []).append(row)
    records = []
    for (partition, name), mine in by_name.items():
        sends = [row for row in mine if row["kind"] == SEND]
        good = [row for row in sends if row["outcome"] == "ok"]
        places = [row["offset"] for row in good if row["offset"] is not None]
        met = [row["offset"] for row in mine if row["kind"] == READ and row["phase"] == FINAL]
        records.append(
            Told(
                name=name,
                partition=partition,
                begun=min((row["invoke_ns"] for row in sends), default=-(1 << 62)),
                offered=max(places, default=None),
                answered=max((row["complete_ns"] for row in good), default=None),
                maybe=any(row["outcome"] != "fail" for row in sends),
                there=max(met, default=None),
            )
        )
    return records


def mutated(rows: list[Row], rng: random.Random) -> list[Row]:
    """The history without a row, or with another offset, outcome or time in one."""
    changed = [dict(row) for row in rows]
    finals = [row for row in changed if row["kind"] == READ and row["value"].startswith("k")]
    sends = [row for row in changed if row["kind"] == SEND and row["process"] != FENCE]
    match rng.choice((0, 1, 2, 2, 2, 3, 4, 5)):
        case 0 | 1 if finals:
            gone = rng.choice(finals)
            return [row for row in changed if row is not gone]
        case 2 if deleted := [row for row in finals if _deletes(row["value"])]:
            chosen = rng.choice(deleted)  # an earlier value of its key may have been read
            key, at = _key(chosen["value"]), (chosen["partition"], chosen["offset"])
            return [
                row
                for row in changed
                if row not in finals
                or _key(row["value"]) != key
                or (row["partition"], row["offset"]) < at
            ]
        case 3:
            rng.choice(sends)["outcome"] = rng.choice(("ok", "info", "fail"))
        case 4:
            row = rng.choice(sends)
            row["offset"] = rng.choice((None, rng.randrange(20)))
        case _:
            row = rng.choice(sends)
            shift = rng.choice((-1, 1)) * rng.randrange(200) * MS
            row["invoke_ns"] += shift
            row["complete_ns"] += shift
    return changed


def test_a_topic_that_was_cleaned_has_every_last_value() -> None:
    for seed in range(FIRST, FIRST + HISTORIES):
        rows = made(seed)
        replaced, back = found(rows)
        missing = {
            (record.partition, record.name)
            for record in _told(rows)
            if record.lasts and record.there is None
        }
        assert replaced == missing, seed
        assert back == set(), seed


def test_what_is_taken_from_a_history_is_found_exactly() -> None:
    lost = came_back = 0
    for seed in range(FIRST, FIRST + HISTORIES):
        rows = mutated(made(seed), random.Random(seed))  # noqa: S311
        expected = told(rows)
        assert found(rows) == expected, seed
        replaced, back = expected
        came_back += bool(back)
        lost += any(
            record.lasts
            and record.there is None
            and (record.partition, record.name) not in replaced
            for record in _told(rows)
        )
    assert lost > HISTORIES / 20, f"{lost} of {HISTORIES} histories had a lost record"
    assert came_back > HISTORIES / 100, (
        f"{came_back} of {HISTORIES} histories had a value that came back"
    )


Disk = list[Row]
"""Rows of ``replica_values.ON_DISK`` without part and replica, in the order of their offsets."""


def written(rng: random.Random) -> Disk:
    """A log with transactions of two writers, each ended by a marker."""
    log: Disk = []
    open_for: set[int] = set()
    for _ in range(rng.randint(3, 40)):
        writer = rng.choice((None, None, 7, 8))
        at = len(log)
        if writer is not None and writer in open_for and rng.random() < 0.4:
            log.append(_row(at, writer=writer, marker=rng.choice((1, 1, 2))))
            open_for.discard(writer)
        else:
            name = rng.randrange(4)
            log.append(_row(at, writer=writer, named=name, tombstone=rng.random() < 0.25))
            open_for |= {writer} if writer is not None else set()
    for writer in sorted(open_for):
        log.append(_row(len(log), writer=writer, marker=rng.choice((1, 2))))
    return log


def _row(offset: int, **columns: object) -> Row:
    row: Row = dict.fromkeys(replica_values.ON_DISK.names)
    return row | {"offset": offset, "tombstone": False, **columns}


def commits(log: Disk, row: Row) -> int | None:
    """The offset from which on a record counts; None if it never does."""
    if row["writer"] is None:
        return int(row["offset"])
    ends = (
        other
        for other in log
        if other["marker"] and other["writer"] == row["writer"] and other["offset"] > row["offset"]
    )
    end = min(ends, key=lambda other: other["offset"], default=None)
    return end["offset"] if end is not None and end["marker"] == replica_values.COMMIT else None


def disk_of(rng: random.Random, log: Disk) -> Disk:
    """What a replica that has cleaned as far as some offset holds of a log."""
    reach = rng.randint(0, len(log))
    while reach < len(log) and any(
        row["marker"] is None and (end := _ends(log, row)) is not None and end >= reach
        for row in log[:reach]
    ):
        reach += 1  # never beyond an open transaction
    last: dict[int, int] = {}
    for row in log[:reach]:
        if row["marker"] is None and commits(log, row) is not None:
            last[row["named"]] = row["offset"]
    left = [
        row
        for row in log
        if row["offset"] >= reach
        or row["marker"] is not None
        or (
            last.get(row["named"]) == row["offset"]
            and not (row["tombstone"] and rng.random() < 0.5)
        )
    ]
    return [dict(row) for row in left]


def _ends(log: Disk, row: Row) -> int | None:
    if row["writer"] is None:
        return None
    ends = [
        other["offset"]
        for other in log
        if other["marker"] and other["writer"] == row["writer"] and other["offset"] > row["offset"]
    ]
    return min(ends, default=None)


def found_stale(disks: list[Disk], leos: list[int], bound: int) -> set[tuple[int, int, int]]:
    """Key, replica and offset of the record that the replica does not yield, by the kernels."""
    rows = [
        {
            **row,
            "part": 0,
            "replica": number,
            "named": row["named"] if row["named"] is not None else -1,
        }
        for number, disk in enumerate(disks)
        for row in disk
    ]
    table = pa.Table.from_pylist(rows, replica_values.ON_DISK)
    replicas = pa.Table.from_pylist(
        [
            {"part": 0, "replica": number, "leo": leo, "bound": bound}
            for number, leo in enumerate(leos)
        ],
        replica_values.REPLICAS,
    )
    if not len(table):
        return set()
    visible = replica_values.visible(table)
    if not len(visible):
        return set()
    answer = replica_values.stale(visible, replicas=replicas).to_pylist()
    return {(row["named"], row["replica"], row["offset"]) for row in answer}


def told_stale(disks: list[Disk], leos: list[int], bound: int) -> set[tuple[int, int, int]]:
    """The same by the definition."""
    answer = set()
    views = [
        [
            (row["named"], row["offset"], since, row["tombstone"])
            for row in disk
            if row["marker"] is None and (since := commits(disk, row)) is not None
        ]
        for disk in disks
    ]
    for key in range(4):
        mine = [[row for row in view if row[0] == key] for view in views]
        everything = [row for view in mine for row in view if row[2] < bound]
        if not everything:
            continue
        offset = max(row[1] for row in everything)
        since = min(row[2] for row in everything if row[1] == offset)
        deletes = all(row[3] for row in everything if row[1] == offset)
        for number, view in enumerate(mine):
            yields = max((row[1] for row in view), default=None)
            if yields is None and (deletes or leos[number] > bound):
                continue  # a later record may have removed all
            if since >= leos[number] or (yields is not None and yields >= offset):
                continue
            answer.add((key, number, offset))
    return answer


def drawn(seed: int) -> tuple[random.Random, Disk, list[Disk]]:
    """A log, and three replicas that have cleaned it."""
    rng = random.Random(seed)  # noqa: S311
    log = written(rng)
    return rng, log, [disk_of(rng, log) for _ in range(3)]


def test_replicas_that_cleaned_as_they_should_yield_the_same() -> None:
    for seed in range(FIRST, FIRST + HISTORIES):
        _, log, disks = drawn(seed)
        assert found_stale(disks, [len(log)] * 3, 1 << 60) == set(), seed


def test_a_replica_that_cleaned_after_another_one_stopped_is_not_stale() -> None:
    """Later records removed the last values that the stopped replica's high watermark includes."""
    for seed in range(FIRST, FIRST + HISTORIES):
        rng, log, disks = drawn(seed)
        leo = rng.randrange(len(log) + 1)
        disks[0] = [row for row in log if row["offset"] < leo]
        bound = rng.randrange(leo + 1)
        assert found_stale(disks, [leo, len(log), len(log)], bound) == set(), seed


def test_what_is_taken_from_a_disk_is_found_exactly() -> None:
    several = 0
    for seed in range(FIRST, FIRST + HISTORIES):
        rng, log, disks = drawn(seed)
        leos, bound = [len(log)] * 3, 1 << 60
        disk = rng.choice(disks)
        for _ in range(rng.choice((1, 1, 2))):
            if disk and rng.random() < 0.8:
                disk.remove(rng.choice(disk))
            elif disk:
                row = rng.choice(disk)
                row["marker"] = row["marker"] and 3 - row["marker"]
                row["tombstone"] = not row["tombstone"] if rng.random() < 0.3 else row["tombstone"]
        if rng.random() < 0.3:  # a follower that lags
            number, leo = rng.randrange(3), rng.randrange(len(log) + 1)
            leos[number] = leo
            disks[number] = [row for row in disks[number] if row["offset"] < leo]
        if rng.random() < 0.3:
            bound = rng.randrange(len(log) + 1)
        expected = told_stale(disks, leos, bound)
        assert found_stale(disks, leos, bound) == expected, seed
        several += bool(expected)
    assert several > HISTORIES / 20, f"{several} of {HISTORIES} sets of disks had a stale replica"

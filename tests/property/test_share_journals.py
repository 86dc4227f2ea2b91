"""Share groups that do as they should have no anomaly; whatever is changed in one is found exactly.

A broker gives records to members, counts deliveries, and takes answers from holders alone; locks
run out, members end, and a fault now and then makes it forget who holds what. Then a row of the
members' journals is changed, and the answer is compared with another one: of all rows with all
others.

``HIGHWATER_HISTORIES`` is how many histories (10,000 is what is published), ``HIGHWATER_SEED`` the
first one's seed. No Spark.
"""

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from highwater.checkers.groups.disturbances import AFTERWARDS_NS, BEFORE_NS, Disturbances
from highwater.checkers.groups.share_groups import ShareLog, wrongly_shared
from tests.support.seeds import FIRST, HISTORIES

pytestmark = [pytest.mark.drawn, pytest.mark.slow, pytest.mark.timeout(3600)]

MS: Final = 1_000_000
LOCK: Final = 5_000 * MS
NEVER: Final = 1 << 60
MOST: Final = 5
WEIGHTS: Final = {"accept": 6, "release": 3, "reject": 1}

Row = dict[str, Any]
Found = set[tuple[str, int]]
"""Kind and offset."""


@dataclass(slots=True)
class Kept:
    """What the broker knows of one record."""

    sent_ns: int
    holder: str = ""
    until_ns: int = 0
    count: int = 0
    persisted: int = 0
    done: bool = False


@dataclass(slots=True)
class Bench:
    """A partition of a share group, and its members, each with what it has not answered."""

    rng: random.Random
    now: int = 0
    rows: list[Row] = field(default_factory=list)
    records: list[Kept] = field(default_factory=list)
    members: dict[str, dict[int, int]] = field(default_factory=dict)
    faults: list[int] = field(default_factory=list)
    count: int = 0

    def row(self, event: str, process: str, offset: int | None, **columns: object) -> Row:
        """Something that is effective now."""
        self.now += 20 * MS
        row = {
            "event": event,
            "process": process,
            "group": "g",
            "partition": 0 if offset is not None else None,
            "offset": offset,
            "outcome": "ok",
            "invoke_ns": self.now - self.rng.randint(1, 9) * MS,
            "complete_ns": self.now + self.rng.randint(1, 9) * MS,
            "deliveries": None,
            **columns,
        }
        self.rows.append(row)
        return row

    def expire(self) -> None:
        """Locks run out; what was given out too often is archived."""
        for kept in self.records:
            if kept.holder and self.now >= kept.until_ns:
                kept.holder, kept.persisted = "", kept.count
            if not kept.holder and kept.count >= MOST:
                kept.done = True

    def poll(self, process: str, most: int = 3) -> None:
        """A member is given what is there."""
        self.expire()
        free = [n for n, kept in enumerate(self.records) if not (kept.done or kept.holder)]
        for offset in free[:most]:
            kept = self.records[offset]
            kept.count += 1
            self.row("acquired", process, offset, deliveries=kept.count)
            kept.holder, kept.until_ns = process, self.now + LOCK
            self.members[process][offset] = kept.count

    def answer(self, process: str, *, only: str = "") -> None:
        """A member answers for all that it was given."""
        for offset, count in self.members[process].items():
            event = only or self.rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
            row = self.row(event, process, offset, deliveries=count)
            self.expire()
            kept = self.records[offset]
            heard = bool(only) or self.rng.random() < 0.9
            taken = kept.holder == process and kept.count == count and (heard or self.now % 3)
            if not (taken and heard):
                row["outcome"] = "info"
            if taken:
                kept.holder, kept.persisted = "", count
                kept.done = event != "release"
        self.members[process].clear()

    def end(self, process: str) -> None:
        """A member ends: what it holds is given back, as if it had not been given."""
        self.row("ended", process, None, outcome=self.rng.choice(("ok", "info")))
        for kept in self.records:
            if kept.holder == process:
                kept.holder, kept.count = "", kept.count - 1
        del self.members[process]

    def fail(self) -> None:
        """The leader fails: the next one knows what is persisted, and nothing else."""
        self.now += BEFORE_NS
        self.faults.append(self.now)
        for kept in self.records:
            kept.holder, kept.count = "", kept.persisted
        self.now += self.rng.choice((100 * MS, AFTERWARDS_NS))

    def step(self) -> None:
        """Something happens."""
        draw = self.rng.random()
        if draw < 0.3 or not self.records:
            self.row("tick", "", None)
            self.rows.pop()
            self.records.append(Kept(self.now - self.rng.randint(0, 5) * MS))
        elif draw < 0.4 and len(self.members) < 3:
            self.count += 1
            self.members[f"s{self.count}"] = {}
        elif draw < 0.46 and self.members:
            self.end(self.rng.choice(list(self.members)))
        elif draw < 0.48:
            self.fail()
        elif draw < 0.55:
            self.now += self.rng.choice((500 * MS, LOCK // 2, LOCK + 100 * MS))
        elif self.members:
            process = self.rng.choice(list(self.members))
            if self.members[process] and self.rng.random() < 0.7:
                self.answer(process)
            elif not self.members[process]:
                self.poll(process)

    def drain(self) -> None:
        """One more member accepts all that is left."""
        self.members["last"] = {}
        for _ in range(40):
            self.now += LOCK
            self.poll("last", most=len(self.records))
            self.answer("last", only="accept")
        self.row("drained", "reader", None)


def made(seed: int) -> tuple[list[Row], ShareLog]:
    """The journals of a share group that does as it should, and what else is known."""
    bench = Bench(random.Random(seed))  # noqa: S311
    for _ in range(bench.rng.randint(5, 60)):
        bench.step()
    bench.drain()
    sent = {(0, offset): kept.sent_ns for offset, kept in enumerate(bench.records)}
    faults = Disturbances((at - BEFORE_NS, at + AFTERWARDS_NS) for at in bench.faults)
    return bench.rows, ShareLog(sent=sent, there={*sent}, disturbances=faults)


def found(rows: list[Row], log: ShareLog) -> Found:
    """What the checker finds."""
    return {(finding.kind, finding.offset or 0) for finding in wrongly_shared(rows, log)}


def told(rows: list[Row], log: ShareLog) -> Found:
    """The same by the definition, record by record."""
    wrong: Found = set()
    for partition, offset in log.there:
        given = sorted((r for r in rows if _is(r, offset, {"acquired"})), key=_end)
        answers = [r for r in rows if _is(r, offset, {"accept", "release", "reject"})]
        if not given and any(row["event"] == "drained" for row in rows):
            wrong.add(("never-given", offset))
        if any(row["deliveries"] > MOST for row in given):
            wrong.add(("over-delivered", offset))
        if any(
            answer["event"] != "release"
            and answer["outcome"] == "ok"
            and row["process"] != answer["process"]
            and row["invoke_ns"] > _end(answer)
            and row["deliveries"] > answer["deliveries"]
            for answer in answers
            for row in given
        ):
            wrong.add(("acknowledged-again", offset))
        if _twice(rows, given, answers, log, log.sent[partition, offset]):
            wrong.add(("two-holders", offset))
    return wrong


def _is(row: Row, offset: int, events: set[str]) -> bool:
    return row["offset"] == offset and row["event"] in events


def _end(row: Row) -> int:
    return NEVER if row["complete_ns"] is None else int(row["complete_ns"])


def _left(rows: list[Row], answers: list[Row], holder: Row) -> int:
    """When a holder gave up a record, or ended."""
    times = [
        row["invoke_ns"]
        for row in answers
        if row["process"] == holder["process"] and row["invoke_ns"] >= _end(holder)
    ]
    ended = [
        row["invoke_ns"]
        for row in rows
        if row["event"] == "ended" and row["process"] == holder["process"]
    ]
    return min([*times, *ended], default=NEVER)


def _twice(
    rows: list[Row], given: list[Row], answers: list[Row], log: ShareLog, least: int
) -> bool:
    """Whether a record was held twice; ``least``: when it could be acquired first."""
    for n in range(len(given) - 1):
        holder, taker = given[n], given[n + 1]
        excused = log.disturbances.touch(least, _end(taker))
        left = _left(rows, answers, holder)
        gone = left < _end(taker)
        if not excused and not gone and _end(taker) - least < LOCK:
            return True
        ended_between = any(
            row["event"] == "ended" and holder["invoke_ns"] <= row["invoke_ns"] <= _end(taker)
            for row in rows
        )
        alike = holder["deliveries"] == taker["deliveries"]
        if not excused and alike and not ended_between:
            return True
        if gone:
            least = max(least, left)
            continue
        next_least = least if excused else least + LOCK
        limit = min(next_least + LOCK, _left(rows, answers, taker))
        if not excused and any(
            row["process"] == holder["process"] != taker["process"]
            and row["outcome"] == "ok"
            and row["invoke_ns"] > _end(taker)
            and _end(row) < limit
            for row in answers
        ):
            return True
        least = next_least
    return False


def changed(rows: list[Row], rng: random.Random) -> list[Row]:
    """The journals with another row, count or outcome; or without some row."""
    rows = [dict(row) for row in rows]
    given = [row for row in rows if row["event"] == "acquired"]
    if not given:
        return rows
    row = rng.choice(given)
    match rng.choice(("none", "twice", "count", "answer", "gone")):
        case "none":
            return [other for other in rows if not _is(other, row["offset"], {"acquired"})]
        case "twice":
            moved = rng.choice((30 * MS, 400 * MS, LOCK, 2 * LOCK))
            again = {"invoke_ns": row["invoke_ns"] + moved, "complete_ns": _end(row) + moved}
            count = row["deliveries"] + rng.choice((0, 1, 1, 5))
            rows.append({**row, **again, "process": "other", "deliveries": count})
        case "count":
            row["deliveries"] = max(1, row["deliveries"] + rng.choice((-1, 1, 4)))
        case "answer":
            answers = [r for r in rows if _is(r, row["offset"], {*WEIGHTS})]
            if answers:
                answer = rng.choice(answers)
                answer["outcome"] = "ok"
                answer["event"] = "accept"
        case "gone":
            rows.remove(rng.choice(rows))
    return rows


def test_share_groups_that_do_as_they_should_have_no_anomaly() -> None:
    for seed in range(FIRST, FIRST + HISTORIES):
        assert found(*made(seed)) == set(), seed


def test_what_is_changed_in_a_journal_is_found_exactly() -> None:
    kinds: Counter[str] = Counter()
    for seed in range(FIRST, FIRST + HISTORIES):
        rows, log = made(seed)
        rows = changed(rows, random.Random(seed))  # noqa: S311
        expected = told(rows, log)
        assert found(rows, log) == expected, seed
        kinds.update({kind for kind, _ in expected})
    for kind in ("two-holders", "acknowledged-again", "over-delivered", "never-given"):
        assert kinds[kind] > HISTORIES / 200, f"{dict(kinds)} of {HISTORIES} histories"

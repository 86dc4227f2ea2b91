"""Loops that do as they should break nothing; what is done to their histories is found exactly.

Loops of one or two groups read a topic and write to it, all in one transaction; a commit may be
acknowledged, time out with or without effect, or be aborted. Then the history is changed: a record
vanishes from the final read, a transaction is committed twice, one forgets what it read, an outcome
becomes unknown. The answer is compared with another one, by another way: of all rows with all
others.

``HIGHWATER_HISTORIES`` is how many histories (10,000 is what is published), ``HIGHWATER_SEED`` the
first one's seed. No Spark: kernels run in this process.
"""

import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pytest

from highwater.checkers.core.anomaly_kinds import PROCESSED_TWICE, TORN, UNPROCESSED
from highwater.checkers.history.findings import FINDING
from highwater.checkers.history.partition_ledgers import LIMIT
from highwater.checkers.transactions import atomicity
from highwater.checkers.transactions.exactly_once import exactly_once
from highwater.harness.runs.history import FENCE, FINAL, READ, RUN, SEND, SUBSCRIBE
from tests.support.seeds import FIRST, HISTORIES
from tests.support.small_views import RUN as RUN_KEY
from tests.support.small_views import TOPIC, anomalies, number, numbered, view_of

pytestmark = [pytest.mark.drawn, pytest.mark.slow, pytest.mark.timeout(3600)]

PARTITIONS: Final = 2

Row = dict[str, Any]
Found = set[tuple[object, ...]]
"""Kind, partition, offset and value; of what a group did, the group, too."""


@dataclass(slots=True)
class Bench:
    """A topic and the loops of its groups. ``logs`` have values, or None for what readers skip."""

    rng: random.Random
    rows: list[Row] = field(default_factory=list)
    logs: list[list[str | None]] = field(default_factory=lambda: [[] for _ in range(PARTITIONS)])
    committed: dict[str, dict[int, int]] = field(default_factory=dict)
    now: int = 0
    ops: int = 0
    sent: int = 0

    def row(self, kind: str, process: str, value: str = "", **columns: object) -> None:
        """A row of an operation that begins and ends now."""
        self.rows.append(
            {
                "kind": kind,
                "process": process,
                "phase": RUN,
                "outcome": "ok",
                "invoke_ns": self.now,
                "complete_ns": self.now + 1,
                "topic": TOPIC,
                "partition": 0,
                "offset": None,
                "value": value,
                **columns,
            }
        )

    def append(self, value: str, partition: int, *, there: bool) -> int:
        """A record is put at the end of a log, where readers meet it if it was committed."""
        self.logs[partition].append(value if there else None)
        return len(self.logs[partition]) - 1

    def plain(self) -> None:
        """A producer sends a record by itself."""
        self.now += 10
        self.sent += 1
        value, partition = f"m{self.sent}", self.rng.randrange(PARTITIONS)
        outcome = self.rng.choice(("ok", "ok", "info"))
        offset = self.append(value, partition, there=True)
        self.row(SEND, "producer-9", value, partition=partition, offset=offset, outcome=outcome)

    def transaction(self) -> None:
        """A loop reads on where its group is, writes, and asks for a commit or an abort."""
        self.now += 10
        self.ops += 1
        group = self.rng.choice(list(self.committed))
        process = f"{group}-loop-{self.rng.randrange(2)}"
        outcome = self.rng.choice(("ok", "ok", "ok", "fail", "info"))
        there = outcome == "ok" or (outcome == "info" and self.rng.random() < 0.5)
        shared = {"op": self.ops, "outcome": outcome}
        places = dict(self.committed[group])
        for partition, log in enumerate(self.logs):
            begin = places[partition]
            until = min(len(log), begin + self.rng.randint(0, 3))
            for offset in range(begin, until):
                if (value := log[offset]) is not None:
                    self.row(READ, process, value, partition=partition, offset=offset, **shared)
            places[partition] = until
        for _ in range(self.rng.randint(1, 3)):
            self.sent += 1
            value, partition = f"m{self.sent}", self.rng.randrange(PARTITIONS)
            offset = self.append(value, partition, there=there)
            told = offset if self.rng.random() < 0.8 else None
            self.row(SEND, process, value, partition=partition, offset=told, **shared)
        if there:
            self.committed[group] = places

    def end(self) -> None:
        """All is read to the fences."""
        self.now += 10
        for partition, log in enumerate(self.logs):
            at = {"partition": partition, "phase": FINAL}
            self.row(SEND, FENCE, f"fence-{partition}", offset=len(log), **at)
            for offset, value in enumerate([*log, f"fence-{partition}"]):
                if value is not None:
                    self.row(READ, "reader", value, offset=offset, **at)


def made(seed: int) -> list[Row]:
    """A history in which loops do as they should."""
    rng = random.Random(seed)  # noqa: S311 - histories are no secrets
    groups = ["g0", "g1"][: rng.randint(1, 2)]
    bench = Bench(rng, committed={group: dict.fromkeys(range(PARTITIONS), 0) for group in groups})
    for group in groups:
        for member in range(2):
            bench.row(SUBSCRIBE, f"{group}-loop-{member}", group)
    for _ in range(rng.randint(8, 40)):
        rng.choice((bench.plain, bench.transaction))()
    bench.end()
    return bench.rows


def found(rows: list[Row], *, complete: bool = True) -> Found:
    """What the checkers find."""
    view = view_of(numbered({**row, "at": at} for at, row in enumerate(rows)))
    ends = {row["partition"]: row["offset"] for row in rows if row["process"] == "reader"}
    limits = [
        {"slot": number(RUN_KEY, TOPIC, partition), "reach": reach, "complete": complete}
        for partition, reach in ends.items()
    ]
    sendings = atomicity.sendings(view, pa.Table.from_pylist(limits, LIMIT))
    landed = sendings.not_null("there").distinct(["operation"])["operation"]
    answers = [sendings.by(["operation"], atomicity.torn, FINDING), exactly_once(view, landed)]
    return {
        (row["kind"], row["partition"], row["offset"], row["value"])
        + (() if row["kind"] == TORN else (row["copies"][0]["note"],))
        for row in anomalies(view, answers)
    }


def told(rows: list[Row], *, complete: bool = True) -> Found:
    """The same by the definition."""
    final = defaultdict(set)
    for row in rows:
        if row["kind"] == READ and row["phase"] == FINAL:
            final[row["partition"], row["value"]].add(row["offset"])
    operations = defaultdict(list)
    for row in rows:
        if row.get("op") is not None:
            operations[row["process"], row["op"]].append(row)
    torn = {answer for each in operations.values() for answer in _torn(each, rows, final, complete)}
    return torn | _of_groups(rows, [*operations.values()], final)


def _torn(
    operation: list[Row], rows: list[Row], final: dict[tuple[int, str], set[int]], complete: bool
) -> Found:
    sends = [row for row in operation if row["kind"] == SEND and row["outcome"] == "info"]
    there = [row for row in sends if final.get((row["partition"], row["value"]))]
    gone = []
    for row in sends:
        places = [
            r["offset"]
            for r in rows
            if r["process"] == "reader" and r["partition"] == row["partition"]
        ]
        passed = row["offset"] is not None and places and row["offset"] <= max(places)
        if row not in there and (complete or passed):
            gone.append(row)
    if not there or not gone:
        return set()
    return {(TORN, gone[0]["partition"], gone[0]["offset"], gone[0]["value"])}


def _of_groups(
    rows: list[Row], operations: list[list[Row]], final: dict[tuple[int, str], set[int]]
) -> Found:
    joined = {row["process"]: row["value"] for row in rows if row["kind"] == SUBSCRIBE}
    answers: Found = set()
    for group in set(joined.values()):
        own = [each for each in operations if joined.get(each[0]["process"]) == group]
        sure = [operation for operation in own if _took_effect(operation, final)]
        perhaps = [operation for operation in own if any(r["outcome"] == "info" for r in operation)]
        answers |= _twice(group, sure)
        for send in rows:
            if send["kind"] == SEND and send["outcome"] == "ok" and send["process"] != FENCE:
                answers |= _left_out(group, send, sure, perhaps, final)
    return answers


def _took_effect(operation: list[Row], final: dict[tuple[int, str], set[int]]) -> bool:
    sends = [row for row in operation if row["kind"] == SEND]
    if any(row["outcome"] == "ok" for row in sends):
        return True
    return any(
        row["outcome"] == "info" and final.get((row["partition"], row["value"])) for row in sends
    )


def _reads(operation: list[Row]) -> set[tuple[int, int, str]]:
    return {(r["partition"], r["offset"], r["value"]) for r in operation if r["kind"] == READ}


def _twice(group: str, sure: list[list[Row]]) -> Found:
    return {
        (PROCESSED_TWICE, *record, group)
        for nth, operation in enumerate(sure)
        for other in sure[nth + 1 :]
        for record in _reads(operation) & _reads(other)
    }


def _left_out(
    group: str,
    send: Row,
    sure: list[list[Row]],
    perhaps: list[list[Row]],
    final: dict[tuple[int, str], set[int]],
) -> Found:
    partition, places = send["partition"], final.get((send["partition"], send["value"]), set())
    if len(places) != 1:
        return set()
    (place,) = places
    if any(
        (partition, place) == read[:2] for operation in sure + perhaps for read in _reads(operation)
    ):
        return set()
    here = [
        row
        for operation in sure
        for row in operation
        if row["kind"] == READ and row["partition"] == partition
    ]
    behind = [row for row in here if row["offset"] > place]
    before = [row for row in here if row["offset"] < place]
    if not behind or not before or min(r["invoke_ns"] for r in behind) <= send["complete_ns"]:
        return set()
    return {(UNPROCESSED, partition, place, send["value"], group)}


def _without_final(rows: list[Row], rng: random.Random) -> list[Row]:
    gone = rng.choice([row for row in rows if row["phase"] == FINAL and row["process"] == "reader"])
    return [row for row in rows if row is not gone]


def _without_read(rows: list[Row], rng: random.Random) -> list[Row]:
    reads = [row for row in rows if row["kind"] == READ and row["phase"] == RUN]
    gone = rng.choice(reads) if reads else None
    return [row for row in rows if row is not gone]


def _committed_again(rows: list[Row], rng: random.Random) -> list[Row]:
    failed = sorted({row["op"] for row in rows if row["outcome"] == "fail"})
    again = rng.choice(failed) if failed else None
    return [{**row, "outcome": "ok"} if row.get("op") == again else row for row in rows]


def _unknown(rows: list[Row], rng: random.Random) -> list[Row]:
    ops = sorted({row["op"] for row in rows if row.get("op") is not None})
    blurred = rng.choice(ops) if ops else None
    return [
        {**row, "outcome": "info"} if row.get("op") == blurred and blurred is not None else row
        for row in rows
    ]


CHANGES: Final[tuple[Callable[[list[Row], random.Random], list[Row]], ...]] = (
    _without_final,
    _without_read,
    _committed_again,
    _unknown,
)


def test_loops_that_do_as_they_should_break_nothing() -> None:
    for seed in range(FIRST, FIRST + HISTORIES):
        assert found(made(seed)) == set(), seed


def test_what_is_done_to_a_history_is_found_exactly() -> None:
    kinds: dict[object, int] = defaultdict(int)
    for seed in range(FIRST, FIRST + HISTORIES):
        rng = random.Random(seed)  # noqa: S311 - histories are no secrets
        rows = made(seed)
        for _ in range(rng.randint(1, 3)):
            rows = rng.choice(CHANGES)(rows, rng)
        complete = rng.random() < 0.8
        expected = told(rows, complete=complete)
        assert found(rows, complete=complete) == expected, seed
        for kind in {answer[0] for answer in expected}:
            kinds[kind] += 1
    for kind in (TORN, PROCESSED_TWICE, UNPROCESSED):
        assert kinds[kind] > HISTORIES / 100, (
            f"{kind}: {kinds[kind]} of {HISTORIES} histories had any"
        )

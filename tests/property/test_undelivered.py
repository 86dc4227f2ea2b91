"""Groups that do as they should have no undelivered record; one that is taken from them is found.

Members join, are given what is written since their group's last commit, crash before they commit,
seek, and leave; partitions are added. Then whatever one record was given is removed, or some
other row, and the answer is compared with another one, by another way: of all rows with all others.

``HIGHWATER_HISTORIES`` is how many histories (10,000 is what is published), ``HIGHWATER_SEED`` the
first one's seed. No Spark: kernels run in this process.
"""

import random
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from highwater.checkers.groups.undelivered import undelivered
from highwater.harness.runs.history import FENCE, FINAL, READ, RUN, SEEK, SEND, SUBSCRIBE
from tests.support.seeds import FIRST, HISTORIES
from tests.support.small_views import anomalies, numbered, view_of

pytestmark = [pytest.mark.drawn, pytest.mark.slow, pytest.mark.timeout(3600)]


STEPS: Final = ("send", "poll", "join", "leave", "add", "find")
WEIGHTS: Final = (10, 8, 1, 0.3, 1, 0.7)

Row = dict[str, Any]
Found = set[tuple[str, int, int, str]]
"""Group, partition, offset, value."""


@dataclass(slots=True)
class Group:
    """A group with its members, of each of which it knows where it reads.

    Attributes:
        reset: where it begins without a commit: earliest or latest.
    """

    name: str
    reset: str
    committed: dict[int, int] = field(default_factory=dict)
    reads: dict[str, dict[int, int]] = field(default_factory=dict)


@dataclass(slots=True)
class Bench:
    """A topic, its producers and groups; every step takes some time, or none."""

    rng: random.Random
    rows: list[Row] = field(default_factory=list)
    logs: list[list[str]] = field(default_factory=lambda: [[]])
    groups: list[Group] = field(default_factory=list)
    now: int = 0
    members: int = 0

    def row(self, kind: str, process: str, value: str = "", **columns: object) -> None:
        """An operation that begins now, or before the last one ended; no two at the same time."""
        self.now += 2 * self.rng.randint(1, 10)
        begun = self.now - self.rng.choice((0, 0, 15))
        self.rows.append(
            {
                "kind": kind,
                "process": process,
                "phase": RUN,
                "outcome": "ok",
                "invoke_ns": begun,
                "complete_ns": self.now + self.rng.choice((0, 3, 30)),
                "topic": "t",
                "partition": None,
                "offset": None,
                "value": value,
                **columns,
            }
        )

    def send(self) -> None:
        """A record is written, and its producer may not hear of it, or be refused."""
        partition = self.rng.randrange(len(self.logs))
        log = self.logs[partition]
        value = f"m{partition}-{len(log)}"
        outcome = self.rng.choice(("ok", "ok", "ok", "info"))
        offset = len(log) if outcome == "ok" and self.rng.random() < 0.9 else None
        self.row(SEND, "p0", value, partition=partition, offset=offset, outcome=outcome)
        log.append(value)

    def join(self, group: Group) -> None:
        """A member joins and is assigned every partition that there is."""
        self.members += 1
        name = f"c{self.members}"
        self.row(SUBSCRIBE, name, group.name, partition=0)
        group.reads[name] = {}
        for partition in range(len(self.logs)):
            self.find(group, name, partition)

    def find(self, group: Group, name: str, partition: int) -> None:
        """A member is assigned a partition, of which it alone reads from now on."""
        for others in group.reads.values():
            others.pop(partition, None)
        at = group.committed.get(partition)
        begins = len(self.logs[partition]) if group.reset == "latest" else 0
        self.row(SEEK, name, partition=partition, offset=at)
        group.reads[name][partition] = begins if at is None else at

    def poll(self, group: Group) -> None:
        """A member is given the next records of a partition, and mostly commits."""
        for name, places in group.reads.items():
            for partition, at in list(places.items()):
                until = min(len(self.logs[partition]), at + self.rng.randint(0, 3))
                for offset in range(at, until):
                    value = self.logs[partition][offset]
                    self.row(READ, name, value, partition=partition, offset=offset)
                places[partition] = until
                if until > at and self.rng.random() < 0.8:
                    group.committed[partition] = until

    def step(self) -> None:
        """Something happens."""
        group = self.rng.choice(self.groups)
        match self.rng.choices(STEPS, WEIGHTS)[0]:
            case "send":
                self.send()
            case "poll":
                self.poll(group)
            case "join" if self.members < 6:
                self.join(group)
            case "leave" if group.reads:
                group.reads.pop(self.rng.choice(list(group.reads)))
            case "add" if len(self.logs) < 3:
                self.logs.append([])
            case "find" if group.reads:
                name = self.rng.choice(list(group.reads))
                self.find(group, name, self.rng.randrange(len(self.logs)))
            case _:
                self.send()

    def end(self) -> None:
        """All is read to the fences."""
        for partition, log in enumerate(self.logs):
            at = {"partition": partition, "phase": FINAL}
            self.row(SEND, FENCE, f"fence-{partition}", offset=len(log), **at)
            for offset, value in enumerate([*log, f"fence-{partition}"]):
                self.row(READ, "reader", value, offset=offset, **at)


def made(seed: int, resets: tuple[str, ...]) -> list[Row]:
    """A history in which groups do as they should."""
    bench = Bench(random.Random(seed))  # noqa: S311
    count = bench.rng.randint(1, 2)
    bench.groups = [Group(f"g{n}", bench.rng.choice(resets)) for n in range(count)]
    for _ in range(bench.rng.randint(10, 80)):
        bench.step()
    bench.end()
    return bench.rows


def found(rows: list[Row]) -> Found:
    """What the checker finds."""
    view = view_of(numbered({**row, "at": at} for at, row in enumerate(rows)))
    answer = undelivered(view)
    return {
        (row["copies"][0]["note"], row["partition"], row["offset"], row["value"])
        for row in anomalies(view, [answer])
    }


def told(rows: list[Row]) -> Found:
    """The same by the definition, of all rows with all others."""
    groups: dict[str, set[str]] = {}
    for row in rows:
        if row["kind"] == SUBSCRIBE and row["value"]:
            groups.setdefault(row["value"], set()).add(row["process"])
    return {
        (group, send["partition"], place, send["value"])
        for send in rows
        if send["kind"] == SEND and send["outcome"] == "ok" and send["process"] != FENCE
        for group, members in groups.items()
        if (place := _there(rows, send)) is not None and _skipped(rows, send, place, members)
    }


def _there(rows: list[Row], send: Row) -> int | None:
    places = {
        row["offset"]
        for row in rows
        if row["kind"] == READ
        and row["phase"] == FINAL
        and (row["partition"], row["value"]) == (send["partition"], send["value"])
    }
    return places.pop() if len(places) == 1 else None


def _skipped(rows: list[Row], send: Row, place: int, members: set[str]) -> bool:
    of_group = [row for row in rows if row["process"] in members]
    here = [row for row in of_group if row["partition"] == send["partition"]]
    given = [row for row in here if row["kind"] == READ]
    if any(row["value"] == send["value"] or row["offset"] == place for row in given):
        return False
    behind = [row for row in given if row["offset"] > place]
    if not behind:
        return False
    first_ns = min(row["invoke_ns"] for row in behind)
    ends = {row["complete_ns"] for row in behind if row["invoke_ns"] == first_ns}
    sought = [row for row in here if row["kind"] == SEEK and (row["offset"] or 0) > place]
    assert len(ends) == 1, "a step has a time of its own"
    if first_ns <= send["complete_ns"] or any(r["invoke_ns"] <= max(ends) for r in sought):
        return False
    for member in members:
        own = [row for row in rows if row["process"] == member]
        reads = [row["complete_ns"] for row in own if row["kind"] == READ]
        last_ns = max((row["invoke_ns"] for row in own), default=-1)
        if reads and min(reads) <= send["invoke_ns"] and last_ns >= first_ns:
            return True
    return False


def mutated(rows: list[Row], rng: random.Random) -> list[Row]:
    """The history without all that one group was given of a record; or without some other row."""
    reads = [row for row in rows if row["kind"] == READ and row["phase"] == RUN]
    if not reads or rng.random() < 0.2:
        gone = rng.choice(rows)
        return [row for row in rows if row is not gone]
    gone = rng.choice(reads)
    joined = {row["process"]: row["value"] for row in rows if row["kind"] == SUBSCRIBE}
    group = joined[gone["process"]]
    return [
        row
        for row in rows
        if row["kind"] != READ
        or row["value"] != gone["value"]
        or joined.get(row["process"]) != group
    ]


def test_groups_that_begin_at_the_earliest_are_given_everything() -> None:
    for seed in range(FIRST, FIRST + HISTORIES):
        assert found(made(seed, ("earliest",))) == set(), seed


def test_what_is_taken_from_a_group_is_found_exactly() -> None:
    several = 0
    for seed in range(FIRST, FIRST + HISTORIES):
        rows = mutated(made(seed, ("earliest", "latest")), random.Random(seed))  # noqa: S311
        expected = told(rows)
        assert found(rows) == expected, seed
        several += bool(expected)
    assert several > HISTORIES / 20, f"{several} of {HISTORIES} histories had any"

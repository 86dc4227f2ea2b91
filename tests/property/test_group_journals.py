"""Groups that do as they should have no anomaly; whatever is changed in one is found exactly.

A coordinator gives partitions to members, epoch by epoch; it puts out some that learn so later, and
takes commits: some are acknowledged, some fail and take effect at once, later, or never. Then a row
of the members' journals is changed, and the answer is compared with another one, by another way: of
all rows with all others.

``HIGHWATER_HISTORIES`` is how many histories (10,000 is what is published), ``HIGHWATER_SEED`` the
first one's seed. No Spark.
"""

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from highwater.checkers.groups.commits import repeated, wrong_offsets
from highwater.checkers.groups.ownership import doubly_owned
from tests.support.seeds import FIRST, HISTORIES

pytestmark = [pytest.mark.drawn, pytest.mark.slow, pytest.mark.timeout(3600)]

NEVER: Final = 1 << 60

Row = dict[str, Any]
Found = set[tuple[str, int, int | None]]
"""Kind, partition, and the offset, where there is one."""


@dataclass(slots=True)
class Member:
    """A member, and what it believes to own: where it reads of each partition."""

    name: str
    reads: dict[int, int] = field(default_factory=dict)
    out: bool = False
    """It was put out, and does not know."""


@dataclass(slots=True)
class Bench:
    """A group with its coordinator."""

    rng: random.Random
    partitions: int
    rows: list[Row] = field(default_factory=list)
    members: list[Member] = field(default_factory=list)
    committed: dict[int, int] = field(default_factory=dict)
    late: list[tuple[int, int]] = field(default_factory=list)
    now: int = 0
    epoch: int = 0
    count: int = 0

    def row(self, event: str, process: str, partition: int, **columns: object) -> Row:
        """Something that is effective now: it began before, and ends later."""
        self.now += 20
        row = {
            "event": event,
            "process": process,
            "group": "g",
            "partition": partition,
            "outcome": "ok",
            "invoke_ns": self.now - self.rng.randint(1, 8),
            "complete_ns": self.now + self.rng.randint(1, 8),
            "offset": None,
            "end": None,
            "epoch": None,
            **columns,
        }
        self.rows.append(row)
        return row

    def rebalance(self) -> None:
        """Everything is taken from the members, and given to some."""
        inside = [member for member in self.members if not member.out]
        for member in inside:
            self.give_up(member, "revoked")
        self.epoch += 1
        for partition in range(self.partitions) if inside else ():
            member = self.rng.choice(inside)
            at = self.committed.get(partition)
            self.row("committed", member.name, partition, offset=at)
            begins = at or 0
            self.row("assigned", member.name, partition, offset=begins, epoch=self.epoch)
            member.reads[partition] = begins

    def give_up(self, member: Member, event: str) -> None:
        """A member's partitions are taken from it."""
        for partition in member.reads:
            self.row(event, member.name, partition)
        member.reads.clear()

    def join(self) -> None:
        """A member joins."""
        self.count += 1
        self.members.append(Member(f"c{self.count}"))
        self.rebalance()

    def poll(self, member: Member) -> None:
        """A member is given records, and may commit."""
        for partition, at in list(member.reads.items()):
            if self.rng.random() < 0.1:
                at = self.rng.randint(0, at)  # noqa: PLW2901 - it goes on from elsewhere
                self.row("sought", member.name, partition, offset=at)
            end = at + self.rng.randint(1, 3)
            self.row("given", member.name, partition, offset=at, end=end)
            member.reads[partition] = end
            if self.rng.random() < 0.7:
                self.commit(member, partition, end)

    def commit(self, member: Member, partition: int, offset: int) -> None:
        """A member asks for a commit."""
        if member.out:
            self.row("commit", member.name, partition, offset=offset, outcome="info")
            return
        match self.rng.choice(("ok", "ok", "ok", "at once", "late", "never")):
            case "ok":
                row = self.row("commit", member.name, partition, offset=offset)
                row["complete_ns"] += self.rng.choice((0, 0, 0, 30, 200))
                self.committed[partition] = offset
                return
            case "at once":
                self.committed[partition] = offset
            case "late":
                self.late.append((partition, offset))
        row = self.row("commit", member.name, partition, offset=offset, outcome="info")
        row["complete_ns"] = self.rng.choice((None, row["complete_ns"]))

    def step(self) -> None:
        """Something happens."""
        draw = self.rng.random()
        if draw < 0.1 and len(self.members) < 4:
            self.join()
        elif draw < 0.2:
            self.rebalance()
        elif draw < 0.27 and self.members:
            self.rng.choice(self.members).out = True
            self.rebalance()
        elif draw < 0.35 and self.late:
            self.committed |= [self.late.pop()]
        elif draw < 0.42 and (outside := [member for member in self.members if member.out]):
            self.give_up(outside[0], "lost")
            self.members.remove(outside[0])
        elif self.members:
            self.poll(self.rng.choice(self.members))

    def end(self) -> None:
        """All members have ended, and the coordinator is asked."""
        for partition in range(self.partitions):
            at = self.committed.get(partition)
            self.row("committed", "reader", partition, offset=at)


def made(seed: int) -> tuple[list[Row], dict[tuple[str, int], int | None]]:
    """The journals of a group that does as it should, and what is on the disk."""
    rng = random.Random(seed)  # noqa: S311
    bench = Bench(rng, rng.randint(1, 2))
    for _ in range(rng.randint(5, 60)):
        bench.step()
    bench.end()
    return bench.rows, {("g", partition): at for partition, at in bench.committed.items()}


def found(rows: list[Row], disk: dict[tuple[str, int], int | None]) -> Found:
    """What the checkers find."""
    findings = [*doubly_owned(rows), *wrong_offsets(rows, disk), *repeated(rows)]
    return {(finding.kind, finding.partition, finding.offset) for finding in findings}


def told(rows: list[Row], disk: dict[tuple[str, int], int | None]) -> Found:
    """The same by the definition, of all rows with all others."""
    end = [
        {"event": "committed", "process": "reader", "partition": place[1], "offset": at}
        | {"invoke_ns": NEVER, "complete_ns": NEVER}
        for place, at in _everywhere(rows, disk).items()
    ]
    wrong = {
        ("lost-commit" if row["process"] == "reader" else "stale-commit", row["partition"], offset)
        for row in [*rows, *end]
        if row["event"] == "committed" and (offset := _overtaken(rows, row)) is not None
    }
    assigned = [row for row in rows if row["event"] == "assigned"]
    twice = {
        ("two-owners", one["partition"], None)
        for one in assigned
        for two in assigned
        if one["partition"] == two["partition"] and _at_once(rows, one, two)
    }
    again = {
        ("given-again", row["partition"], row["offset"])
        for row in rows
        if row["event"] == "given" and _past(rows, row)
    }
    return wrong | twice | again


def _everywhere(
    rows: list[Row], disk: dict[tuple[str, int], int | None]
) -> dict[tuple[str, int], int | None]:
    places = {(row["group"], row["partition"]) for row in rows}
    return {place: disk.get(place) for place in places}


def _end(row: Row) -> int:
    return NEVER if row["complete_ns"] is None else int(row["complete_ns"])


def _overtaken(rows: list[Row], question: Row) -> int | None:
    """The offset that it was wrong not to tell, or not a later one."""
    commits = [
        row
        for row in rows
        if row["event"] == "commit" and row["partition"] == question["partition"]
    ]
    done = [row for row in commits if row["outcome"] == "ok" and _end(row) < question["invoke_ns"]]
    if not done:
        return None
    for commit in commits if question["offset"] is not None else ():
        if commit["offset"] != question["offset"] or commit["invoke_ns"] >= _end(question):
            continue
        if commit["outcome"] != "ok" or all(_end(commit) >= row["invoke_ns"] for row in done):
            return None
    return int(max(done, key=lambda row: row["invoke_ns"])["offset"])


def _leaves(rows: list[Row], assigned: Row) -> Row | None:
    """The row by which a partition is taken from a member that was assigned it, or given anew."""
    own = ("process", "partition")
    ends = [
        row
        for row in rows
        if row["event"] in {"revoked", "lost", "assigned"}
        and all(row[name] == assigned[name] for name in own)
        and _end(row) > _end(assigned)
    ]
    return min(ends, key=_end, default=None)


def _at_once(rows: list[Row], old: Row, new: Row) -> bool:
    if old["process"] == new["process"] or old["epoch"] > new["epoch"]:
        return False
    if old["epoch"] == new["epoch"]:
        return all(
            (_leaves(rows, first) or {"invoke_ns": NEVER})["invoke_ns"] > second["invoke_ns"]
            for first, second in ((old, new), (new, old))
        )
    end = _leaves(rows, old)
    until = NEVER if end is None else _end(end) if end["event"] == "revoked" else end["invoke_ns"]
    return any(
        row["event"] == "commit"
        and row["outcome"] == "ok"
        and row["process"] == old["process"]
        and row["invoke_ns"] >= _end(old)
        and row["invoke_ns"] > new["invoke_ns"]
        and _end(row) <= until
        for row in rows
    )


def _past(rows: list[Row], given: Row) -> bool:
    """Whether a member was given what it was past."""
    own = [
        row
        for row in rows
        if (row["process"], row["partition"]) == (given["process"], given["partition"])
        and _end(row) <= _end(given)
        and row["event"] in {"assigned", "given", "sought", "revoked", "lost"}
    ]
    own.sort(key=_end)
    position = None
    for row in own:
        if row is given:
            return position is not None and bool(row["offset"] < position)
        match row["event"]:
            case "assigned" | "sought":
                position = row["offset"]
            case "given" if position is not None:
                position = max(position, row["end"])
            case "revoked" | "lost":
                position = None
    return False


def changed(rows: list[Row], rng: random.Random) -> list[Row]:
    """The journals with another offset, epoch or outcome in a row; or without a row."""
    rows = [dict(row) for row in rows]
    if rng.random() < 0.1:
        rows.remove(rng.choice(rows))
        return rows
    kind = rng.choice(("committed", "commit", "assigned", "given", "revoked"))
    candidates = [row for row in rows if row["event"] == kind]
    if not candidates:
        return rows
    row = rng.choice(candidates)
    match kind:
        case "committed":
            row["offset"] = rng.choice((None, max(0, (row["offset"] or 0) - rng.randint(1, 4))))
        case "commit":
            row["outcome"] = "ok" if row["outcome"] == "info" else "info"
            row["complete_ns"] = _end(row) if row["complete_ns"] else row["invoke_ns"] + 9
        case "assigned":
            row["epoch"] = max(1, row["epoch"] - 1)
            if rng.random() < 0.7:  # and nobody had to leave
                rows = [other for other in rows if other["event"] != "revoked"]
        case "given":
            row["offset"] -= rng.randint(1, 3)
        case "revoked":
            rows.remove(row)
    return rows


def test_groups_that_do_as_they_should_have_no_anomaly() -> None:
    for seed in range(FIRST, FIRST + HISTORIES):
        assert found(*made(seed)) == set(), seed


def test_what_is_changed_in_a_journal_is_found_exactly() -> None:
    kinds: Counter[str] = Counter()
    for seed in range(FIRST, FIRST + HISTORIES):
        rng = random.Random(seed)  # noqa: S311
        rows, disk = made(seed)
        rows = changed(rows, rng)
        expected = told(rows, disk)
        assert found(rows, disk) == expected, seed
        kinds.update({kind for kind, *_ in expected})
    for kind in ("two-owners", "lost-commit", "stale-commit", "given-again"):
        assert kinds[kind] > HISTORIES / 200, f"{dict(kinds)} of {HISTORIES} histories"

"""A valid history that is being changed, and anomalies as they must be found in it."""

from collections.abc import Callable, Iterator
from copy import copy
from random import Random
from typing import NamedTuple

from highwater.harness.runs.history import FAIL, OK, READ, READ_UNCOMMITTED, SEND
from tests.property.generate import LAST, TOPIC, Op, Row, World

Step = tuple[str, int, str, int | None, int | None, str | None]
"""Process, operation, kind, partition, offset, value."""


class Anomaly(NamedTuple):
    """What is to be found."""

    kind: str
    partition: int | None
    offset: int | None
    value: str | None
    delta: int | None
    steps: tuple[Step, ...]

    @property
    def called(self) -> str:
        """As the cause of what follows from it."""
        return f"{self.kind} {TOPIC}-{self.partition}@{self.offset}"


class At(NamedTuple):
    """A row of a history, and its operation."""

    op: Op
    nth: int

    @property
    def row(self) -> Row:
        return self.op.rows[self.nth]


class Draft:
    """A history that is being changed, and what it says of itself.

    Attributes:
        order: of each partition the records that were committed, as offset and value.
        places: partition and offset of every record that was ever appended.
    """

    def __init__(self, world: World, random: Random) -> None:
        self.random = random
        self.ops = [copy(op) for op in world.ops]
        for op in self.ops:
            op.rows = list(op.rows)
        self.order = [
            [(o, v) for o, v, txn in log.records if txn is None or txn.state == "committed"]
            for log in world.logs
        ]
        self.places = {
            value: (partition, offset)
            for partition, log in enumerate(world.logs)
            for offset, value, _ in log.records
        }
        self.ends = [log.end for log in world.logs]
        self.now = max(op.end for op in world.ops)

    def rows(self, *kinds: str) -> Iterator[At]:
        for op in self.ops:
            for index, row in enumerate(op.rows):
                if row.kind in kinds:
                    yield At(op, index)

    def of(self, value: str, *kinds: str) -> list[At]:
        return [at for at in self.rows(*kinds) if at.row.value == value]

    def sender(self, value: str) -> At:
        return self.of(value, SEND)[0]

    def choose(self, found: list[At]) -> At | None:
        return self.random.choice(found) if found else None

    def drop(self, gone: list[At]) -> None:
        """Remove rows, and operations that have none left."""
        for op in self.ops:
            places = {at.nth for at in gone if at.op is op}
            op.rows = [row for index, row in enumerate(op.rows) if index not in places]
        self.ops = [op for op in self.ops if op.rows]

    def rank(self, partition: int, offset: int) -> int:
        """How many committed records stand before an offset."""
        return sum(o < offset for o, _ in self.order[partition])

    def op(self, process: str, number: int, *rows: Row, outcome: str = OK, length: int = 9) -> Op:
        """Another operation, after all others."""
        self.now += 20
        op = Op(process=process, number=number, begin=self.now, outcome=outcome, rows=list(rows))
        op.end = op.begin + length
        self.ops.append(op)
        return op

    def place(self, partition: int) -> int:
        """The next offset of a partition."""
        self.ends[partition] += 1
        return self.ends[partition] - 1

    def step(self, at: At, why: str | None = None) -> Step:
        """A row as a witness shows it; ``why`` where it is there for its time alone."""
        number = at.op.number
        if number is None:
            before = self.ops[: next(n for n, op in enumerate(self.ops) if op is at.op)]
            number = sum(len(op.rows) for op in before) + at.nth
        if why:
            return at.op.process, number, why, None, None, None
        return at.op.process, number, *at.row

    def steps(self, *rows: At) -> tuple[Step, ...]:
        return tuple(self.step(at) for at in rows)

    def partition(self) -> int:
        return self.random.randrange(len(self.ends))

    def final(self) -> Op | None:
        """The last operation of the last reader in a partition."""
        found = {at.row.partition: at.op for at in self.rows(READ) if at.op.process == LAST}
        ends = [op for partition, op in found.items() if op.rows[-1].partition == partition]
        return self.random.choice(ends) if ends else None

    def furthest(self, partition: int, *outcomes: str) -> int:
        """How far anybody read in a partition, in an operation that ended in one of these ways."""
        return max(
            (
                at.row.offset or 0
                for at in self.rows(READ)
                if at.op.outcome in outcomes and at.row.partition == partition
            ),
            default=-1,
        )

    def seen(self, at: At) -> bool:
        """Whether a row reads what was committed; of what was not, some read as well."""
        return (at.row.offset, at.row.value) in self.order[at.row.partition or 0]

    def teller(self, partition: int, offset: int, value: str) -> At:
        """The first row that tells that a record stands there.

        A reader of uncommitted records does not, of a send whose partition nobody was told.
        """
        adrift = any(at.row.partition is None for at in self.of(value, SEND))
        return next(
            at
            for at in self.rows(SEND, READ)
            if at.row[1:] == (partition, offset, value)
            and (at.row.kind == READ or at.op.outcome != FAIL)
            and not (adrift and at.op.isolation == READ_UNCOMMITTED)
        )

    def tidy(self) -> list[int]:
        """The partitions in which no operation's records have others' between them."""
        return [partition for partition in range(len(self.ends)) if self._tidy(partition)]

    def _tidy(self, partition: int) -> bool:
        for op in self.ops:
            own = {row.value for row in op.rows if row.kind == SEND}
            places = [self.places[v] for v in own if self.places.get(v, (None,))[0] == partition]
            first, last = min(places, default=(0, 0)), max(places, default=(0, 0))
            if any(first[1] < o < last[1] and v not in own for o, v in self.order[partition]):
                return False
        return True

    def stage(self) -> None:
        """Another partition, in which there is a place for every anomaly."""
        partition = len(self.ends)
        self.ends.append(0)
        self.order.append([])
        sent: list[Row] = []
        for process, number, count in (("s", 0, 2), ("q", 0, 1), ("q", 1, 1), ("q", 2, 1)):
            rows = []
            for _ in range(count):
                value = f"s{len(sent)}"
                rows.append(Row(SEND, partition, self.place(partition), value))
                sent.append(Row(READ, *rows[-1][1:]))
            self.op(process, number, *rows)
            self.order[partition] += [(row.offset or 0, row.value) for row in rows]
            self.place(partition)
        self.op("r", 0, *sent[:3])
        self.op("r", 1, *sent[3:])
        self.op(LAST, sum(op.process == LAST for op in self.ops) + 1, *sent)


Injection = Callable[[Draft], Anomaly | None]


def put(world: World, seed: int, inject: Injection) -> tuple[Anomaly, list[Op]]:
    """A history with an anomaly, which is where there is a place for it, or in a partition more."""
    draft = Draft(world, Random(seed))  # noqa: S311 - nothing is to be kept secret
    anomaly = inject(draft)
    if anomaly is None:
        draft.stage()
        anomaly = inject(draft)
    assert anomaly is not None
    return anomaly, draft.ops

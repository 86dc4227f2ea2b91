"""Valid histories of clients, from a seed: a small Kafka that does nothing wrong, and its clients.

Producers that wait and producers that do not, transactions that send and poll and are committed or
aborted, readers of committed and of uncommitted records that are assigned, seek, subscribe and are
rebalanced, clients that ask where logs end, operations that fail or of which nobody knows the end,
clients that crash, and a last reader that comes to the end of every partition. Whatever a client
can do in one step it does at one moment; between two steps of a client others take theirs.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Final, NamedTuple

import pyarrow as pa

from highwater.harness.runs.history import (
    ASSIGN,
    END,
    FAIL,
    INFO,
    OK,
    OPERATIONS,
    READ,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    REBALANCE,
    SEEK,
    SEND,
    SUBSCRIBE,
)

TOPIC: Final = "events"
LAST: Final = "last"
"""The process that reads everything in the end."""

Client = Iterator[None]


class Row(NamedTuple):
    """One row of an operation."""

    kind: str
    partition: int | None
    offset: int | None = None
    value: str = ""


@dataclass(slots=True, kw_only=True)
class Op:
    """An operation. ``number`` is null where its process does not count."""

    process: str
    number: int | None
    begin: int
    end: int = 0
    outcome: str = OK
    isolation: str | None = None
    rows: list[Row] = field(default_factory=list)


class Txn:
    """A transaction; ``touched`` are the partitions that get its marker."""

    def __init__(self) -> None:
        self.state = "open"
        self.touched: set[int] = set()


@dataclass(slots=True)
class Log:
    """A partition: offset, value and transaction of each record; markers have an offset alone."""

    records: list[tuple[int, str, Txn | None]] = field(default_factory=list)
    end: int = 0

    def append(self, value: str, txn: Txn | None = None) -> int:
        self.records.append((self.end, value, txn))
        self.end += 1
        return self.end - 1

    def from_(self, position: int, isolation: str | None) -> tuple[list[tuple[int, str]], int]:
        """What a reader finds from a position on, and where it is then."""
        if isolation == READ_UNCOMMITTED:
            return [(o, v) for o, v, _ in self.records if o >= position], self.end
        opened = (o for o, _, txn in self.records if txn and txn.state == "open")
        stable = min(opened, default=self.end)
        found = [
            (o, v)
            for o, v, txn in self.records
            if position <= o < stable and (txn is None or txn.state == "committed")
        ]
        return found, stable


class World:
    """The cluster, its clock, and all that its clients did."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.logs = [Log() for _ in range(random.randint(1, 3))]
        self.ops: list[Op] = []
        self._now = 0
        self._values = 0
        self._numbers: dict[str, int] = {}

    def now(self) -> int:
        self._now += self.random.randint(1, 1000)
        return self._now

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def value(self) -> str:
        self._values += 1
        return f"m{self._values}"

    def some(self) -> list[int]:
        """Some of the partitions, at least one."""
        return self.random.sample(range(len(self.logs)), self.random.randint(1, len(self.logs)))

    def begin(self, process: str, *, counted: bool = True) -> Op:
        number = self._numbers.get(process, 0)
        self._numbers[process] = number + 1
        return Op(process=process, number=number if counted else None, begin=self.now())

    def done(self, op: Op, outcome: str = OK) -> None:
        op.end, op.outcome = self.now(), outcome
        if op.rows:
            self.ops.append(op)

    def told(self, offset: int, probability: float) -> int | None:
        return offset if self.chance(probability) else None

    def play(self, clients: Iterable[Client]) -> None:
        """Let clients take their steps, in any order, until all have come to their end."""
        running = list(clients)
        while running:
            client = self.random.choice(running)
            try:
                next(client)
            except StopIteration:
                running.remove(client)


def history(seed: int) -> World:
    """A valid history; ``ops`` in the order in which they ended."""
    world = World(Random(seed))  # noqa: S311 - nothing is to be kept secret
    some = world.random.randint
    clients = [producer(world, f"p{n}") for n in range(some(1, 2))]
    clients += [hasty(world, f"h{n}") for n in range(some(0, 1))]
    clients += [transactional(world, f"t{n}") for n in range(some(0, 2))]
    clients += [reader(world, f"c{n}") for n in range(some(1, 2))]
    if world.chance(0.5):
        group = Group(world)
        clients += [member(world, f"g{n}", group) for n in range(2)]
    if world.chance(0.3):
        clients.append(asker(world, "a0"))
    world.play(clients)
    world.play([last(world)])
    return world


def producer(world: World, name: str) -> Client:
    """Sends one record after another."""
    counted = world.chance(0.7)
    for _ in range(world.random.randint(2, 5)):
        op = world.begin(name, counted=counted)
        yield
        partition = world.random.randrange(len(world.logs))
        outcome = world.random.choices([OK, INFO, FAIL], [8, 1, 1])[0]
        value, offset = world.value(), None
        if outcome == OK or (outcome == INFO and world.chance(0.5)):
            offset = world.logs[partition].append(value)
        yield
        told = offset if outcome == OK and world.chance(0.9) else None
        where = None if outcome == INFO and world.chance(0.3) else partition
        op.rows.append(Row(SEND, where, told, value))
        world.done(op, outcome)


def hasty(world: World, name: str) -> Client:
    """Sends without waiting; what it sent to a partition is appended in that order."""
    partition = world.random.randrange(len(world.logs))
    begun: list[Op] = []
    appended: list[Op] = []
    left = world.random.randint(3, 6)
    while left or begun or appended:
        step = world.random.randrange(3)
        if step == 0 and left:
            left -= 1
            begun.append(world.begin(name))
            begun[-1].rows.append(Row(SEND, partition, None, world.value()))
        elif step == 1 and begun:
            op = begun.pop(0)
            offset = world.logs[partition].append(op.rows[0].value)
            op.rows[0] = op.rows[0]._replace(offset=offset)
            appended.append(op)
        elif step == 2 and appended:
            world.done(appended.pop(world.random.randrange(len(appended))))
        yield


def _assign(world: World, process: str, partitions: list[int], kind: str = ASSIGN) -> Client:
    op = world.begin(process)
    yield
    op.rows += [Row(kind, partition) for partition in partitions] or [Row(kind, None)]
    world.done(op)


def _poll(world: World, op: Op, positions: dict[int, int], most: int = 4) -> None:
    """Give an operation what is there from its positions on, and move them."""
    for partition in world.random.sample(sorted(positions), len(positions)):
        found, end = world.logs[partition].from_(positions[partition], op.isolation)
        taken = found[: world.random.randint(0, most)]
        op.rows += [Row(READ, partition, offset, value) for offset, value in taken]
        if taken:
            positions[partition] = taken[-1][0] + 1
        if len(taken) == len(found):
            positions[partition] = end


def transactional(world: World, name: str) -> Client:
    """Polls and sends in transactions; begins under a new name when it does not know their end."""
    life = 0
    positions: dict[int, int] = {}
    yield from _assign(world, f"{name}.{life}", _start(world, positions))
    for _ in range(world.random.randint(1, 4)):
        op = world.begin(f"{name}.{life}")
        op.isolation = world.random.choice([None, READ_COMMITTED])
        txn, reached = Txn(), dict(positions)
        for _ in range(world.random.randint(1, 4)):
            yield
            if world.chance(0.3):
                _poll(world, op, reached, most=2)
                continue
            partition, value = world.random.randrange(len(world.logs)), world.value()
            txn.touched.add(partition)
            op.rows.append(Row(SEND, partition, world.logs[partition].append(value, txn), value))
        yield
        outcome = world.random.choices([OK, FAIL, INFO], [6, 2, 1])[0]
        committed = outcome == OK or (outcome == INFO and world.chance(0.5))
        txn.state = "committed" if committed else "aborted"
        for partition in txn.touched:
            world.logs[partition].end += 1
        yield
        if not world.chance(0.85 if outcome == OK else 0.5):
            op.rows = [row._replace(offset=None) if row.kind == SEND else row for row in op.rows]
        world.done(op, outcome)
        positions = reached if committed else positions
        if outcome == INFO:
            life += 1
            yield from _assign(world, f"{name}.{life}", _start(world, positions))


def _start(world: World, positions: dict[int, int]) -> list[int]:
    """Positions in some partitions, wherever; returns the partitions."""
    positions.clear()
    for partition in world.some():
        positions[partition] = world.random.choice([0, 0, world.logs[partition].end])
    return sorted(positions)


def reader(world: World, name: str) -> Client:
    """Assigned, now and then to others; seeks; crashes, and begins under a new name."""
    life = 0
    isolation = world.random.choice([None, READ_COMMITTED, READ_UNCOMMITTED])
    positions: dict[int, int] = {}
    yield from _assign(world, f"{name}.{life}", _start(world, positions))
    for _ in range(world.random.randint(3, 9)):
        yield
        process = f"{name}.{life}"
        step = world.random.choices(["poll", "seek", "assign", "refused"], [12, 1, 1, 1])[0]
        if step == "assign":
            old = dict(positions)
            _start(world, positions)
            positions.update({p: at for p, at in old.items() if p in positions})
            yield from _assign(world, process, sorted(positions))
        elif step == "refused":
            op = world.begin(process)
            op.rows.append(Row(ASSIGN, None))
            world.done(op, FAIL)
        elif step == "seek":
            op = world.begin(process)
            partition = world.random.choice(sorted(positions))
            positions[partition] = world.random.randint(0, world.logs[partition].end)
            op.rows.append(Row(SEEK, partition, world.told(positions[partition], 0.8)))
            world.done(op)
        else:
            outcome = world.random.choices([OK, FAIL, INFO], [10, 1, 1])[0]
            op = world.begin(process)
            op.isolation, reached = isolation, dict(positions)
            for _ in range(world.random.randint(1, 2)):
                yield
                _poll(world, op, reached)
            yield
            world.done(op, outcome)
            positions = reached if outcome == OK else positions
            if outcome == INFO:
                life += 1
                yield from _assign(world, f"{name}.{life}", _start(world, positions))


def asker(world: World, name: str) -> Client:
    """Asks where logs end, now and then, and is answered at some moment of its operation."""
    for _ in range(world.random.randint(1, 3)):
        op = world.begin(name)
        yield
        op.rows += [Row(END, partition, world.logs[partition].end) for partition in world.some()]
        yield
        world.done(op)


class Group:
    """A consumer group: who reads what, and how far it has come."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.members: list[str] = []
        self.owners: dict[int, str] = {}
        self.committed = dict.fromkeys(range(len(world.logs)), 0)
        self.generation = 0

    def rebalance(self) -> None:
        self.generation += 1
        self.owners = {
            partition: self.world.random.choice(self.members) for partition in self.committed
        }

    def of(self, name: str) -> dict[int, int]:
        """A member's partitions, and where it is to go on in them."""
        return {p: self.committed[p] for p, owner in self.owners.items() if owner == name}


def member(world: World, name: str, group: Group) -> Client:
    """Subscribed; partitions come and go, and whoever has one goes on where it was committed."""
    yield from _assign(world, name, list(range(len(world.logs))), SUBSCRIBE)
    group.members.append(name)
    group.rebalance()
    mine: set[int] = set()
    generation = 0
    for _ in range(world.random.randint(3, 7)):
        yield
        op = world.begin(name)
        op.isolation = READ_COMMITTED
        lost = mine & set(group.of(name))
        if world.chance(0.2) and lost:
            # What it read before the rebalance is not committed, so that it comes again.
            _poll(world, op, {p: group.committed[p] for p in lost}, most=2)
            yield
            group.rebalance()
        positions = group.of(name)
        changed = sorted(mine | set(positions)) if generation != group.generation else []
        op.rows += [Row(REBALANCE, partition) for partition in changed]
        mine, generation = set(positions), group.generation
        _poll(world, op, positions)
        outcome = FAIL if world.chance(0.1) and not changed else OK
        if outcome == OK:
            group.committed.update(positions)
        world.done(op, outcome)


def last(world: World) -> Client:
    """Reads everything from the beginning, some records at a time."""
    positions = dict.fromkeys(range(len(world.logs)), 0)
    yield from _assign(world, LAST, sorted(positions))
    while any(positions[p] < log.end for p, log in enumerate(world.logs)):
        op = world.begin(LAST)
        op.isolation = READ_COMMITTED
        _poll(world, op, positions, most=6)
        yield
        world.done(op)


_TYPES: Final = {
    one.name: pa.string() if pa.types.is_dictionary(one.type) else one.type for one in OPERATIONS
} | {"run": pa.string(), "at": pa.int64()}


def table(histories: Iterable[tuple[str, list[Op]]]) -> pa.Table:
    """Histories by name as one table: ``OPERATIONS``, ``run`` and ``at``."""
    columns: dict[str, list[object]] = {name: [] for name in _TYPES}
    adds: list[Callable[[object], None]] = [columns[name].append for name in _FILLED]
    for run, ops in histories:
        at = 0
        for op in ops:
            for row in op.rows:
                acks = "all" if row.kind == SEND else None
                isolation = op.isolation if row.kind == READ else None
                values = (
                    run, at, op.process, row.kind, "run", op.outcome, op.begin, op.end, TOPIC,
                    row.partition, row.offset, acks, row.value, op.number, isolation,
                )  # fmt: skip
                for add, one in zip(adds, values, strict=True):
                    add(one)
                at += 1
    rows = len(columns["run"])
    return pa.table(
        {
            name: pa.array(columns[name] if name in _FILLED else [None] * rows, kind)
            for name, kind in _TYPES.items()
        }
    )


_FILLED: Final = (
    *("run", "at", "process", "kind", "phase", "outcome", "invoke_ns", "complete_ns", "topic"),
    *("partition", "offset", "acks", "value", "op", "isolation"),
)

"""A coordinator of transactions whose log, answers and markers agree is not accused; others are.

A coordinator writes what clients of some transactional ids ask for, with epochs of their own for
each transaction (KIP-890) or without. Some writes fail, and are in the log nevertheless; markers
are repeated. It keeps memory as brokers do. Then one thing is changed, or evidence taken away.

``HIGHWATER_HISTORIES`` is how many logs (10,000 is what is published), ``HIGHWATER_SEED`` the first
one's seed. No Spark.
"""

import random
import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from highwater.checkers.coordinators.folded_logs import CoordinatorAnswer
from highwater.checkers.coordinators.transactions import (
    Marker,
    PartitionFacts,
    wrong_transactions,
)
from highwater.checkers.kafka_files.coordinator_records import STATES
from tests.support.changed import drawn, require_exact

pytestmark = [pytest.mark.drawn, pytest.mark.slow, pytest.mark.timeout(3600)]

TOPIC: Final = "events"
NAMES: Final = ("a", "b", "c")
PARTITIONS: Final = 3
EMPTY, ONGOING, COMMITTING, ABORTING, COMMITTED, ABORTED = range(6)

Row = dict[str, Any]
Accused = list[tuple[str, int, bool]]
"""Transactional id, partition, and whether it is a partition of the topic under test."""


def text(name: str) -> bytes:
    """A string as Kafka writes it."""
    return struct.pack(">h", len(name)) + name.encode()


@dataclass(slots=True)
class Id:
    """What a coordinator remembers of a transactional id.

    Attributes:
        modern: whether each transaction has an epoch of its own.
        used: whether a client has sent records.
        failed: whether the last record in the log is not what the coordinator remembers.
    """

    name: str
    modern: bool
    producer: int
    epoch: int = 0
    status: int = EMPTY
    partitions: set[int] = field(default_factory=set)
    used: bool = False
    failed: bool = False

    def value(self, status: int) -> bytes:
        """Its TransactionLogValue, version 1 if transactions have epochs of their own."""
        identity = struct.pack(">qhib", self.producer, self.epoch, 60_000, status)
        numbers = b"".join(struct.pack(">i", number) for number in sorted(self.partitions))
        count = len(self.partitions)
        times = struct.pack(">qq", 1, 1)
        if not self.modern:
            of_topic = text(TOPIC) + struct.pack(">i", count) + numbers
            some = struct.pack(">i", bool(count)) + (of_topic if count else b"")
            return struct.pack(">h", 0) + identity + some + times
        of_topic = bytes([len(TOPIC) + 1]) + TOPIC.encode() + bytes([count + 1]) + numbers + b"\0"
        some = bytes([1 + bool(count)]) + (of_topic if count else b"")
        return struct.pack(">h", 1) + identity + some + times + b"\1\2\2" + struct.pack(">h", 2)


@dataclass(slots=True)
class Coordinator:
    """A coordinator: its log, its memory, and the markers that it wrote."""

    rng: random.Random
    log: list[Row] = field(default_factory=list)
    ids: dict[str, Id] = field(default_factory=dict)
    markers: Counter[Marker] = field(default_factory=Counter)
    complete: Counter[Marker] = field(default_factory=Counter)
    commits: Counter[tuple[int, int]] = field(default_factory=Counter)
    producers: int = 0

    def write(self, name: str, value: bytes | None) -> None:
        """Append a record."""
        key = struct.pack(">h", 0) + text(name)
        row = {"offset": len(self.log), "key": key, "value": value, "control": False}
        self.log.append({**row, "timestamp_ms": len(self.log)})

    def state(self, id_: Id, status: int) -> None:
        """Write a state of an id, and remember it."""
        self.write(id_.name, id_.value(status))
        id_.status, id_.failed = status, False

    def new_producer(self) -> int:
        """A producer id that nobody has."""
        self.producers += 1
        return self.producers

    def open(self, name: str) -> Id:
        """A client opens an id: it gets the next epoch, or the next producer id."""
        if name not in self.ids:
            modern = self.rng.random() < 0.5
            self.ids[name] = Id(name, modern=modern, producer=self.new_producer())
        else:
            id_ = self.ids[name]
            if self.rng.random() < 0.2:
                id_.producer, id_.epoch = self.new_producer(), 0
            else:
                id_.epoch += 1
        id_ = self.ids[name]
        id_.partitions = set()
        self.state(id_, EMPTY)
        return id_

    def fails(self, id_: Id) -> None:
        """A client asks for something that is written, and not acknowledged: nobody has it."""
        before, wrote = (id_.epoch, id_.status), len(self.log)
        if id_.status in {EMPTY, COMMITTED, ABORTED}:
            id_.epoch += 1
            self.state(id_, EMPTY)
        elif id_.status == ONGOING:
            id_.epoch += id_.modern
            self.state(id_, COMMITTING)
        id_.epoch, id_.status = before
        id_.failed = id_.failed or len(self.log) > wrote

    def add(self, id_: Id) -> None:
        """A client adds a partition to its transaction."""
        id_.partitions.add(self.rng.randrange(PARTITIONS))
        id_.used = True
        self.state(id_, ONGOING)

    def end(self, id_: Id) -> None:
        """A client, or the coordinator, ends a transaction; the markers may wait."""
        commits = self.rng.random() < 0.6
        data_epoch = id_.epoch
        id_.epoch += id_.modern or (not commits and self.rng.random() < 0.3)
        self.state(id_, COMMITTING if commits else ABORTING)
        if commits:
            self.commits[id_.producer, data_epoch] += 1
        for number in sorted(id_.partitions):
            if self.rng.random() < 0.9:
                self.markers[self.marker(id_, number)] += self.rng.choice((1, 1, 2))

    def marker(self, id_: Id, number: int) -> Marker:
        """A marker of an id's transaction, which is about to end."""
        end = "commit" if id_.status == COMMITTING else "abort"
        return Marker(number, id_.producer, id_.epoch, end)

    def finish(self, id_: Id) -> None:
        """The coordinator writes all markers, and then that the transaction is complete."""
        for number in sorted(id_.partitions):
            marker = self.marker(id_, number)
            self.complete[marker] += 1
            self.markers[marker] = max(self.markers[marker], self.complete[marker])
        id_.partitions = set()
        done = COMMITTED if id_.status == COMMITTING else ABORTED
        for _ in range(self.rng.choice((1, 1, 1, 2))):
            self.state(id_, done)

    def answers(self) -> list[CoordinatorAnswer]:
        """What a client is answered about all ids."""
        return [
            CoordinatorAnswer((name, 0), self.answer(self.ids.get(name)), len(self.log))
            for name in NAMES
        ]

    def answer(self, id_: Id | None) -> tuple[str, int, int] | None:
        """The state of an id."""
        return None if id_ is None else (STATES[id_.status], id_.producer, id_.epoch)

    def settle(self) -> None:
        """Clients go on where a write has failed, so that the log has what memory has."""
        for id_ in self.ids.values():
            if id_.failed:
                self.add(id_)


def coordinator(rng: random.Random) -> Coordinator:
    """A coordinator with some history."""
    made = Coordinator(rng)
    for _ in range(rng.randint(1, 40)):
        name = rng.choice(NAMES)
        id_ = made.ids.get(name)
        if id_ is None:
            made.open(name)
        elif id_.status in {COMMITTING, ABORTING}:
            made.finish(id_)
        elif rng.random() < 0.1:
            made.fails(id_)
        elif id_.status == ONGOING:
            made.end(id_) if rng.random() < 0.6 else made.add(id_)
        elif rng.random() < 0.2:
            made.open(name)
        else:
            made.add(id_)
    made.settle()
    return made


def facts(made: Coordinator, **changes: Any) -> PartitionFacts:  # noqa: ANN401
    """What partitions and clients show."""
    sound: dict[str, Any] = {
        "most": {marker: count for marker, count in made.markers.items() if count},
        "everywhere": frozenset(marker for marker, count in made.markers.items() if count),
        "whole": frozenset(range(PARTITIONS)),
        "acknowledged": dict(made.commits),
    }
    return PartitionFacts(**{**sound, **changes})


def accused(
    made: Coordinator,
    answers: list[CoordinatorAnswer] | None = None,
    shown: PartitionFacts | None = None,
) -> Accused:
    """What the coordinator is accused of."""
    findings = wrong_transactions(
        made.answers() if answers is None else answers,
        [made.log, made.log],
        made.log,
        TOPIC,
        shown or facts(made),
    )
    return [(finding.group, finding.partition, finding.topic is None) for finding in findings]


def touched(made: Coordinator) -> list[Id]:
    """The ids that wrote to the topic."""
    return [id_ for id_ in made.ids.values() if id_.used]


def other_answer(made: Coordinator) -> tuple[Accused, Accused] | None:
    """The coordinator answers with another state, epoch or producer, or with none."""
    answers = made.answers()
    at = made.rng.randrange(len(answers))
    state = answers[at].state
    other: Any = ("Ongoing", 99, 0)
    if state is not None:
        name, producer, epoch = state
        other = made.rng.choice(
            (None, ("Dead", producer, epoch), (name, producer, epoch + 3), (name, 99, epoch))
        )
    answers[at] = answers[at]._replace(state=other)
    return accused(made, answers), [(answers[at].place[0], 0, False)]


def fenced_in_memory(made: Coordinator) -> tuple[Accused, Accused] | None:
    """The coordinator is about to abort a transaction: its memory has the next epoch."""
    answers = made.answers()
    open_ids = [id_ for id_ in made.ids.values() if id_.status == ONGOING]
    if not open_ids:
        return None
    id_ = made.rng.choice(open_ids)
    state = made.rng.choice(("Ongoing", "PrepareEpochFence")), id_.producer, id_.epoch + 1
    answers[NAMES.index(id_.name)] = CoordinatorAnswer((id_.name, 0), state, len(made.log))
    return accused(made, answers), []


def marker_lost(made: Coordinator) -> tuple[Accused, Accused] | None:
    """A partition lacks the marker of a complete transaction, and may have lost its beginning."""
    complete = [marker for marker, count in made.complete.items() if count]
    if not complete:
        return None
    marker = made.rng.choice(sorted(complete))
    most = {**made.markers, marker: made.complete[marker] - 1}
    cut = made.rng.random() < 0.3
    whole = frozenset(range(PARTITIONS)) - ({marker.partition} if cut else set())
    shown = facts(made, most=most, whole=whole)
    name = next(id_.name for id_ in owners(made, marker.producer_id))
    return accused(made, shown=shown), [] if cut else [(name, marker.partition, True)]


def owners(made: Coordinator, producer: int) -> list[Id]:
    """The ids that had a producer id."""
    names = {
        row["key"][4:].decode()
        for row in made.log
        if struct.unpack_from(">hq", row["value"])[1] == producer
    }
    return [made.ids[name] for name in sorted(names)]


def marker_undecided(made: Coordinator) -> tuple[Accused, Accused] | None:
    """All replicas of a partition, or some, have a marker that the coordinator did not decide."""
    id_ = made.rng.choice(touched(made)) if touched(made) else None
    if id_ is None:
        return None
    marker = Marker(made.rng.randrange(PARTITIONS), id_.producer, id_.epoch + 5, "commit")
    somewhere = made.rng.random() < 0.3
    everywhere = frozenset(made.markers) | (frozenset() if somewhere else {marker})
    everywhere = frozenset(of for of in everywhere if made.markers[of] or of == marker)
    shown = facts(made, most={**made.markers, marker: 1}, everywhere=everywhere)
    return accused(made, shown=shown), [] if somewhere else [(id_.name, marker.partition, True)]


def commit_lost(made: Coordinator) -> tuple[Accused, Accused] | None:
    """A client's commit was acknowledged, and the coordinator did not decide it."""
    id_ = made.rng.choice(touched(made)) if touched(made) else None
    if id_ is None:
        return None
    key = id_.producer, id_.epoch + 5
    shown = facts(made, acknowledged={**made.commits, key: 1})
    return accused(made, shown=shown), [(id_.name, 0, False)]


def epoch_back(made: Coordinator) -> tuple[Accused, Accused] | None:
    """After a client has used an epoch, the coordinator goes on with an older one."""
    ids = [id_ for id_ in touched(made) if id_.status not in {COMMITTING, ABORTING}]
    if not ids:
        return None
    id_ = made.rng.choice(ids)
    id_.epoch += 1
    made.state(id_, EMPTY)
    made.add(id_)
    id_.epoch -= 1
    made.state(id_, made.rng.choice((EMPTY, ONGOING)))
    return accused(made), [(id_.name, 0, False)]


def producer_back(made: Coordinator) -> tuple[Accused, Accused] | None:
    """After a client has used a producer id, the coordinator goes on with an older one."""
    ids = [id_ for id_ in touched(made) if id_.status not in {COMMITTING, ABORTING}]
    if not ids:
        return None
    id_ = made.rng.choice(ids)
    made.add(id_)
    before, id_.producer = id_.producer, made.new_producer()
    made.add(id_)
    id_.producer = before
    made.state(id_, EMPTY)
    return accused(made), [(id_.name, 0, False)]


def end_unprepared(made: Coordinator) -> tuple[Accused, Accused] | None:
    """A transaction is complete in the log that the coordinator never decided so."""
    if not touched(made):
        return None
    id_ = made.rng.choice(touched(made))
    done = COMMITTED if id_.status == ABORTING else ABORTED
    if id_.status in {COMMITTED, ABORTED}:
        done = COMMITTED + ABORTED - id_.status
    if id_.status in {COMMITTING, ABORTING}:
        done = COMMITTED if id_.status == ABORTING else ABORTED
    made.state(id_, done)
    return accused(made), [(id_.name, 0, False)]


def without_evidence(made: Coordinator) -> tuple[Accused, Accused] | None:
    """All answers are wrong, and every replica is shorter than the log was, or has a gap."""
    answers = [answer._replace(state=("Dead", 0, 0)) for answer in made.answers()]
    gap = made.rng.randrange(len(made.log))
    short = [row for row in made.log if row["offset"] != gap]
    if made.rng.random() < 0.5:
        short = made.log[: made.rng.randrange(len(made.log))]
    findings = wrong_transactions(answers, [short, short], [], TOPIC, None)
    return [(finding.group, 0, False) for finding in findings], []


CHANGES: Final[tuple[Callable[[Coordinator], tuple[Accused, Accused] | None], ...]] = (
    other_answer,
    fenced_in_memory,
    marker_lost,
    marker_undecided,
    commit_lost,
    epoch_back,
    producer_back,
    end_unprepared,
    without_evidence,
)


def test_a_coordinator_whose_log_agrees_with_all_is_not_accused() -> None:
    for seed, made in drawn(coordinator):
        assert not accused(made), seed


def test_whatever_is_changed_is_found_exactly() -> None:
    require_exact(coordinator, CHANGES)

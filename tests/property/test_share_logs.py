"""A coordinator of share groups whose log and answers agree with the members is not accused.

A coordinator writes snapshots and updates of the partitions of a share group, and members accept
and reject records. Then one thing is changed, or evidence is taken away: what is found is exactly
that.

``HIGHWATER_HISTORIES`` is how many logs (10,000 is what is published), ``HIGHWATER_SEED`` the first
one's seed. No Spark.
"""

import random
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from highwater.checkers.coordinators.folded_logs import CoordinatorAnswer
from highwater.checkers.coordinators.shares import wrong_shares
from tests.support.changed import drawn, require_exact

pytestmark = [pytest.mark.drawn, pytest.mark.slow, pytest.mark.timeout(3600)]

GROUP: Final = "events-share"
PARTITIONS: Final = 2
RECORDS: Final = 12
UPDATES_MOST: Final = 4
AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4

Row = dict[str, Any]
Batch = tuple[int, int, int, int]
Accused = list[tuple[int, int | None]]
"""Partition and offset."""


@dataclass(slots=True)
class Share:
    """A partition: what its leader and the coordinator remember.

    Attributes:
        states: delivery count and state by offset.
        updates: the number of updates since the last snapshot; -1: there is no state.
    """

    start: int = 0
    states: dict[int, tuple[int, int]] = field(default_factory=dict)
    snapshot: int = 0
    state_epoch: int = 1
    leader_epoch: int = 0
    updates: int = -1


@dataclass(slots=True)
class Coordinator:
    """A coordinator of one share group, and its members' journal."""

    rng: random.Random
    log: list[Row] = field(default_factory=list)
    shares: list[Share] = field(default_factory=lambda: [Share() for _ in range(PARTITIONS)])
    journal: list[Row] = field(default_factory=list)

    def write(self, partition: int, version: int, value: bytes | None, topic: int = 7) -> None:
        """Append a record."""
        group = struct.pack(">h", len(GROUP)) + GROUP.encode()
        key = struct.pack(">h", version) + group + bytes([topic] * 16)
        row = {"key": key + struct.pack(">i", partition), "value": value, "control": False}
        self.log.append({**row, "offset": len(self.log)})

    def snapshot(self, partition: int, **other: int) -> None:
        """Write the whole state of a partition."""
        share = self.shares[partition]
        epochs = {
            "snapshot": share.snapshot,
            "state_epoch": share.state_epoch,
            "leader_epoch": share.leader_epoch,
            "start": share.start,
        } | other
        batches = [(at, at, state, count) for at, (count, state) in sorted(share.states.items())]
        value = struct.pack(">hiiiqqq", 0, *epochs.values(), 1, 1) + batches_of(batches)
        share.updates = 0
        self.write(partition, 0, value)

    def update(self, partition: int, batches: Iterable[Batch], **other: int) -> None:
        """Write a change of the state of a partition; now and then the whole state instead."""
        share = self.shares[partition]
        if share.updates < 0 or (not other and share.updates >= UPDATES_MOST):
            share.snapshot += share.updates >= 0
            self.snapshot(partition)
            return
        share.updates += 1
        fields = {
            "snapshot": share.snapshot,
            "leader_epoch": share.leader_epoch,
            "start": share.start if self.rng.random() < 0.5 or not share.states else -1,
        } | other
        if "start" not in other and share.start != self.logged(partition):
            fields["start"] = share.start
        value = struct.pack(">hiiq", 0, *fields.values()) + batches_of(batches)
        self.write(partition, 1, value)

    def logged(self, partition: int) -> int:
        """The start offset of the last record about a partition that has one."""
        for row in reversed(self.log):
            version, at = struct.unpack_from(">h", row["key"])[0], row["value"]
            if struct.unpack(">i", row["key"][-4:])[0] != partition or at is None:
                continue
            start = int(struct.unpack_from(">q", at, 14 if version == 0 else 10)[0])
            if start >= 0:
                return start
        return -1

    def acknowledge(self, partition: int) -> None:
        """A member acknowledges some records, and is answered, or not, when that is written."""
        share = self.shares[partition]
        first = share.start + self.rng.randrange(RECORDS)
        last = first + self.rng.randrange(3)
        event, state = self.rng.choice(
            (("accept", ACKNOWLEDGED), ("reject", ARCHIVED), ("release", AVAILABLE))
        )
        free = [
            at
            for at in range(first, last + 1)
            if share.states.get(at, (0, AVAILABLE))[1] == AVAILABLE
        ]
        if free != [*range(first, last + 1)]:
            return
        count = 1 + max(share.states.get(at, (0, 0))[0] for at in free)
        share.states |= dict.fromkeys(free, (count, state))
        while share.states.get(share.start, (0, AVAILABLE))[1] != AVAILABLE:
            del share.states[share.start]
            share.start += 1
        self.update(partition, [(first, last, state, count)])
        outcome = self.rng.choice(("ok", "ok", "info"))
        self.journal += [
            {"process": "share-0", "group": GROUP, "event": event, "outcome": outcome}
            | {"partition": partition, "offset": at}
            for at in free
        ]

    def answers(self) -> list[CoordinatorAnswer]:
        """What a client is answered about all partitions."""
        return [
            CoordinatorAnswer(
                (GROUP, at), None if share.updates < 0 else share.start, len(self.log)
            )
            for at, share in enumerate(self.shares)
        ]


def batches_of(batches: Iterable[Batch]) -> bytes:
    """Batches as Kafka writes them, and no tagged fields."""
    rows = [struct.pack(">qqbh", *batch) + b"\0" for batch in batches]
    return bytes([len(rows) + 1]) + b"".join(rows) + b"\0"


def coordinator(rng: random.Random) -> Coordinator:
    """A coordinator with some history."""
    made = Coordinator(rng)
    for _ in range(rng.randint(3, 40)):
        partition = rng.randrange(PARTITIONS)
        share = made.shares[partition]
        if rng.random() < 0.9:
            made.acknowledge(partition)
        elif rng.random() < 0.7:
            share.leader_epoch += 1
            made.update(partition, [])
        elif share.updates >= 0:
            share.state_epoch += 1
            share.snapshot += 1
            made.snapshot(partition)
    return made


def accused(
    made: Coordinator, answers: list[CoordinatorAnswer] | None = None, *, undamaged: bool = True
) -> Accused:
    """What the coordinator is accused of."""
    findings = wrong_shares(
        made.answers() if answers is None else answers,
        [made.log, made.log],
        made.log,
        made.journal,
        undamaged=undamaged,
    )
    return [(finding.partition, finding.offset) for finding in findings]


def some(made: Coordinator) -> int | None:
    """A partition that has a state, and is in the journal."""
    numbers = [at for at, share in enumerate(made.shares) if share.updates >= 0]
    return made.rng.choice(numbers) if numbers and made.journal else None


def other_answer(made: Coordinator) -> tuple[Accused, Accused] | None:
    """The coordinator answers with another start offset, or none."""
    answers = made.answers()
    at = made.rng.randrange(PARTITIONS)
    expected = answers[at].state
    answers[at] = answers[at]._replace(state=made.rng.choice((900, None if expected else 901)))
    return accused(made, answers), [(at, expected)]


def start_back(made: Coordinator) -> tuple[Accused, Accused] | None:
    """The start offset goes back, in an update or a snapshot, or with a new state epoch."""
    at = some(made)
    if at is None:
        return None
    share = made.shares[at]
    share.start += 50
    share.states = {}
    made.update(at, [], start=share.start)
    share.start -= 20
    reset = made.rng.random() < 0.3
    if reset or made.rng.random() < 0.5:
        share.snapshot += 1
        share.state_epoch += reset
        made.snapshot(at)
    else:
        made.update(at, [], start=share.start)
    answers = made.answers()
    made.journal = [{**row, "outcome": "info"} for row in made.journal]
    return accused(made, answers), [] if reset else [(at, None)]


def epoch_back(made: Coordinator) -> tuple[Accused, Accused] | None:
    """The leader epoch or the state epoch goes back."""
    at = some(made)
    if at is None:
        return None
    share = made.shares[at]
    if made.rng.random() < 0.5:
        made.update(at, [], leader_epoch=9)
        made.update(at, [], leader_epoch=8)
    else:
        made.snapshot(at, state_epoch=share.state_epoch - 1)
    return accused(made), [(at, None)]


def other_snapshot(made: Coordinator) -> tuple[Accused, Accused] | None:
    """An update has the number of another snapshot, or there is none."""
    at = some(made)
    if at is None:
        return None
    if made.rng.random() < 0.5:
        made.update(at, [], snapshot=made.shares[at].snapshot + 1)
        return accused(made), [(at, None)]
    made.write(at, 0, None)
    made.shares[at].updates = 0
    made.update(at, [], start=3)
    made.shares[at].updates = -1
    made.journal = [{**row, "outcome": "info"} for row in made.journal]
    return accused(made), [(at, None)]


def acknowledgement_lost(made: Coordinator) -> tuple[Accused, Accused] | None:
    """A member was answered that its acknowledgement is written, and it is not."""
    at = some(made)
    if at is None:
        return None
    offset = made.shares[at].start + 100
    event = made.rng.choice(("accept", "reject", "release"))
    outcome = made.rng.choice(("ok", "ok", "info"))
    row = {"process": "share-1", "group": GROUP, "event": event, "outcome": outcome}
    made.journal.append({**row, "partition": at, "offset": offset})
    undamaged = made.rng.random() < 0.8
    lost = undamaged and outcome == "ok" and event != "release"
    return accused(made, undamaged=undamaged), [(at, offset)] if lost else []


def without_evidence(made: Coordinator) -> tuple[Accused, Accused] | None:
    """All answers are wrong, and every replica is shorter than the log was, or has a gap."""
    if not made.log:
        return None
    answers = [answer._replace(state=700) for answer in made.answers()]
    gap = made.rng.randrange(len(made.log))
    short = [row for row in made.log if row["offset"] != gap]
    if made.rng.random() < 0.5:
        short = made.log[: made.rng.randrange(len(made.log))]
    findings = wrong_shares(answers, [short, short], [], [], undamaged=True)
    return [(finding.partition, finding.offset) for finding in findings], []


CHANGES: Final[tuple[Callable[[Coordinator], tuple[Accused, Accused] | None], ...]] = (
    other_answer,
    start_back,
    epoch_back,
    other_snapshot,
    acknowledgement_lost,
    without_evidence,
)


def test_a_coordinator_whose_log_agrees_with_all_is_not_accused() -> None:
    for seed, made in drawn(coordinator):
        assert not accused(made), seed


def test_whatever_is_changed_is_found_exactly() -> None:
    require_exact(coordinator, CHANGES)

"""A coordinator that answers with what its log has is not accused; one that does not is found.

A group's coordinator writes plain commits, removals, and commits in transactions of some producers,
which end or stay open. It keeps its answer as a coordinator's memory does, and not as the checker
does: a list of changes, each with the offset of its record, of which the newest counts. Then the
log or the answer is changed, or evidence is removed.

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
from highwater.checkers.coordinators.offsets import wrong_offsets
from tests.support.seeds import FIRST, HISTORIES

pytestmark = [pytest.mark.drawn, pytest.mark.slow, pytest.mark.timeout(3600)]

TOPIC: Final = "events"
GROUPS: Final = ("g", "h")
PARTITIONS: Final = 2
PLAIN: Final = -1

Row = dict[str, Any]
Place = tuple[str, int]
Change = tuple[int, int | None]
"""The offset of a record in the log, and the position that it has; None: it removes it."""


def words(*texts: str) -> bytes:
    """Strings as Kafka writes them."""
    return b"".join(struct.pack(">h", len(text)) + text.encode() for text in texts)


def position(place: Place, offset: int | None, topic: str = TOPIC) -> tuple[bytes, bytes | None]:
    """Key and value of a position."""
    key = struct.pack(">h", 1) + words(place[0], topic) + struct.pack(">i", place[1])
    return key, None if offset is None else struct.pack(">hqih", 3, offset, -1, 0) + bytes(8)


def group_of(name: str, *, there: bool = False) -> tuple[bytes, bytes | None]:
    """Key and value of a group's metadata, or of its removal."""
    return struct.pack(">h", 2) + words(name), b"\0\0" if there else None


@dataclass(slots=True)
class Coordinator:
    """A coordinator: its log, and its memory.

    Attributes:
        memory: of each place the changes that count.
        pending: of each producer the changes in its open transaction.
        unclear: places about whose position releases differ.
    """

    log: list[Row] = field(default_factory=list)
    memory: dict[Place, list[Change]] = field(default_factory=dict)
    pending: dict[int, list[tuple[Place, Change]]] = field(default_factory=dict)
    crossed: set[tuple[int, Place]] = field(default_factory=set)
    unclear: set[Place] = field(default_factory=set)

    def write(
        self, key: bytes | None, value: bytes | None, producer: int = PLAIN, marker: str = ""
    ) -> int:
        """Append a record; return its offset."""
        self.log.append(
            {
                "offset": len(self.log),
                "key": key,
                "value": value,
                "producer_id": producer,
                "transactional": producer != PLAIN,
                "control": bool(marker),
                "control_type": marker or None,
                "timestamp_ms": len(self.log),
            }
        )
        return len(self.log) - 1

    def commit(self, place: Place, offset: int | None, producer: int = PLAIN) -> None:
        """Commit a position, or remove it."""
        change = self.write(*position(place, offset), producer), offset
        if producer != PLAIN:
            self.pending.setdefault(producer, []).append((place, change))
            self.crossed.discard((producer, place))
            return
        self.memory.setdefault(place, []).append(change)
        self.unclear.discard(place)
        if offset is None:
            self.memory[place] = []
            self.crossed |= {
                (writer, place)
                for writer, changes in self.pending.items()
                if place in {of for of, _ in changes}
            }

    def end(self, producer: int, marker: str) -> None:
        """End a transaction."""
        self.write(b"\0\0\0\1" if marker == "commit" else b"\0\0\0\0", b"", producer, marker)
        changes = dict(self.pending.pop(producer, []))
        crossed = {place for writer, place in self.crossed if writer == producer}
        self.crossed -= {(producer, place) for place in crossed}
        for place, change in changes.items() if marker == "commit" else ():
            of = self.memory.setdefault(place, [])
            if all(change[0] > at for at, _ in of):
                (self.unclear.add if place in crossed else self.unclear.discard)(place)
            of.append(change)

    def answer(self, place: Place) -> int | None:
        """The position of a place: the one whose record is the last."""
        return max(self.memory.get(place) or [(-1, None)])[1]

    def answers(self) -> list[Row]:
        """What a client is answered about all places, and where the log ends."""
        return [
            {"group": group, "partition": partition, "offset": self.answer((group, partition))}
            | {"end": len(self.log)}
            for group in GROUPS
            for partition in range(PARTITIONS)
        ]


def coordinator(rng: random.Random) -> Coordinator:
    """A coordinator with some history."""
    made = Coordinator()
    for _ in range(rng.randint(1, 30)):
        place = rng.choice(GROUPS), rng.randrange(PARTITIONS)
        producer = rng.randrange(3)
        match rng.choice(("plain", "plain", "within", "within", "end", "end", "gone", "other")):
            case "plain":
                made.commit(place, rng.randrange(100))
            case "within":
                made.commit(place, rng.randrange(100), producer)
            case "end" if producer in made.pending:
                made.end(producer, rng.choice(("commit", "commit", "abort")))
            case "gone":
                made.commit(place, None)
            case _:
                record = rng.choice(
                    (position(place, 7, "other"), group_of(place[0], there=True), (b"?", b""))
                )
                made.write(*record)
    return made


def found(made: Coordinator, answers: list[Row], *logs: list[Row]) -> set[Place]:
    """The places about which the coordinator is accused."""
    replicas = logs or (made.log, made.log, made.log)
    given = [
        CoordinatorAnswer((row["group"], row["partition"]), row["offset"], row["end"])
        for row in answers
    ]
    return {(finding.group, finding.partition) for finding in wrong_offsets(given, replicas, TOPIC)}


def clear(made: Coordinator, rng: random.Random, answers: list[Row]) -> Row | None:
    """An answer about a place that is the same on every release."""
    rows = [row for row in answers if (row["group"], row["partition"]) not in made.unclear]
    return rng.choice(rows) if rows else None


def other_answer(made: Coordinator, rng: random.Random) -> tuple[bool, set[Place]] | None:
    """The coordinator answers with another position, or with none."""
    answers = made.answers()
    row = clear(made, rng, answers)
    if row is None:
        return None
    row["offset"] = rng.choice([200, *([] if row["offset"] is None else [None])])
    return True, found(made, answers) ^ {(row["group"], row["partition"])}


def shown_later(made: Coordinator, rng: random.Random) -> tuple[bool, set[Place]] | None:
    """The log goes on after the answer: with the answer's position, or another one."""
    answers = made.answers()
    row = clear(made, rng, answers)
    if row is None:
        return None
    place = row["group"], row["partition"]
    same = rng.random() < 0.5
    row["offset"] = 400
    made.commit(place, 400 if same else 401)
    made.commit(place, rng.choice((402, None)))
    expected = set() if same else {place}
    return not same, found(made, answers) ^ expected


def without_evidence(made: Coordinator, rng: random.Random) -> tuple[bool, set[Place]] | None:
    """The answer is wrong, and every replica is shorter than the log was, or has a gap."""
    answers = made.answers()
    for row in answers:
        row["offset"] = 500
    size = len(made.log)
    for _ in range(3):  # the log goes on: with a gap it is as long as it was then
        made.write(b"?", b"")
    gap = rng.randrange(size)
    short = [row for row in made.log if row["offset"] != gap]
    if rng.random() < 0.5:
        short = made.log[: rng.randrange(size)]
    return False, found(made, answers, short, short)


def one_replica_agrees(made: Coordinator, rng: random.Random) -> tuple[bool, set[Place]] | None:
    """The replicas differ, and the answer is what one of them has."""
    answers = made.answers()
    forked = [dict(row) for row in made.log]
    at = rng.randrange(len(forked))
    forked[at] |= dict(zip(("key", "value"), (b"?", b""), strict=True), control=False)
    return False, found(made, answers, forked, made.log)


CHANGES: Final[tuple[Callable[..., tuple[bool, set[Place]] | None], ...]] = (
    other_answer,
    shown_later,
    without_evidence,
    one_replica_agrees,
)


def test_a_coordinator_that_answers_from_its_log_is_not_accused() -> None:
    unclear = 0
    for seed in range(FIRST, FIRST + HISTORIES):
        made = coordinator(random.Random(seed))  # noqa: S311
        assert not found(made, made.answers()), seed
        answers = made.answers()
        for row in answers:
            if (row["group"], row["partition"]) in made.unclear:
                row["offset"] = None
                unclear += 1
        assert not found(made, answers), seed
    assert unclear > 0


def test_whatever_is_changed_is_found_exactly() -> None:
    counts: Counter[tuple[str, bool]] = Counter()
    for seed in range(FIRST, FIRST + HISTORIES):
        rng = random.Random(seed)  # noqa: S311
        made = coordinator(rng)
        change = CHANGES[seed % len(CHANGES)]
        outcome = change(made, rng)
        if outcome is not None:
            accused, difference = outcome
            counts[change.__name__, accused] += 1
            assert not difference, (seed, change.__name__)
    assert {name for name, _ in counts} == {change.__name__ for change in CHANGES}
    assert any(accused for _, accused in counts)


@pytest.mark.parametrize(
    ("returned", "acknowledged", "accused"),
    [
        (1, {1}, False),
        (2, {1}, False),
        (1, {1, 2}, True),
        (7, {1}, True),
        (None, set(), False),
        (None, {1}, True),
        (1, None, True),  # from 4.0 on
    ],
)
def test_memory_may_lack_the_last_commits_without_a_response(
    returned: int | None, acknowledged: set[int] | None, accused: bool
) -> None:
    """A soak of 1.1.1: the log had the last commit, and the coordinator never added it."""
    made, place = Coordinator(), ("g", 0)
    for offset in (1, 2, 3):
        made.commit(place, offset)
    answer = CoordinatorAnswer(place, returned, len(made.log))
    responded = None if acknowledged is None else {(*place, offset) for offset in acknowledged}
    assert bool([*wrong_offsets([answer], [made.log], TOPIC, responded)]) == accused

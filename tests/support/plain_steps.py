"""Steps of clients, found row by row with plain loops, and small histories to find them in."""

import random
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from highwater.checkers.history.row_flags import (
    ADRIFT,
    ASSIGNED,
    BLIND,
    EVERYWHERE,
    PEEK_OTHER,
    READ_BY_ANY,
    READ_OTHER,
    REBALANCED,
    SEEK_FLAG,
    SEEN,
    SEEN_OK,
    SENT,
    SENT_FAIL,
    SENT_INFO,
    SENT_OK,
    STRAY,
)
from highwater.harness.runs import history
from tests.support.plain_records import Plain, has
from tests.support.small_views import TOPIC, Row, numbered

Found = tuple[Any, ...]
Pair = tuple[int, int, bool]


@dataclass(frozen=True)
class Place:
    """A row of a client that stands somewhere, or a seek (``sought``) one before its offset."""

    op: int
    at: int
    place: int
    ok: bool
    sought: bool = False


@dataclass(frozen=True)
class Step:
    """A step that is not right."""

    client: int
    slot: int
    sent: bool
    begin: Place
    end: Place
    delta: int
    over: tuple[int, ...]
    """All known offsets that it leaves out."""

    @property
    def row(self) -> Row:
        """The step in columns of ``checkers.history.steps.STEP``, but for ``overlaps``."""
        row: Row = {name: getattr(self, name) for name in ("client", "slot", "sent", "delta")}
        row |= {name: getattr(self.end, name) for name in ("op", "at", "place")}
        row |= {f"from_{name}": getattr(self.begin, name) for name in ("op", "at", "place")}
        left_out = [] if self.begin.sought else [*self.over[:16]]
        inner = self.begin.op == self.end.op
        return row | {"inner": inner, "sought": self.begin.sought, "left_out": left_out}

    @property
    def kind(self) -> str | None:
        """What it is called as an anomaly."""
        if self.begin.sought:
            return None
        inner, back = self.begin.op == self.end.op, self.delta < 1
        if self.sent:
            skip = "int-send-skip" if inner else "nonmonotonic-send"
            return "int-nonmonotonic-send" if inner and back else skip
        return ("int-" if inner else "") + ("nonmonotonic-poll" if back else "poll-skip")


class PlainSteps:
    """A small history, by plain loops."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.plain = Plain(rows)
        self.rows = self.plain.rows
        self.known = {slot: sorted(offsets) for slot, offsets in self.plain.known.items()}
        self.steps = [step for step in self._steps() if not self._excused(step)]

    def findings(self, kinds: frozenset[str]) -> list[Found]:
        """Kind, delta, ``at`` of the two rows, and ``offset, key, at`` of copies, of each."""
        found = []
        for step in self.steps:
            if step.kind not in kinds:
                continue
            first = dict[tuple[int, int], int]()
            for row in reversed(self.plain.placed):
                if row["slot"] == step.slot and row["offset"] in step.over[:16]:
                    first[row["offset"], row["key"]] = row["at"]
            copies = tuple(sorted((offset, at) for (offset, _), at in first.items()))
            if step.delta < 1 or copies:
                found.append((step.kind, step.delta, step.begin.at, step.end.at, copies))
        return sorted(found)

    def passed(self) -> set[tuple[int, int, int]]:
        """``key, client, at``: records that readers left out, and the last row that shows it."""
        found = set()
        over = [step for step in self.steps if step.delta > 1 and not step.sent]
        for row in self.plain.placed:
            here = [one for one in over if one.slot == row["slot"] and row["offset"] in one.over]
            if here:
                at, client = max((step.end.at, step.client) for step in here)
                found.add((row["key"], client, at))
        return found

    def _steps(self) -> Iterator[Step]:
        for (client, slot, sent), places in self._sequences().items():
            good: Place | None = None
            before: Place | None = None
            for place in sorted(places, key=lambda one: (one.op, one.at)):
                inner = before is not None and before.op == place.op
                begin = before if inner else good
                if begin is not None and not _is_right(begin, place, sent=sent):
                    delta, over = self._between(slot, begin.place, place.place)
                    if delta != 1:
                        yield Step(client, slot, sent, begin, place, delta, over)
                before = place
                good = place if place.ok else good

    def _sequences(self) -> dict[Pair, list[Place]]:
        found = defaultdict[Pair, list[Place]](list)
        for row in self.rows:
            sent, sought = has(row, SENT), has(row, SEEK_FLAG) and not has(row, EVERYWHERE)
            if sought and row["offset"] is not None:
                place = Place(row["op"], row["at"], row["offset"] - 1, ok=True, sought=True)
            elif has(row, SENT_OK | SEEN) and not has(row, BLIND | ADRIFT) and _told(row):
                ok = has(row, SENT_OK | SEEN_OK)
                place = Place(row["op"], row["at"], row["offset"], ok)
            else:
                continue
            found[row["client"], row["slot"], sent].append(place)
        for record in self.plain.records:
            for row in record.having(STRAY):
                there = record.places[:1] if record.facts & (READ_BY_ANY | SEEN_OK) else []
                if has(row, SENT_INFO) and row in self.plain.effective and _told(row):
                    there = [row["offset"]]
                ok = not has(row, SENT_FAIL | READ_OTHER | PEEK_OTHER)
                sequence = found[row["client"], row["slot"], has(row, SENT)]
                sequence += [Place(row["op"], row["at"], place, ok) for place in there]
        return found

    def _between(self, slot: int, begin: int, end: int) -> tuple[int, tuple[int, ...]]:
        known = self.known.get(slot, [])
        if end <= begin:
            return bisect_left(known, end) - bisect_left(known, begin), ()
        over = tuple(offset for offset in known if begin < offset < end)
        return len(over) + 1, over

    def _excused(self, step: Step) -> bool:
        begin, end = step.begin, step.end
        mine = [row for row in self.rows if row["client"] == step.client]
        here = [row for row in mine if row["slot"] == step.slot or has(row, EVERYWHERE)]
        assigned = {row["op"] for row in mine if has(row, ASSIGNED)}
        kept = {row["op"] for row in here if has(row, ASSIGNED) and not has(row, EVERYWHERE)}
        if any(begin.op < op <= end.op for op in assigned - kept):
            return True
        if step.sent:
            return False
        rebalanced = any(has(row, REBALANCED) and begin.op <= row["op"] <= end.op for row in here)
        ends = (begin.op, begin.at), (end.op, end.at)
        return rebalanced or any(
            has(row, SEEK_FLAG) and ends[0] < (row["op"], row["at"]) < ends[1] for row in here
        )


def _told(row: Row) -> bool:
    return row["offset"] is not None


def _is_right(begin: Place, end: Place, *, sent: bool) -> bool:
    """Whether a step need not be looked at, whatever is known to lie between."""
    inner, back = begin.op == end.op, end.place <= begin.place
    if end.sought or (begin.sought and (inner or back)):
        return True
    if sent and not inner:  # others may write between operations
        return not end.ok or not back
    return end.place == begin.place + 1


def random_steps(seed: int) -> list[Row]:
    """A small history of clients that send and read in order, mostly."""
    dice = random.Random(seed)  # noqa: S311 - histories are no secrets
    return numbered(_Script(dice, tangled=seed % 4 == 0, moves=seed % 3 != 0).rows())


_MOVES: Final = (history.REBALANCE, history.ASSIGN, history.SUBSCRIBE)


class _Script:
    """Clients of two partitions, in which records stand at growing offsets."""

    def __init__(self, dice: random.Random, *, tangled: bool, moves: bool) -> None:
        self.dice = dice
        self.tangled = tangled
        self.moves = moves
        self.peeks = dice.choice([0.0, 0.0, 0.3, 1.0])
        self.wrong = dice.choice([0.02, 0.15, 0.4])
        self.log: dict[int, list[tuple[int, str]]] = {0: [], 1: []}
        self.position = defaultdict[tuple[str, int], int](int)
        self.ops = defaultdict[str, int](int)
        self.values = 0

    def rows(self) -> list[Row]:
        """Every operation's rows; of two operations, now and then, one row after the other."""
        each = [self._operation() for _ in range(self.dice.randrange(4, 30))]
        if self.tangled:
            for one, other in pairwise(each):
                if self.dice.random() < 0.3:
                    both = [*one, *other]
                    self.dice.shuffle(both)
                    one[:], other[:] = both[: len(one)], both[len(one) :]
        found = [row for rows in each for row in rows]
        return [row | {"at": at} for at, row in enumerate(found)]

    def _operation(self) -> list[Row]:
        dice = self.dice
        process = dice.choice(["p1", "p2", "c1", "c1", "c2", "t1"] if self.values else ["p1"])
        self.ops[process] += 1
        op: int | None = self.ops[process]
        if self.tangled and dice.random() < 0.2:
            op = dice.randrange(1, 2 * self.ops[process] + 1)
        outcome = dice.choice([*5 * ["ok"], "info", "fail"])
        shared = {"process": process, "op": op, "outcome": outcome, "topic": TOPIC}
        shared |= {"invoke_ns": 0, "phase": history.RUN}
        rows: list[Row] = []
        for _ in range(dice.choice([1, 1, 2, 3])):
            sends = process[0] == "p" or (process[0] == "t" and dice.random() < 0.5)
            if self.moves and dice.random() < 0.2:
                rows += self._move()
            rows += self._sends(outcome) if sends else self._reads(process)
        return [shared | row for row in rows]

    def _move(self) -> list[Row]:
        """A seek or a rebalance, or what a reader is to read of, a row for each partition."""
        dice = self.dice
        place = dice.choice([None, dice.randrange(12), dice.randrange(12)])
        kind = dice.choice([history.SEEK, history.SEEK, *_MOVES])
        row: Row = {"kind": kind, "offset": place if kind == history.SEEK else None, "value": ""}
        alone: list[list[int | None]] = [[0], [0], [1], [1], [None]]
        both: list[list[int | None]] = [[0, 1], [1, 0]]
        assigns = kind in {history.ASSIGN, history.SUBSCRIBE}
        partitions = dice.choice([*alone, *both] if assigns else alone)
        return [row | {"partition": partition} for partition in partitions]

    def _sends(self, outcome: str) -> list[Row]:
        dice, partition, rows = self.dice, self.dice.randrange(2), []
        for _ in range(dice.choice([1, 2, 3])):
            self.values += not self.values or dice.random() > self.wrong / 2
            value, log = f"v{self.values}", self.log[partition]
            offset: int | None = (log[-1][0] if log else -1) + dice.choice([1, 1, 1, 3])
            if dice.random() < self.wrong:
                offset = dice.randrange(12)
            elif outcome != "fail":
                log.append((offset or 0, value))
            if dice.random() < (0.6 if outcome != "ok" else self.wrong / 3):
                offset = None
            adrift = dice.random() < self.wrong / 4
            row = {"kind": "send", "partition": None if adrift else partition, "value": value}
            rows.append(row | {"offset": offset})
        return rows

    def _reads(self, process: str) -> list[Row]:
        dice, partition, rows = self.dice, self.dice.randrange(2), []
        log, here = self.log[partition], (process, partition)
        peeks = dice.random() < self.peeks
        isolation = history.READ_UNCOMMITTED if peeks else history.READ_COMMITTED
        for _ in range(dice.choice([1, 2, 4])):
            if dice.random() < self.wrong:
                self.position[here] = dice.randrange(len(log) + 1)
            if self.position[here] >= len(log):
                break
            offset, value = log[self.position[here]]
            told = None if dice.random() < self.wrong / 4 else offset
            row = {"kind": "read", "partition": partition, "value": value, "offset": told}
            rows.append(row | {"isolation": isolation})
            self.position[here] += 1
        return rows

"""One anomaly each, put into a valid history, and how it must be found.

An injection looks for a place in the history where it makes just this anomaly, and is none where
there is no such place.
"""

from itertools import pairwise
from typing import Final

from highwater.harness.runs.history import (
    ASSIGN,
    END,
    FAIL,
    INFO,
    OK,
    READ,
    READ_UNCOMMITTED,
    REBALANCE,
    SEEK,
    SEND,
    SUBSCRIBE,
)
from tests.property.draft import Anomaly, At, Draft, Injection
from tests.property.generate import LAST, Op, Row

_MOVES: Final = {ASSIGN, SUBSCRIBE, SEEK, REBALANCE}


def lost_write(draft: Draft) -> Anomaly | None:
    """Nobody reads what was acknowledged, and somebody reads on."""
    at = draft.choose(
        [
            at
            for at in draft.rows(SEND)
            if at.op.outcome == OK
            and at.row.offset is not None
            and at.row.offset < draft.order[at.row.partition or 0][-1][0]
        ]
    )
    if at is None:
        return None
    partition, offset, value = at.row.partition or 0, at.row.offset, at.row.value
    draft.drop(draft.of(value, READ))
    furthest = draft.furthest(partition, OK)
    beyond = next(
        at
        for at in draft.rows(READ)
        if at.op.outcome == OK and at.row[1:3] == (partition, furthest)
    )
    steps = draft.steps(draft.sender(value), beyond)
    return Anomaly("lost-write", partition, offset, value, None, steps)


def unseen(draft: Draft) -> Anomaly | None:
    """Nobody reads what was acknowledged, or anything beyond it, in whatever operation."""
    ends = {
        draft.order[partition][-1][1]
        for partition in draft.tidy()
        if draft.order[partition]
        and draft.furthest(partition, OK, FAIL, INFO) <= draft.order[partition][-1][0]
    }
    known = [at for at in draft.rows(SEND) if at.op.outcome == OK and at.row.value in ends]
    at = draft.choose(known)
    if at is None:
        return None
    value = at.row.value
    draft.drop(draft.of(value, READ))
    sent = draft.sender(value)
    steps = draft.steps(sent)
    return Anomaly("unseen", sent.row.partition, sent.row.offset, value, None, steps)


def vanished(draft: Draft) -> Anomaly | None:
    """The last reader does not find what another read."""
    found = []
    for at in draft.rows(READ):
        order = draft.order[at.row.partition or 0]
        inside = {value for _, value in order[1:-1]}
        sent = draft.of(at.row.value, SEND)
        good = at.op.outcome == OK and at.op.process != LAST and at.row.value in inside
        if good and sent[0].op.outcome == OK:
            found.append(at)
    chosen = draft.choose(found)
    if chosen is None:
        return None
    _, partition, offset, value = chosen.row
    assert partition is not None
    assert offset is not None
    draft.drop([at for at in draft.of(value, READ) if at.op.process == LAST])
    seen = [at for at in draft.of(value, READ) if at.op.outcome == OK][-1]
    passed = next(
        at
        for at in draft.rows(READ)
        if at.op.process == LAST and at.row.partition == partition and (at.row.offset or 0) > offset
    )
    steps = draft.steps(draft.sender(value), seen, passed)
    return Anomaly("vanished", partition, offset, value, None, steps)


def wiped(draft: Draft) -> Anomaly | None:
    """A log ends, after all who read it, where its last record stood."""
    found = []
    for partition, order in enumerate(draft.order):
        sent = draft.of(order[-1][1], SEND) if order else []
        told = (
            [at for at in draft.of(sent[0].row.value, READ) if at.op.outcome == OK] if sent else []
        )
        ends = [at for at in draft.rows(SEND, READ) if at.row.partition == partition]
        further = any((at.row.offset or 0) > order[-1][0] for at in ends) if order else True
        if told and sent[0].op.outcome == OK and not further:
            found.append((sent[0], told[-1]))
    if not found:
        return None
    sent_at, seen = draft.random.choice(found)
    op = draft.op("other", 0, Row(END, *seen.row[1:3]))
    steps = draft.steps(sent_at, seen, At(op, 0))
    return Anomaly("vanished", *seen.row[1:], None, steps)


def duplicate(draft: Draft) -> Anomaly | None:
    """A record stands at the log's end once more."""
    op = draft.final()
    if op is None:
        return None
    partition = op.rows[-1].partition or 0
    offset, value = draft.random.choice(draft.order[partition])
    op.rows.append(Row(READ, partition, draft.place(partition), value))
    first = draft.teller(partition, offset, value)
    steps = draft.steps(first, At(op, len(op.rows) - 1))
    return Anomaly("duplicate", partition, offset, value, None, steps)


def inconsistent_offsets(draft: Draft) -> Anomaly | None:
    """One reader finds another record at an offset than the others."""
    tidy = draft.tidy()
    at = draft.choose(
        [
            at
            for at in draft.rows(READ)
            if at.op.outcome == OK
            and at.op.process != LAST
            and at.op.isolation != READ_UNCOMMITTED
            and at.row.partition in tidy
            and len([row for row in at.op.rows if row.value == at.row.value]) == 1
        ]
    )
    if at is None:
        return None
    _, partition, offset, value = at.row
    assert partition is not None
    assert offset is not None
    other = draft.random.choice(["a", "z"])
    at.op.rows[at.nth] = at.row._replace(value=other)
    sent = draft.op("other", 0, Row(SEND, partition, None, other), outcome=INFO)
    sent.begin = 0
    told = [draft.teller(partition, offset, name) for name in sorted((value, other))]
    return Anomaly("inconsistent-offsets", partition, offset, None, None, draft.steps(*told))


def _read_at_the_end(draft: Draft, kind: str, *, sent: bool) -> Anomaly | None:
    op = draft.final()
    if op is None:
        return None
    partition = op.rows[-1].partition or 0
    offset = draft.place(partition)
    ends = []
    if sent:
        refused = draft.op("other", 0, Row(SEND, partition, None, "x"), outcome=FAIL)
        refused.begin = 0
        ends.append(At(refused, 0))
    op.rows.append(Row(READ, partition, offset, "x"))
    steps = draft.steps(*ends, At(op, len(op.rows) - 1))
    return Anomaly(kind, partition, offset, "x", None, steps)


def aborted_read(draft: Draft) -> Anomaly | None:
    """A record is read whose sender was told that it was not written."""
    return _read_at_the_end(draft, "G1a", sent=True)


def phantom(draft: Draft) -> Anomaly | None:
    """A record is read that nobody sent."""
    return _read_at_the_end(draft, "phantom", sent=False)


def precommitted_read(draft: Draft) -> Anomaly | None:
    """A transaction reads what it sends."""
    partition = draft.partition()
    offset = draft.place(partition)
    op = draft.op("other", 0, Row(SEND, partition, offset, "x"), Row(READ, partition, offset, "x"))
    steps = draft.steps(At(op, 0), At(op, 1))
    return Anomaly("precommitted-read", partition, offset, "x", None, steps)


def _between(draft: Draft) -> list[tuple[At, At]]:
    """The last row of an operation in a partition, and the first of the next one's there."""
    found = []
    for process in sorted({op.process for op in draft.ops} - {LAST}):
        mine = sorted((op for op in draft.ops if op.process == process), key=_number)
        for partition in range(len(draft.ends)):
            there = [
                op
                for op in mine
                if any(row.kind in _MOVES or row.partition == partition for row in op.rows)
                and not all(row.kind == SEND for row in op.rows)
            ]
            for one, two in pairwise(there):
                ends = [_reads(one, partition), _reads(two, partition)]
                moved = any(row.kind in _MOVES for row in (*one.rows, *two.rows))
                if one.outcome == OK and all(ends) and not moved:
                    found.append((ends[0][-1], ends[1][0]))
    return found


def _number(op: Op) -> int:
    return op.number or 0


def _reads(op: Op, partition: int) -> list[At]:
    return [At(op, n) for n, row in enumerate(op.rows) if row[:2] == (READ, partition)]


def _known(draft: Draft, *rows: At) -> bool:
    return all(draft.seen(at) for at in rows)


def _skip(draft: Draft, kind: str, before: At, gone: list[At], after: At) -> Anomaly:
    partition = before.row.partition or 0
    ranks = [draft.rank(partition, at.row.offset or 0) for at in (before, after)]
    _, _, offset, value = gone[0].row
    last = after.row
    draft.drop(gone)
    now = next(At(after.op, n) for n, row in enumerate(after.op.rows) if row is last)
    delta = ranks[1] - ranks[0]
    return Anomaly(kind, partition, offset, value, delta, draft.steps(before, now))


def poll_skip(draft: Draft) -> Anomaly | None:
    """A poll does not begin where the last one of its process ended."""
    found = [
        (one, rows)
        for one, two in _between(draft)
        if len(rows := _reads(two.op, two.row.partition or 0)) > 1 and _known(draft, one, *rows)
    ]
    if not found:
        return None
    before, rows = draft.random.choice(found)
    count = draft.random.randint(1, len(rows) - 1)
    return _skip(draft, "poll-skip", before, rows[:count], rows[count])


def int_poll_skip(draft: Draft) -> Anomaly | None:
    """An operation leaves out what stands between two records that it reads."""
    found = []
    for op in draft.ops:
        for partition in range(len(draft.ends)):
            rows = _reads(op, partition)
            moved = any(row.kind == REBALANCE for row in op.rows) or op.process == LAST
            if len(rows) > 2 and not moved and _known(draft, *rows):
                found.append(rows)
    if not found:
        return None
    rows = draft.random.choice(found)
    first = draft.random.randint(1, len(rows) - 2)
    end = draft.random.randint(first + 1, len(rows) - 1)
    return _skip(draft, "int-poll-skip", rows[first - 1], rows[first:end], rows[end])


def _again(draft: Draft, kind: str, rows: list[At], where: At) -> Anomaly:
    """These rows, the last ones before ``where``, are read there once more."""
    repeated = [at.row for at in rows]
    partition = where.row.partition or 0
    before = At(rows[-1].op, rows[-1].nth)
    where.op.rows[where.nth : where.nth] = repeated
    first = At(where.op, where.nth)
    delta = draft.rank(partition, first.row.offset or 0) - draft.rank(
        partition, before.row.offset or 0
    )
    steps = draft.steps(before, first)
    return Anomaly(kind, partition, first.row.offset, first.row.value, delta, steps)


def nonmonotonic_poll(draft: Draft) -> Anomaly | None:
    """A poll begins with what the last one of its process ended with."""
    found = []
    for one, two in _between(draft):
        rows = _reads(one.op, one.row.partition or 0)
        if _known(draft, *rows, two):
            found.append((rows, two))
    if not found:
        return None
    rows, where = draft.random.choice(found)
    count = draft.random.randint(1, len(rows))
    return _again(draft, "nonmonotonic-poll", rows[-count:], where)


def int_nonmonotonic_poll(draft: Draft) -> Anomaly | None:
    """An operation reads a record twice."""
    found = []
    for op in draft.ops:
        for partition in range(len(draft.ends)):
            rows = _reads(op, partition)
            moved = any(row.kind == REBALANCE for row in op.rows)
            if len(rows) > 1 and not moved and _known(draft, *rows):
                found.append(rows)
    if not found:
        return None
    rows = draft.random.choice(found)
    end = draft.random.randint(1, len(rows) - 1)
    first = draft.random.randint(0, end - 1)
    return _again(draft, "int-nonmonotonic-poll", rows[first:end], rows[end])


def _exchange(draft: Draft, one: At, two: At) -> None:
    """Two records of a partition stand in each other's places, wherever somebody tells them."""
    values = (one.row.value, two.row.value)
    places = [next(o for o, v in draft.order[one.row.partition or 0] if v == w) for w in values]
    swapped = dict(zip(values, reversed(values), strict=True))
    moved = dict(zip(values, reversed(places), strict=True))
    for at in list(draft.rows(SEND, READ)):
        row = at.row
        if row.value in swapped and row.kind == READ:
            at.op.rows[at.nth] = row._replace(value=swapped[row.value])
        elif row.value in swapped and row.offset is not None:
            at.op.rows[at.nth] = row._replace(offset=moved[row.value])


def _in_time(draft: Draft, earlier: At, later: At) -> bool:
    """Whether nobody would read ``later`` before it is sent, if it stood where ``earlier`` does."""
    return all(at.op.begin > later.op.begin for at in draft.of(earlier.row.value, READ))


def _sends(draft: Draft, op: Op, partition: int) -> list[At]:
    """What an operation that took effect sent to a partition, where that is known."""
    rows = [At(op, n) for n, row in enumerate(op.rows) if row[:2] == (SEND, partition)]
    known = {value for _, value in draft.order[partition]}
    return [at for at in rows if at.row.value in known]


def _back(draft: Draft, kind: str, one: At, two: At) -> Anomaly:
    """The steps from ``one`` to ``two`` after their exchange."""
    partition = one.row.partition or 0
    places = {value: rank for rank, (_, value) in enumerate(draft.order[partition])}
    delta = places[one.row.value] - places[two.row.value]
    _exchange(draft, one, two)
    told = two.row.offset
    steps = draft.steps(one, two)
    return Anomaly(kind, partition, told, two.row.value, delta, steps)


def nonmonotonic_send(draft: Draft) -> Anomaly | None:
    """A record stands before the one that its sender sent before it."""
    found = []
    tidy = draft.tidy()
    for process in sorted({op.process for op in draft.ops}):
        mine = sorted((op for op in draft.ops if op.process == process), key=_number)
        for partition in tidy:
            there = [op for op in mine if any(r[:2] == (SEND, partition) for r in op.rows)]
            for one, two in pairwise(there):
                sent = [*_sends(draft, one, partition), *_sends(draft, two, partition)]
                if len(sent) == len(one.rows) + len(two.rows) == 2 and _in_time(draft, *sent):
                    found.append(tuple(sent))
    if not found:
        return None
    return _back(draft, "nonmonotonic-send", *draft.random.choice(found))


def int_nonmonotonic_send(draft: Draft) -> Anomaly | None:
    """A transaction's records stand the other way round than it sent them."""
    found = []
    tidy = draft.tidy()
    for op in draft.ops:
        for partition in tidy:
            sent = _sends(draft, op, partition)
            if len(sent) == 2 == sum(row[:2] == (SEND, partition) for row in op.rows):
                found.append(tuple(sent))
    if not found:
        return None
    return _back(draft, "int-nonmonotonic-send", *draft.random.choice(found))


def int_send_skip(draft: Draft) -> Anomaly | None:
    """Another's record stands between those of a transaction."""
    found = []
    tidy = draft.tidy()
    for op in draft.ops:
        for partition in tidy:
            sent = _sends(draft, op, partition)
            values = [value for _, value in draft.order[partition]]
            after = values.index(sent[-1].row.value) + 1 if len(sent) > 1 else len(values)
            if after < len(values):
                other = draft.sender(values[after])
                alone = len(other.op.rows) == 1 and other.op.process != op.process
                if alone and _in_time(draft, sent[-1], other):
                    found.append((*sent[-2:], other))
    if not found:
        return None
    one, two, other = draft.random.choice(found)
    partition = one.row.partition or 0
    offset = next(o for o, value in draft.order[partition] if value == two.row.value)
    _exchange(draft, two, other)
    steps = draft.steps(one, two)
    return Anomaly("int-send-skip", partition, offset, other.row.value, 2, steps)


INJECTIONS: Final[dict[str, Injection]] = {
    "lost-write": lost_write,
    "unseen": unseen,
    "vanished": vanished,
    "vanished, as the log ends there": wiped,
    "duplicate": duplicate,
    "inconsistent-offsets": inconsistent_offsets,
    "G1a": aborted_read,
    "phantom": phantom,
    "precommitted-read": precommitted_read,
    "poll-skip": poll_skip,
    "int-poll-skip": int_poll_skip,
    "nonmonotonic-poll": nonmonotonic_poll,
    "int-nonmonotonic-poll": int_nonmonotonic_poll,
    "nonmonotonic-send": nonmonotonic_send,
    "int-nonmonotonic-send": int_nonmonotonic_send,
    "int-send-skip": int_send_skip,
}
"""By the kind of the anomaly, and how it comes about."""

"""One cycle each, of operations after all others of a valid history, and how it must be found."""

from typing import Final

from highwater.harness.runs.history import READ, SEND
from tests.property.draft import Anomaly, At, Draft, Injection
from tests.property.generate import Op, Row


def _cycle(kind: str, draft: Draft, *legs: tuple[Op, str | int, Op, str | int]) -> Anomaly:
    """A cycle by the rows of its steps, or by the order that they are."""
    steps = []
    for one, shown, two, met in legs:
        for op, row in ((one, shown), (two, met)):
            at = At(op, row if isinstance(row, int) else 0)
            steps.append(draft.step(at, row if isinstance(row, str) else None))
    return Anomaly(kind, None, None, None, None, tuple(steps))


def _read_all(draft: Draft, *sent: Op) -> None:
    """Somebody reads all of it, so that it is not lost as well."""
    rows = sorted(row[1:] for op in sent for row in op.rows)
    draft.op("reads all", 0, *(Row(READ, *row) for row in rows))


def _two(draft: Draft) -> tuple[int, int] | None:
    """Two partitions, if there are."""
    count = len(draft.ends)
    one, two = draft.random.sample(range(count), 2) if count > 1 else (0, 0)
    return (one, two) if count > 1 else None


def g0(draft: Draft) -> Anomaly | None:
    """Two transactions stand in two partitions, each before the other."""
    both = _two(draft)
    if both is None:
        return None
    p, q = both
    a, c = draft.place(p), draft.place(p)
    d, b = draft.place(q), draft.place(q)
    one = draft.op("one", 0, Row(SEND, p, a, "a"), Row(SEND, q, b, "b"), length=90)
    two = draft.op("two", 0, Row(SEND, p, c, "c"), Row(SEND, q, d, "d"))
    _read_all(draft, one, two)
    return _cycle("G0", draft, (one, 0, two, 0), (two, 1, one, 1))


def g0_process(draft: Draft) -> Anomaly | None:
    """A process's second operation comes before its first, by way of another's."""
    both = _two(draft)
    if both is None:
        return None
    p, q = both
    d, a = draft.place(q), draft.place(q)
    b, c = draft.place(p), draft.place(p)
    one = draft.op("one", 0, Row(SEND, q, a, "a"))
    two = draft.op("one", 1, Row(SEND, p, b, "b"))
    way = draft.op("two", 0, Row(SEND, p, c, "c"), Row(SEND, q, d, "d"))
    way.begin = one.begin + 1
    _read_all(draft, one, two, way)
    legs = (one, "process", two, "process"), (two, 0, way, 0), (way, 1, one, 0)
    return _cycle("G0-process", draft, *legs)


def g0_realtime(draft: Draft) -> Anomaly | None:
    """What was sent after another record was acknowledged stands before it."""
    p = draft.partition()
    b, a = draft.place(p), draft.place(p)
    one = draft.op("one", 0, Row(SEND, p, a, "a"))
    two = draft.op("two", 0, Row(SEND, p, b, "b"))
    _read_all(draft, one, two)
    return _cycle("G0-realtime", draft, (one, "realtime", two, "realtime"), (two, 0, one, 0))


def g1c(draft: Draft) -> Anomaly | None:
    """Two transactions read of each other."""
    p, q = draft.partition(), draft.partition()
    a, b = draft.place(p), draft.place(q)
    one = draft.op("one", 0, Row(SEND, p, a, "a"), Row(READ, q, b, "b"), length=90)
    two = draft.op("two", 0, Row(READ, p, a, "a"), Row(SEND, q, b, "b"))
    return _cycle("G1c", draft, (one, 0, two, 0), (two, 1, one, 1))


def _read_first(draft: Draft, kind: str, why: str, sender: tuple[str, int]) -> Anomaly:
    p = draft.partition()
    a = draft.place(p)
    one = draft.op("one", 0, Row(READ, p, a, "a"))
    two = draft.op(*sender, Row(SEND, p, a, "a"))
    return _cycle(kind, draft, (one, why, two, why), (two, 0, one, 0))


def g1c_process(draft: Draft) -> Anomaly | None:
    """A process reads what it sends after that."""
    return _read_first(draft, "G1c-process", "process", ("one", 1))


def g1c_realtime(draft: Draft) -> Anomaly | None:
    """A record is read before it is sent."""
    return _read_first(draft, "G1c-realtime", "realtime", ("two", 0))


BY_READS: Final[dict[str, Injection]] = {
    "G1c": g1c,
    "G1c-process": g1c_process,
    "G1c-realtime": g1c_realtime,
}
BY_THE_LOG: Final[dict[str, Injection]] = {
    "G0": g0,
    "G0-process": g0_process,
    "G0-realtime": g0_realtime,
}
"""By the kind of the anomaly: which need what was read alone, and which the order of the log."""

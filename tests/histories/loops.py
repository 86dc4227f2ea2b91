"""Golden runs of transactions that are there in part, and of loops that read and write."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from highwater.harness.runs.plan import Workload
from highwater.harness.runs.store import Run
from tests.support.run_builder import RunBuilder

GROUP: Final = "events-transform"
TRANSACTIONS: Final = Workload(transactions=True, idempotence=True)
LOOPS: Final = Workload(transactions=True, idempotence=True, transform=True)

Finding = tuple[str, int, int | None, str | None]
Operation = tuple[str, Sequence[tuple[str, int | None]], Sequence[tuple[str, int]], str]
"""A transaction: its process, what it sent, what it read, its outcome."""

IN: Final = (("m0", 0), ("m1", 1), ("m2", 2))


def halves(path: Path, outcome: str = "info") -> Run:
    """A transaction sent a and b, and only a is there."""
    run = RunBuilder(path, kafka="4.4.0", workload=TRANSACTIONS)
    _input(run)
    run.transact("producer-0", 1, [("a", 3), ("b", 4)], outcome=outcome)
    return _ended(run, [("a", 3)], 6)


def loop(
    path: Path,
    *operations: Operation,
    there: Sequence[tuple[str, int]],
    kafka: str = "4.4.0",
) -> Run:
    """Loops read m0, m1, m2 and write; ``there`` is what the final read met of their own."""
    run = RunBuilder(path, kafka=kafka, workload=LOOPS)
    for process in sorted({operation[0] for operation in operations}):
        run.join(GROUP, process)
    _input(run)
    for op, (process, sends, reads, outcome) in enumerate(operations):
        run.transact(process, op, sends, reads, outcome=outcome)
    return _ended(run, there, 10)


def _input(run: RunBuilder) -> None:
    for value, offset in IN:
        run.send(value, offset, process="producer-9")


def _ended(run: RunBuilder, there: Sequence[tuple[str, int]], fence: int) -> Run:
    for value, offset in (*IN, *there):
        run.read(value, offset)
    run.fence(fence)
    return run.write()


A: Final[Operation] = ("producer-0", [("a", 4)], [("m0", 0), ("m1", 1)], "ok")
B: Final[Operation] = ("producer-1", [("b", 6)], [("m1", 1), ("m2", 2)], "ok")
C: Final[Operation] = ("producer-1", [("b", 6)], [("m2", 2)], "ok")
FIRST: Final[Operation] = ("producer-0", [("a", 4)], [("m0", 0)], "ok")
BOTH: Final = (("a", 4), ("b", 6))
TWICE: Final[Finding] = ("processed-twice", 0, 1, "m1")
LEFT_OUT: Final[Finding] = ("unprocessed", 0, 1, "m1")


def _later(path: Path) -> Run:
    """m1 was acknowledged at its place after the group had gone past that: the log was cut."""
    run = RunBuilder(path, kafka="4.4.0", workload=LOOPS)
    for nth, (value, offset) in enumerate((("m0", 0), ("m2", 2))):
        run.join(GROUP, f"producer-{nth}")
        run.send(value, offset, process="producer-9")
        run.transact(f"producer-{nth}", 0, [(f"a{nth}", 4 + nth)], [(value, offset)])
    run.send("m1", 1, process="producer-8")
    return _ended(run, [("a0", 4), ("a1", 5)], 10)


Case = tuple[str, Callable[[Path], Run], tuple[Finding, ...], frozenset[str]]

CASES: Final[tuple[Case, ...]] = (
    # Half of a transaction whose commit timed out is there.
    (
        "half-a-transaction",
        halves,
        (("torn-transaction", 0, 4, "b"), ("poll-skip", 0, 4, "b")),
        frozenset({"torn-transaction", "poll-skip"}),
    ),
    # What was acknowledged is lost, and says so; what was aborted is read, and says so.
    (
        "acknowledged-in-part",
        lambda path: halves(path, "ok"),
        (("lost-write", 0, 4, "b"),),
        frozenset({"lost-write"}),
    ),
    (
        "aborted-in-part",
        lambda path: halves(path, "fail"),
        (("G1a", 0, 3, "a"),),
        frozenset({"G1a"}),
    ),
    # Two transactions that took effect read m1.
    ("processed-twice", lambda path: loop(path, A, B, there=BOTH), (TWICE,), frozenset({TWICE[0]})),
    (
        "processed-twice-before-fences",
        lambda path: loop(path, A, B, there=BOTH, kafka="2.4.1"),
        (TWICE,),
        frozenset(),
    ),
    # Nobody read m1.
    (
        "unprocessed",
        lambda path: loop(path, FIRST, C, there=BOTH),
        (LEFT_OUT,),
        frozenset({LEFT_OUT[0]}),
    ),
    ("went-past-before", _later, (), frozenset()),
    # Everything once.
    ("exactly-once", lambda path: loop(path, A, C, there=BOTH), (), frozenset()),
)

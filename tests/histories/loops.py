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


def halves(
    path: Path,
    *,
    there: Sequence[tuple[str, int]] = (("a", 3),),
    outcome: str = "info",
    told: int | None = 4,
    fence: int | None = 6,
) -> Run:
    """A transaction sent a and b, and some of it is there.

    Args:
        told: the offset that the producer was told of b.
        fence: where the fence was read; None: it was not.
    """
    run = RunBuilder(path, kafka="4.4.0", workload=TRANSACTIONS)
    _input(run)
    run.transact("producer-0", 1, [("a", 3), ("b", told)], outcome=outcome)
    return _ended(run, there, fence)


def loop(
    path: Path,
    *operations: Operation,
    there: Sequence[tuple[str, int]],
    kafka: str = "4.4.0",
    workload: Workload = LOOPS,
    group: str = GROUP,
) -> Run:
    """Loops read m0, m1, m2 and write; ``there`` is what the final read met of their own."""
    run = RunBuilder(path, kafka=kafka, workload=workload)
    for process in sorted({operation[0] for operation in operations}):
        run.join(group, process)
    _input(run)
    for op, (process, sends, reads, outcome) in enumerate(operations):
        run.transact(process, op, sends, reads, outcome=outcome)
    return _ended(run, there, 10)


def _input(run: RunBuilder) -> None:
    for value, offset in IN:
        run.send(value, offset, process="producer-9")


def _ended(run: RunBuilder, there: Sequence[tuple[str, int]], fence: int | None) -> Run:
    for value, offset in (*IN, *there):
        run.read(value, offset)
    if fence is not None:
        run.fence(fence)
    return run.write()


A: Final[Operation] = ("producer-0", [("a", 4)], [("m0", 0), ("m1", 1)], "ok")
B: Final[Operation] = ("producer-1", [("b", 6)], [("m1", 1), ("m2", 2)], "ok")
C: Final[Operation] = ("producer-1", [("b", 6)], [("m2", 2)], "ok")
FIRST: Final[Operation] = ("producer-0", [("a", 4)], [("m0", 0)], "ok")
ABORTED: Final[Operation] = ("producer-0", [("x", 3)], [("m0", 0), ("m1", 1)], "fail")
A_THERE: Final = ("a", 4)
BOTH: Final = (A_THERE, ("b", 6))
TWICE: Final[Finding] = ("processed-twice", 0, 1, "m1")
LEFT_OUT: Final[Finding] = ("unprocessed", 0, 1, "m1")


def _unknown(operation: Operation) -> Operation:
    return (*operation[:3], "info")


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
    # Its producer was never told an offset, and the whole partition was read.
    (
        "half-a-transaction-untold",
        lambda path: halves(path, told=None),
        (("torn-transaction", 0, None, "b"),),
        frozenset({"torn-transaction"}),
    ),
    ("whole-transaction", lambda path: halves(path, there=(("a", 3), ("b", 4))), (), frozenset()),
    ("no-transaction", lambda path: halves(path, there=()), (), frozenset()),
    # What was acknowledged is lost, and says so; what was aborted is read, and says so.
    (
        "acknowledged-in-part",
        lambda path: halves(path, outcome="ok"),
        (("lost-write", 0, 4, "b"),),
        frozenset({"lost-write"}),
    ),
    (
        "aborted-in-part",
        lambda path: halves(path, outcome="fail"),
        (("G1a", 0, 3, "a"),),
        frozenset({"G1a"}),
    ),
    # Two transactions that took effect read m1.
    ("processed-twice", lambda path: loop(path, A, B, there=BOTH), (TWICE,), frozenset({TWICE[0]})),
    # Nobody was told that the second was committed; but what it wrote is there.
    (
        "processed-twice-unknown",
        lambda path: loop(path, A, _unknown(B), there=BOTH),
        (TWICE,),
        frozenset({TWICE[0]}),
    ),
    (
        "processed-twice-before-fences",
        lambda path: loop(path, A, B, there=BOTH, kafka="2.4.1"),
        (TWICE,),
        frozenset(),
    ),
    # The second was aborted, or never committed.
    (
        "aborted-and-again",
        lambda path: loop(path, ABORTED, B, FIRST, there=BOTH),
        (),
        frozenset(),
    ),
    (
        "unknown-and-again",
        lambda path: loop(path, A, _unknown(B), there=[A_THERE]),
        (),
        frozenset(),
    ),
    # Nobody read m1.
    (
        "unprocessed",
        lambda path: loop(path, FIRST, C, there=BOTH),
        (LEFT_OUT,),
        frozenset({LEFT_OUT[0]}),
    ),
    # Somebody did, and was aborted.
    (
        "processed-in-vain",
        lambda path: loop(
            path, FIRST, ("producer-0", [("x", 5)], [("m1", 1)], "fail"), C, there=BOTH
        ),
        (LEFT_OUT,),
        frozenset({LEFT_OUT[0]}),
    ),
    # Somebody did, and may have been committed.
    (
        "processed-perhaps",
        lambda path: loop(
            path, FIRST, ("producer-0", [("x", 5)], [("m1", 1)], "info"), C, there=BOTH
        ),
        (),
        frozenset(),
    ),
    ("went-past-before", _later, (), frozenset()),
    # Everything once.
    ("exactly-once", lambda path: loop(path, A, C, there=BOTH), (), frozenset()),
)

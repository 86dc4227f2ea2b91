"""Golden runs in which a transaction is open at the end, on the disks of a partition."""

import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from highwater.harness.runs.history import record_value
from highwater.harness.runs.plan import Topic, Workload
from highwater.harness.runs.store import Run, StandingEnd
from tests.support.logdirs import Broker, batch, marker
from tests.support.run_builder import RunBuilder

TOPIC: Final = "__transaction_state"
PRODUCER: Final = 7
EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMMITTED, ABORTED = range(6)
"""The statuses of TransactionState."""

GONE: Final = -1
"""A transactional id that was removed, in place of a status."""

Finding = tuple[str, int, int | None, str | None]
State = tuple[int, int]
"""A producer id and the status of its transaction."""

FOUND: Final[tuple[Finding, ...]] = (("hanging-transaction", 0, 3, "m2"),)
UNSEEN: Final[tuple[Finding, ...]] = (("unseen", 0, 4, "m3"),)
TRANSACTIONS: Final = Workload(transactions=True, idempotence=True)
M2: Final = (3, PRODUCER, "m2")
END: Final = (1, PRODUCER, "abort")
"""Of a log with m0 at 0, an end at 1, and m1 at 2."""


def data(offset: int, producer: int, what: str) -> bytes:
    """A batch of a log: ``abort`` or ``commit`` is a marker, anything else a record.

    Records of producer -1 are of no transaction.
    """
    if what in {"abort", "commit"}:
        return marker(offset, producer=producer, commit=what == "commit")
    value = record_value(what, 32)
    transactional = producer >= 0
    identity = (producer, 0, offset) if transactional else (-1, -1, -1)
    return batch(offset, [(None, value)], producer=identity, transactional=transactional)


def state(offset: int, producer: int, status: int, name: str = "tx", topic: str = "") -> bytes:
    """A record of a coordinator: TransactionLogKey and TransactionLogValue.

    Args:
        topic: the topic whose partition 0 is in the transaction; empty: there is none.
    """
    key = struct.pack(">hh", 0, len(name)) + name.encode()
    value = struct.pack(">hqhib", 0, producer, 0, 60_000, status)
    place = struct.pack(">h", len(topic)) + topic.encode() + struct.pack(">ii", 1, 0)
    value += struct.pack(">i", bool(topic)) + (place if topic else b"") + bytes(16)
    return batch(offset, [(key, None if status == GONE else value)])


def run_with(
    path: Path,
    *records: tuple[int, int, str],
    states: Sequence[State | tuple[int, int, str] | tuple[int, int, str, str]],
    by_broker: dict[int, Sequence[tuple[int, int, str]]] | None = None,
    standing: int | None = 3,
    workload: Workload = TRANSACTIONS,
    topic: Topic | None = None,
    rotten: int | None = None,
) -> Run:
    """A run whose log has m0, the abort of a transaction, and m1; and then these records.

    Args:
        states: what the coordinator wrote, in order.
        by_broker: more records on the disks of some brokers.
        rotten: the broker whose last record is damaged.
        standing: the last stable offset at which the final read ended; None: it passed the fence.
    """
    run = RunBuilder(path, kafka="3.3.2", workload=workload, topic=topic)
    for offset, value in ((0, "m0"), (2, "m1")):
        run.send(value, offset)
        run.read(value, offset)
    run.send("m2", None, outcome="fail")
    run.send("m3", 4, process="other")
    log = ((0, -1, "m0"), END, (2, -1, "m1"), *records, (9, -1, "fence-0"))
    for broker in (1, 2, 3):
        more = (by_broker or {}).get(broker, ())
        run.disks[broker, 0] = [data(*row) for row in sorted((*log, *more))]
    if rotten is not None:
        run.damage(rotten, -1)
    if standing is None:
        run.read("m3", 4)
    run.fence(9, read=standing is None)
    if standing is not None:
        end = StandingEnd(partition=0, lso=standing, fence=9, seconds=5.0)
        run.status = msgspec.structs.replace(run.status, standing=(end,))
    built = run.write()
    for broker in (1, 2, 3):
        folder = Broker(built.coordinators / str(broker), broker).meta()
        folder.log(f"{TOPIC}-0", b"".join(state(n, *row) for n, row in enumerate(states)))
        folder.checkpoint("replication-offset-checkpoint", {f"{TOPIC}-0": len(states)})
    return built


M3: Final = (4, -1, "m3")
MARKER: Final = (5, PRODUCER, "abort")
LATE_MARKER: Final = (10, PRODUCER, "abort")
COMPACTED: Final = Topic(config={"cleanup.policy": "compact"})
OTHERWISE: Final = (
    (PRODUCER, ONGOING, "tx", "events"),
    (PRODUCER, PREPARE_COMMIT, "tx", "events"),
    (PRODUCER, COMMITTED),
)
"""The coordinator commits what ``END`` aborts."""
ENDED: Final = ((PRODUCER, ONGOING), (PRODUCER, PREPARE_ABORT), (PRODUCER, ABORTED))
CASES: Final[
    Sequence[tuple[str, Callable[[Path], Run], str, tuple[Finding, ...], tuple[str, ...]]]
] = (
    (
        "hanging-transaction",
        lambda path: run_with(path, M2, M3, states=ENDED),
        "invalid",
        FOUND,
        ("1 more anomaly follows", "a transaction that no client will end"),
    ),
    (
        "hanging-and-removed",
        lambda path: run_with(path, M2, M3, states=(*ENDED, (PRODUCER, GONE))),
        "invalid",
        FOUND,
        (),
    ),
    (
        "open-and-ongoing",
        lambda path: run_with(path, M2, M3, states=ENDED[:1]),
        "unknown",
        UNSEEN,
        ("was blocked at 3 for 5.0 s", "do not show that its coordinator has ended it"),
    ),
    (
        "open-and-of-no-coordinator",
        lambda path: run_with(path, M2, M3, states=[(PRODUCER + 1, ABORTED)]),
        "unknown",
        UNSEEN,
        (),
    ),
    (
        "open-at-the-producer-of-two-names",
        lambda path: run_with(path, M2, M3, states=(*ENDED, (PRODUCER, ONGOING, "other"))),
        "unknown",
        UNSEEN,
        (),
    ),
    (
        "hanging-beyond-where-the-reader-stood",
        lambda path: run_with(path, M2, M3, states=ENDED, standing=2),
        "unknown",
        FOUND,
        ("was blocked at 2",),
    ),
    (
        "ended-by-a-marker-that-follows",
        lambda path: run_with(path, M2, M3, (5, PRODUCER, "abort"), states=ENDED, standing=None),
        "valid",
        (),
        (),
    ),
    (
        "open-but-for-what-cannot-be-read",
        lambda path: run_with(
            path, M2, M3, states=ENDED, by_broker={3: [(10, PRODUCER, "abort")]}, rotten=3
        ),
        "unknown",
        (("corrupt", 0, 10, None), *UNSEEN),
        (),
    ),
    (
        "open-and-nothing-of-its-coordinator",
        lambda path: run_with(path, M2, M3, states=()),
        "unknown",
        UNSEEN,
        (),
    ),
    (
        "ended-otherwise-by-its-coordinator",
        lambda path: run_with(path, M3, states=OTHERWISE, standing=None),
        "invalid",
        (("coordinator-contradiction", 0, None, None),) * 2,
        (),
    ),
    (
        "open-in-a-compacted-topic",
        lambda path: run_with(path, M2, M3, states=ENDED, topic=COMPACTED),
        "invalid",
        FOUND,
        (),
    ),
    (
        "open-on-one-compacted-replica",
        lambda path: run_with(
            path, M2, M3, states=ENDED, by_broker={1: [MARKER], 2: [MARKER]}, topic=COMPACTED
        ),
        "invalid",
        FOUND,
        (),
    ),
    (
        "open-on-a-compacted-replica-that-ends-early",
        lambda path: run_with(
            path,
            *(M2, M3),
            states=ENDED,
            by_broker={1: [LATE_MARKER], 2: [LATE_MARKER]},
            topic=COMPACTED,
        ),
        "unknown",
        UNSEEN,
        (),
    ),
)
"""Name, run, verdict, anomalies, and words of the reasons or the headline."""

"""Golden runs of a compacted topic: what went that nothing replaced, and all that comes near it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from highwater.harness.runs.derived_settings import (
    COMPACTED,
    DELETE_RETENTION,
    DELETE_RETENTION_MS,
)
from highwater.harness.runs.plan import Topic, Workload
from highwater.harness.runs.store import Run
from tests.support.logdirs import batch as numbered
from tests.support.logdirs import marker
from tests.support.run_builder import RunBuilder

Finding = tuple[str, int, int | None, str | None]
Places = Mapping[int, str]
"""Offset to the name of a record."""

V0, V1, T1 = "k1=p0-0", "k1=p0-1", "k1~p0-1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A record that was sent, each by another producer, and what came of it."""

    name: str
    offset: int | None
    outcome: str = "ok"


def compacted(
    path: Path,
    sends: Sequence[Sent],
    read: Places,
    *disks: Places,
    later_ms: float = 0,
) -> Run:
    """A run of a compacted topic of one partition on three brokers.

    Args:
        read: the records that the final read returned.
        disks: the records on each broker's disk; by default those that were read.
        later_ms: time until the final read.
    """
    config = {**COMPACTED, DELETE_RETENTION: str(DELETE_RETENTION_MS)}
    run = RunBuilder(
        path,
        kafka="4.4.0",
        topic=Topic(config=config),
        workload=Workload(producers=0, keys=2),
    )
    for number, sent in enumerate(sends):
        run.send(sent.name, sent.offset, outcome=sent.outcome, process=f"producer-{number}")
    run.tick(later_ms)
    for offset, name in sorted(read.items()):
        run.read(name, offset)
    end = 1 + max([*read, *(sent.offset for sent in sends if sent.offset is not None)])
    run.fence(end)
    for broker in (1, 2, 3):
        records = disks[broker - 1] if disks else read
        run.disk([broker], [(offset, 0, name) for offset, name in sorted(records.items())])
    run.disk([1, 2, 3], [(end, 0, "fence-0")])
    return run.write()


def swapping(path: Path) -> Run:
    """Broker 3 was stopped while its cleaner put the segment with the last value in its place."""
    run = compacted(path, _BOTH, {1: V1}, {1: V1}, _ALL, {})
    (run.replicas / "3" / "events-0" / f"{0:020d}.log.swap").write_bytes(b"")
    return run


def in_transactions(path: Path, ours: str, others: str) -> Run:
    """All brokers have the second of two records in a transaction, which ends with these markers.

    Args:
        ours: the marker on broker 1; empty: none.
        others: the one on the others.
    """
    run = RunBuilder(
        path, kafka="4.4.0", topic=Topic(config=dict(COMPACTED)), workload=Workload(keys=2)
    )
    run.send(V0, 0)
    run.send(V1, 1, outcome="ok" if others == "commit" else "fail")
    run.read(V0, 0)
    if others == "commit":
        run.read(V1, 1)
    run.disk([1, 2, 3], [(0, 0, V0)])
    data = numbered(1, [(b"k1", V1.encode())], producer=(7, 0, 0), transactional=True, time_ms=1)
    for broker in (1, 2, 3):
        run.disks[broker, 0].append(data)
        if word := ours if broker == 1 else others:
            run.disks[broker, 0].append(marker(2, producer=7, commit=word == "commit"))
    run.fence(3)
    run.disk([1, 2, 3], [(3, 0, "fence-0")])
    return run.write()


_BOTH: Final = (Sent(name=V0, offset=0), Sent(name=V1, offset=1))
_DELETED: Final = (Sent(name=V0, offset=0), Sent(name=T1, offset=1))
_OLD_MS: Final = DELETE_RETENTION_MS + 1000.0
_ALL: Final = {0: V0, 1: V1}

CASES: Final[Sequence[tuple[str, Callable[[Path], Run], tuple[Finding, ...]]]] = (
    ("compacted-replaced", lambda p: compacted(p, _BOTH, {1: V1}), ()),
    (
        "compacted-lost",
        lambda p: compacted(p, _BOTH, {0: V0}, *[{0: V0}] * 3),
        (("lost-write", 0, 1, V1),),
    ),
    (
        "compacted-aborted-value",
        lambda p: compacted(p, (_BOTH[0], Sent(name=V1, offset=1, outcome="fail")), _ALL),
        (("G1a", 0, 1, V1),),
    ),
    ("compacted-tombstone-gone", lambda p: compacted(p, _DELETED, {}, later_ms=_OLD_MS), ()),
    (
        "compacted-tombstone-gone-early",
        lambda p: compacted(p, _DELETED, {}),
        (("lost-write", 0, 0, V0), ("lost-write", 0, 1, T1)),
    ),
    (
        "compacted-came-back",
        lambda p: compacted(p, _DELETED, {0: V0}, later_ms=_OLD_MS),
        (("resurrected-value", 0, 0, V0),),
    ),
    (
        "compacted-replica-stale",
        lambda p: compacted(p, _BOTH, {1: V1}, {1: V1}, _ALL, {0: V0}),
        (("stale-replica", 0, 1, V1),),
    ),
    ("compacted-replica-swaps", swapping, ()),
    ("compacted-committed-on-disk", lambda p: in_transactions(p, "commit", "commit"), ()),
    (
        "compacted-marker-missing",  # who reads broker 1 gets the older value
        lambda p: in_transactions(p, "", "commit"),
        (("stale-replica", 0, 1, V1),),
    ),
    (
        "compacted-marker-differs",
        lambda p: in_transactions(p, "commit", "abort"),
        (
            ("divergence", 0, 2, None),
            *((("stale-replica", 0, 1, V1),) * 2),
        ),
    ),
)
"""Runs with keys, by name, and what is found."""

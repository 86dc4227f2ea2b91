"""Golden runs with journals of a group's members: what they owned, committed and were told."""

import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from highwater.harness.releases.cluster_facts import GROUPS_CODEC
from highwater.harness.runs.plan import Workload
from highwater.harness.runs.store import Run
from tests.support.logdirs import Broker, batch, marker
from tests.support.run_builder import RunBuilder

GROUP: Final = "events-group"
SHARE_GROUP: Final = "events-share"
OFFSETS_TOPIC: Final = "__consumer_offsets"
Finding = tuple[str, int, int | None, str | None]


def offsets_record(offset: int | None) -> tuple[bytes, bytes | None]:
    """A record of the coordinators' topic: the group has this offset of partition 0; None: none."""
    words = b"".join(struct.pack(">h", len(word)) + word for word in (GROUP.encode(), b"events"))
    key = struct.pack(">h", 1) + words + struct.pack(">i", 0)
    return key, None if offset is None else struct.pack(">hqih", 3, offset, -1, 0) + bytes(8)


def handed_over(
    path: Path,
    *,
    leaves: str = "revoked",
    last: str | None = None,
    last_takes_ms: int = 1,
    told: int | None = 2,
    given: int = 2,
    end: int | None = 3,
    disk: int | None = None,
) -> Run:
    """Member 0 reads two records and is replaced by member 1, which reads the third.

    Args:
        leaves: how member 0 learns that the other has the partition.
        last: outcome of a commit that member 0 asks for in between, if it does.
        told: the offset that member 1 is told; it begins at 2.
        given: the first offset that it is given.
        end: the group's offset in the end.
        disk: the last offset in the coordinators' topic; None: there is no copy.
    """
    run = RunBuilder(path, kafka="4.4.0", workload=Workload(subscribe=2))
    run.everywhere([(offset, 0, f"m{offset}") for offset in range(3)])
    run.journal("assigned", "member-0", 0, epoch=1)
    run.journal("given", "member-0", 0, end=2)
    run.journal("commit", "member-0", 2)
    run.journal("committed", "member-1", told)
    run.journal("assigned", "member-1", 2, epoch=2)
    if last is not None:
        run.journal("commit", "member-0", 2, outcome=last, takes_ms=last_takes_ms)
    run.journal(leaves, "member-0", None)
    run.journal("given", "member-1", given, end=given + 1)
    run.journal("commit", "member-1", 3)
    run.journal("committed", "reader", end)
    run.fence(3)
    run.disk([1, 2, 3], [(3, 0, "fence-0")])
    built = run.write()
    if disk is not None:
        for broker in (1, 2, 3):
            folder = Broker(built.coordinators / str(broker), broker).meta()
            records = [offsets_record(2), offsets_record(disk)]
            folder.log(f"{OFFSETS_TOPIC}-0", batch(0, records))
            folder.checkpoint("replication-offset-checkpoint", {f"{OFFSETS_TOPIC}-0": 2})
    return built


def contradicted(
    path: Path,
    *,
    answer: int | None,
    group_goes: bool = False,
    aborted: bool = False,
    unloaded: bool = False,
    kafka: str = "4.0.0",
) -> Run:
    """A transaction commits offset 1 of the group; then the coordinator is asked.

    Args:
        group_goes: whether the group is removed while the transaction is open.
        aborted: whether a transaction of the same producer was aborted before.
        unloaded: whether a broker has logged that it could not load the groups' offsets.
    """
    run = RunBuilder(path, kafka=kafka, workload=Workload(transactions=True, idempotence=True))
    if unloaded:
        run.log_line(2, "unloaded", f"ERROR Error loading offsets from {OFFSETS_TOPIC}-0 (k.c.g)")
    run.everywhere([(0, 0, "m0")])
    gone = struct.pack(">hh", 2, len(GROUP)) + GROUP.encode(), None
    log, end = b"", 0
    for commit in (False, True) if aborted else (True,):
        offset = offsets_record(int(commit))
        log += batch(end, [offset], producer=(0, 0, 0), transactional=True)
        log += batch(end + 1, [gone if group_goes else (b"?", b"")])
        log += marker(end + 2, producer=0, commit=commit)
        end += 3
    run.journal("committed", "reader", answer, end=end)
    run.fence(1)
    run.disk([1, 2, 3], [(1, 0, "fence-0")])
    built = run.write()
    for broker in (1, 2, 3):
        folder = Broker(built.coordinators / str(broker), broker).meta()
        folder.log(f"{OFFSETS_TOPIC}-0", log)
        folder.checkpoint("replication-offset-checkpoint", {f"{OFFSETS_TOPIC}-0": end})
    return built


def coordinated(
    path: Path,
    topic: str,
    records: Sequence[tuple[bytes, bytes | None]],
    *,
    kafka: str,
    workload: Workload,
    codec: str = "0",
    accepted: int | None = None,
) -> Run:
    """A coordinator writes records to its topic, and a calm run ends.

    Args:
        codec: the value of ``GROUPS_CODEC``.
        accepted: the offset that a member of the share group accepts.
    """
    run = RunBuilder(path, kafka=kafka, workload=workload)
    run.plan = replace(run.plan, broker_config={GROUPS_CODEC: codec})
    run.everywhere([(0, 0, "m0")])
    run.journal("assigned", "member-0", 0, epoch=1)
    if accepted is not None:
        run.journal("accept", "share-0", accepted, deliveries=1, group=SHARE_GROUP)
    run.fence(1)
    run.disk([1, 2, 3], [(1, 0, "fence-0")])
    built = run.write()
    for broker in (1, 2, 3):
        folder = Broker(built.coordinators / str(broker), broker).meta()
        folder.log(f"{topic}-0", batch(0, records))
        folder.checkpoint("replication-offset-checkpoint", {f"{topic}-0": len(records)})
    return built


def shared(
    path: Path,
    *,
    answer: str | None = "release",
    count: int = 2,
    fault: bool = False,
    third: bool = True,
) -> Run:
    """Member 0 of a share group is given a record, and gives it back; then member 1 is given it.

    Args:
        answer: of member 0; None: it gives none.
        count: the delivery count that member 1 is told.
        fault: whether a broker fails in between.
        third: whether the last record is given to somebody.
    """
    workload = Workload(share=2, consumers=0)
    run = RunBuilder(path, kafka="4.4.0", workload=workload)
    run.everywhere([(offset, 0, f"m{offset}") for offset in range(3)])
    words: dict[str, Any] = {"group": SHARE_GROUP}
    run.journal("acquired", "share-0", 0, deliveries=1, **words)
    if answer is not None:
        run.journal(answer, "share-0", 0, deliveries=1, **words)
    if fault:
        run.fault("kill", 1, "broker 1 is killed")
    run.tick(100)
    run.journal("acquired", "share-1", 0, deliveries=count, **words)
    run.journal("accept", "share-1", 0, deliveries=count, **words)
    for offset in (1, 2) if third else (1,):
        run.journal("acquired", "share-0", offset, deliveries=1, **words)
        run.journal("accept", "share-0", offset, deliveries=1, **words)
    run.journal("drained", "reader", None, **words)
    run.fence(3)
    run.disk([1, 2, 3], [(3, 0, "fence-0")])
    return run.write()


def _shared(name: str, *findings: Finding, **words: Any) -> tuple[str, Callable[..., Run], Any]:  # noqa: ANN401
    return f"share-group-{name}", lambda path: shared(path, **words), findings


def _case(name: str, *findings: Finding, **words: Any) -> tuple[str, Callable[..., Run], Any]:  # noqa: ANN401
    return f"group-{name}", lambda path: handed_over(path, **words), findings


CASES: Final[Sequence[tuple[str, Callable[[Path], Run], tuple[Finding, ...]]]] = (
    _case("handed-over", disk=3),
    _case("two-owners", ("two-owners", 0, None, None), last="ok"),
    # Its answer came when it knew already that it had lost the partition: it may have asked again.
    _case("two-owners-nearly", last="ok", leaves="lost", last_takes_ms=9),
    _case("lost-commit", ("lost-commit", 0, 3, None), end=2),
    _case("lost-commit-on-disk", ("lost-commit", 0, 3, None), disk=2),
    _case("stale-commit", ("stale-commit", 0, 2, None), told=None),
    _case("given-again", ("given-again", 0, 1, None), given=1),
    ("group-of-transaction", lambda path: contradicted(path, answer=1), ()),
    (
        "coordinator-contradiction",
        lambda path: contradicted(path, answer=None, group_goes=True),
        (("coordinator-contradiction", 0, 1, None),),
    ),
    (
        "coordinator-contradiction-with-offset",
        lambda path: contradicted(path, answer=0, aborted=True),
        (("coordinator-contradiction", 0, 1, None),),
    ),
    _shared("hands-over"),
    _shared("two-holders", ("two-holders", 0, 0, None), answer=None),
    _shared("two-holders-after-a-fault", answer=None, fault=True),
    _shared("acknowledged-again", ("acknowledged-again", 0, 0, None), answer="accept"),
    _shared("over-delivered", ("over-delivered", 0, 0, None), count=6),
    _shared("never-given", ("never-given", 0, 2, None), third=False),
)
"""Name, run, and what is found in it."""

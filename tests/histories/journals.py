"""Golden runs with journals of a group's members: what they owned, committed and were told."""

import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from highwater.harness.runs.plan import Workload
from highwater.harness.runs.store import Run
from tests.support.logdirs import Broker, batch
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


def handed_over(  # noqa: PLR0913 - what may differ
    path: Path,
    *,
    epochs: tuple[int, int] = (1, 2),
    leaves: str = "revoked",
    last: str | None = None,
    last_takes_ms: int = 1,
    told: int | None = 2,
    begins: int = 2,
    sought: int | None = None,
    given: int = 2,
    end: int | None = 3,
    answered: str = "ok",
    disk: int | None = None,
) -> Run:
    """Member 0 reads two records and is replaced by member 1, which reads the third.

    Args:
        epochs: in which they are assigned the partition.
        leaves: how member 0 learns of that, after the other has the partition.
        last: outcome of a commit that member 0 asks for in between, if it does.
        last_takes_ms: how long that takes.
        told: the offset that member 1 is told; it begins at ``begins``.
        sought: where it goes on, as its own offset is not there.
        given: the first offset that it is given.
        end: the group's offset in the end.
        answered: outcome of member 1's commit.
        disk: the last offset in the coordinators' topic; None: there is no copy.
    """
    run = RunBuilder(path, kafka="4.4.0", workload=Workload(subscribe=2))
    run.everywhere([(offset, 0, f"m{offset}") for offset in range(3)])
    run.journal("assigned", "member-0", 0, epoch=epochs[0])
    run.journal("given", "member-0", 0, end=2)
    run.journal("commit", "member-0", 2)
    run.journal("committed", "member-1", told)
    run.journal("assigned", "member-1", begins, epoch=epochs[1])
    if last is not None:
        run.journal("commit", "member-0", 2, outcome=last, takes_ms=last_takes_ms)
    run.journal(leaves, "member-0", None)
    if sought is not None:
        run.journal("sought", "member-1", sought)
    run.journal("given", "member-1", given, end=given + 1)
    run.journal("commit", "member-1", 3, outcome=answered)
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


def shared(
    path: Path,
    *,
    answer: str | None = "release",
    outcome: str = "ok",
    waits_ms: float = 100,
    count: int = 2,
    process: str = "share-1",
    fault: bool = False,
    third: bool = True,
) -> Run:
    """Member 0 of a share group is given a record, and gives it back; then member 1 is given it.

    Args:
        answer: of member 0; None: it gives none.
        outcome: of the answer.
        waits_ms: time from there to the second delivery.
        count: the delivery count that member 1 is told.
        process: the second member.
        fault: whether a broker fails in between.
        third: whether the last record is given to somebody.
    """
    workload = Workload(share=2, consumers=0)
    run = RunBuilder(path, kafka="4.4.0", workload=workload)
    run.everywhere([(offset, 0, f"m{offset}") for offset in range(3)])
    words: dict[str, Any] = {"group": SHARE_GROUP}
    run.journal("acquired", "share-0", 0, deliveries=1, **words)
    if answer is not None:
        run.journal(answer, "share-0", 0, outcome=outcome, deliveries=1, **words)
    if fault:
        run.fault("kill", 1, "broker 1 is killed")
    run.tick(waits_ms)
    run.journal("acquired", process, 0, deliveries=count, **words)
    run.journal("accept", process, 0, deliveries=count, **words)
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
    _case("two-owners-in-an-epoch", ("two-owners", 0, None, None), epochs=(2, 2)),
    _case("lost-commit", ("lost-commit", 0, 3, None), end=2),
    _case("lost-commit-all", ("lost-commit", 0, 3, None), end=None),
    _case("lost-commit-nearly", end=2, answered="info"),
    # It is not known when a commit without an answer took effect.
    _case("lost-commit-late", end=2, last="info"),
    _case("lost-commit-on-disk", ("lost-commit", 0, 3, None), disk=2),
    _case("lost-commit-on-disk-nearly", disk=2, end=2, answered="info"),
    _case("stale-commit", ("stale-commit", 0, 2, None), told=None),
    _case("never-committed", ("stale-commit", 0, 2, None), told=1),
    _case("given-again", ("given-again", 0, 1, None), given=1),
    _case("given-again-nearly", sought=1, given=1),
    _shared("hands-over"),
    _shared("two-holders", ("two-holders", 0, 0, None), answer=None),
    # The lock of the first had run out.
    _shared("two-holders-nearly", answer=None, waits_ms=5_100),
    _shared("two-holders-after-a-fault", answer=None, fault=True),
    _shared("same-delivery", ("two-holders", 0, 0, None), answer=None, waits_ms=9_000, count=1),
    _shared("acknowledged-again", ("acknowledged-again", 0, 0, None), answer="accept"),
    _shared(
        "acknowledged-again-in-spite-of-a-fault",
        ("acknowledged-again", 0, 0, None),
        answer="reject",
        fault=True,
    ),
    # Nobody knows whether it was accepted; and the same member may have been given it before.
    _shared("acknowledged-again-nearly", answer="accept", outcome="info"),
    _shared("acknowledged-by-the-same", answer="accept", process="share-0"),
    _shared("at-its-limit", count=5),
    _shared("over-delivered", ("over-delivered", 0, 0, None), count=6),
    _shared("never-given", ("never-given", 0, 2, None), third=False),
)
"""Name, run, and what is found in it."""

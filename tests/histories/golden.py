"""The golden runs: each a few lines of what happened, with the verdict that follows from them.

They are code, not files, so that one can read what happened; they build whole run
directories with real record batches.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from highwater.harness.runs.history import record_value
from highwater.harness.runs.plan import Topic, Workload
from highwater.harness.runs.store import Run
from tests.histories import (
    compaction,
    controllers,
    coordinators,
    groups,
    hanging,
    journals,
    lookups,
    loops,
    others_topic,
    remote_tier,
)
from tests.histories.stories import fork, loss
from tests.support.logdirs import batch as numbered
from tests.support.run_builder import RunBuilder

Finding = tuple[str, int, int | None, str | None]
"""Kind, partition, offset, value."""

M012: Final = [(0, 0, "m0"), (1, 0, "m1"), (2, 0, "m2")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Golden:
    """A run, and what is to be said of it.

    Attributes:
        says: words that a reason or the headline must contain.
    """

    name: str
    build: Callable[[Path], Run]
    verdict: str
    anomalies: tuple[Finding, ...] = ()
    breaking: frozenset[str] = frozenset()
    says: tuple[str, ...] = ()


def _calm(path: Path) -> Run:
    run = RunBuilder(path)
    run.everywhere(M012)
    run.fence(3)
    run.disk([1, 2, 3], [(3, 0, "fence-0")])
    return run.write()


def _lost(run: RunBuilder) -> RunBuilder:
    """m3 is acknowledged at offset 3, and m4 stands there in the end."""
    run.everywhere(M012)
    run.send("m3", 3)
    run.everywhere([(3, 2, "m4")])
    run.fence(4)
    return run


def _lost_with(path: Path, *, faults: int = 1, **settings: object) -> Run:
    topic = {key: settings.pop(key) for key in ("unclean_leader_election",) if key in settings}
    run = _lost(
        RunBuilder(path, topic=Topic(**topic), workload=Workload(**settings))  # type: ignore[arg-type]
    )
    for _ in range(faults):
        run.fault("kill", 1, "broker 1 is killed")
    return run.write()


def _lost_without_offset(path: Path) -> Run:
    run = RunBuilder(path, topic=Topic(partitions=2), workload=Workload(acks="0"))
    run.send("a", None, partition=0)
    run.send("b", None, partition=1)
    run.send("c", None, partition=None)
    run.read("b", 0, partition=1)
    run.fence(0)
    run.fence(1, partition=1)
    return run.write()


def _read_and_lost_without_offset(path: Path) -> Run:
    """A reader met m3 at 3, where the fence stands in the end: that is one loss, and no more."""
    run = RunBuilder(path, workload=Workload(acks="0"))
    run.send("m3", None)
    run.read("m3", 3, process="consumer-0", phase="run")
    run.fault("kill", 1, "broker 1 is killed")
    run.fence(3)
    return run.write()


def _without_offset_and_fence(path: Path) -> Run:
    run = RunBuilder(path, topic=Topic(partitions=2), workload=Workload(acks="0"))
    run.send("a", None, partition=0)
    run.send("c", None, partition=None)
    run.fence(0)
    run.fence(1, partition=1, read=False)
    return run.write()


def _unseen(path: Path) -> Run:
    run = RunBuilder(path)
    run.everywhere(M012)
    run.send("m3", 3)
    return run.write()


def _cut_short(path: Path) -> Run:
    """The log was cut, and ends before an offset that was acknowledged once: that is no unread."""
    run = RunBuilder(path, workload=Workload(acks="1"))
    run.everywhere(M012)
    for offset in range(3, 6):
        run.send(f"m{offset}", offset)
    run.fault("kill", 1, "broker 1 is killed")
    run.fence(3)
    return run.write()


def _unacknowledged(path: Path) -> Run:
    """What failed or timed out is lost to nobody, and found again it is no anomaly either."""
    run = RunBuilder(path)
    run.everywhere(M012)
    run.send("gone", None, outcome="fail")
    run.send("perhaps", None, outcome="info", partition=None)
    run.send("there", None, outcome="info")
    run.read("there", 3)
    run.fence(4)
    return run.write()


def _duplicate(path: Path, *, idempotence: bool = False) -> Run:
    run = RunBuilder(path, workload=Workload(idempotence=idempotence))
    run.everywhere(M012)
    run.read("m1", 3)
    run.read("m1", 3, process="reader-2")  # the same place twice, by another reader
    run.fence(4)
    return run.write()


def _lag(path: Path) -> Run:
    """A follower that is behind, and one whose log begins later, hold nothing else."""
    run = RunBuilder(path)
    for offset, _, value in M012:
        run.send(value, offset)
        run.read(value, offset)
    run.disk([1], M012)
    run.disk([2], M012[:1])
    run.disk([3], M012[1:])
    run.fence(3)
    return run.write()


def _hole(path: Path) -> Run:
    run = RunBuilder(path)
    run.everywhere([])
    for offset, _, value in M012:
        run.send(value, offset)
        run.read(value, offset)
    run.disk([1, 2], M012)
    run.disk([3], [M012[0], M012[2]])
    run.fence(3)
    return run.write()


def _other_epoch(path: Path) -> Run:
    run = RunBuilder(path)
    run.everywhere(M012)
    run.disk([1, 2], [(3, 0, "x")])
    run.disk([3], [(3, 1, "x")])
    run.fence(4)
    return run.write()


def _older_format(path: Path) -> Run:
    """A leader converted records for a follower that still spoke an old protocol: no epochs."""
    run = RunBuilder(path)
    run.everywhere(M012)
    for offset, _, value in M012:
        old = numbered(offset, [(None, record_value(value, 32))], magic=1)
        run.disks[3, 0][offset] = old
    run.fence(3)
    return run.write()


def _restless(path: Path, *, checkpointed: int, quiesced: bool = False) -> Run:
    """The cluster did not quiesce, if not told to, and offset 3 differs."""
    run = RunBuilder(path, quiesced=quiesced)
    run.everywhere(M012)
    run.disk([1], [(3, 0, "m3")])
    run.disk([2, 3], [(3, 1, "m4")])
    run.fence(4)
    built = run.write()
    for broker in (1, 2, 3):
        run.checkpoint(broker, {0: min(4, checkpointed + broker)})
    return built


def _corrupt(path: Path) -> Run:
    run = RunBuilder(path)
    run.everywhere(M012)
    run.damage(2, 1)
    run.fence(3)
    return run.write()


def _torn(path: Path) -> Run:
    run = RunBuilder(path)
    run.everywhere(M012)
    run.disks[2, 0][-1] = run.disks[2, 0][-1][:-7]
    run.fence(3)
    return run.write()


def _untested(path: Path) -> Run:
    run = RunBuilder(path)
    run.send("m0", None, outcome="fail")
    run.fence(0)
    return run.write()


def _in_sync(path: Path, isr: list[int]) -> Run:
    """Broker 3 lacks the last record, and the ISR is as told."""
    run = RunBuilder(path)
    run.leader(1, 0, isr)
    run.everywhere(M012)
    run.fence(3)
    run.disk([1, 2], [(3, 0, "fence-0")])
    return run.write()


def _elected(path: Path, *, epoch: int) -> Run:
    """Broker 1 leads in epoch 0, then nobody, then broker 2 in some epoch."""
    run = RunBuilder(path)
    run.everywhere(M012)
    for leader, own in ((1, 0), (-1, 0), (2, epoch)):
        run.leader(leader, own, [1, 2, 3])
    run.fence(3)
    run.disk([1, 2, 3], [(3, epoch, "fence-0")])
    return run.write()


def _numbered(path: Path, *, epoch: int) -> Run:
    """An idempotent producer's first number stands at offset 3, and again at 4 in some epoch."""
    run = RunBuilder(path, workload=Workload(idempotence=True))
    run.everywhere(M012)
    for offset, own in ((3, 0), (4, epoch)):
        value = f"m{offset}"
        run.send(value, offset)
        run.read(value, offset)
        for broker in (1, 2, 3):
            data = numbered(offset, [(None, value.encode())], producer=(7, own, 0))
            run.disks[broker, 0].append(data)
    run.fence(5)
    run.disk([1, 2, 3], [(5, 0, "fence-0")])
    return run.write()


LOST: Final[Finding] = ("lost-write", 0, 3, "m3")
FORK: Final[Finding] = ("divergence", 0, 3, "m3")
_BREAKS_LOST: Final = frozenset({"lost-write"})
_BREAKS_FORK: Final = frozenset({"divergence"})


def _lost_decision(findings: tuple[Finding, ...]) -> bool:
    return [kind for kind, *_ in findings] == ["lost-decision"]


GOLDEN: Final = (
    Golden(name="calm", build=_calm, verdict="valid", says=("kept all 3",)),
    Golden(
        name="story-of-loss",
        build=loss,
        verdict="invalid",
        anomalies=(LOST,),
        breaking=_BREAKS_LOST,
        says=("lost 1 of 5 acknowledged records (acks=all, clean elections)",),
    ),
    Golden(
        name="story-of-divergence",
        build=fork,
        verdict="invalid",
        anomalies=(LOST, FORK),
        breaking=_BREAKS_LOST | _BREAKS_FORK,
        says=("holds different records at 1 offset",),
    ),
    Golden(
        name="acks-1-after-a-fault",
        build=lambda path: _lost_with(path, acks="1"),
        verdict="valid",
        anomalies=(LOST,),
        says=(
            "The run's guarantee allows this",
            "lost 1 of 5 acknowledged records, which acks=1 does not promise to keep (acks=1",
        ),
    ),
    Golden(
        name="acks-1-without-a-fault",
        build=lambda path: _lost_with(path, acks="1", faults=0),
        verdict="invalid",
        anomalies=(LOST,),
        breaking=_BREAKS_LOST,
    ),
    Golden(
        name="unclean-elections",
        build=lambda path: _lost_with(path, unclean_leader_election=True),
        verdict="valid",
        anomalies=(LOST,),
        says=("records, which unclean elections do not promise to keep (acks=all",),
    ),
    Golden(
        name="acks-0",
        build=_lost_without_offset,
        verdict="valid",
        anomalies=(("lost-write", 0, None, "a"), ("lost-write", -1, None, "c")),
        says=("lost 2 of 3 records that left the client, which acks=0 does not promise",),
    ),
    Golden(
        name="acks-0-read-before",
        build=_read_and_lost_without_offset,
        verdict="valid",
        anomalies=(("lost-write", 0, None, "m3"),),
    ),
    Golden(
        name="acks-0-unread-fence",
        build=_without_offset_and_fence,
        verdict="unknown",
        anomalies=(("lost-write", 0, None, "a"), ("unseen", -1, None, "c")),
    ),
    Golden(
        name="unseen",
        build=_unseen,
        verdict="unknown",
        anomalies=(("unseen", 0, 3, "m3"),),
        says=("returned 3 of 4",),
    ),
    Golden(
        name="cut-short",
        build=_cut_short,
        verdict="valid",
        anomalies=tuple(("lost-write", 0, offset, f"m{offset}") for offset in range(3, 6)),
        says=("lost 3 of 6",),
    ),
    Golden(name="unacknowledged", build=_unacknowledged, verdict="valid", says=("kept all 3",)),
    Golden(
        name="duplicate",
        build=_duplicate,
        verdict="valid",
        anomalies=(("duplicate", 0, 1, "m1"),),
    ),
    Golden(
        name="duplicate-idempotent",
        build=lambda path: _duplicate(path, idempotence=True),
        verdict="invalid",
        anomalies=(("duplicate", 0, 1, "m1"),),
        breaking=frozenset({"duplicate"}),
    ),
    Golden(name="lag-and-late-start", build=_lag, verdict="valid"),
    Golden(
        name="hole",
        build=_hole,
        verdict="invalid",
        anomalies=(("divergence", 0, 1, "m1"),),
        breaking=_BREAKS_FORK,
    ),
    Golden(
        name="other-epoch",
        build=_other_epoch,
        verdict="invalid",
        anomalies=(("divergence", 0, 3, "x"),),
        breaking=_BREAKS_FORK,
    ),
    Golden(name="older-format-on-one-replica", build=_older_format, verdict="valid"),
    Golden(
        name="restless-above-hw",
        build=lambda path: _restless(path, checkpointed=2),
        verdict="valid",
    ),
    Golden(
        name="restless-below-hw",
        build=lambda path: _restless(path, checkpointed=3),
        verdict="invalid",
        anomalies=(FORK,),
        breaking=_BREAKS_FORK,
    ),
    Golden(
        name="quiesced-above-hw",
        build=lambda path: _restless(path, checkpointed=2, quiesced=True),
        verdict="invalid",
        anomalies=(FORK,),
        breaking=_BREAKS_FORK,
    ),
    Golden(
        name="corrupt",
        build=_corrupt,
        verdict="invalid",
        anomalies=(("corrupt", 0, 1, None),),
        breaking=frozenset({"corrupt"}),
    ),
    Golden(name="torn-tail", build=_torn, verdict="valid"),
    Golden(
        name="missing",
        build=lambda path: _in_sync(path, [1, 2, 3]),
        verdict="invalid",
        anomalies=(("missing", 0, 3, None),),
        breaking=frozenset({"missing"}),
    ),
    Golden(name="behind", build=lambda path: _in_sync(path, [1, 2]), verdict="valid"),
    Golden(
        name="repeated-sequence",
        build=lambda path: _numbered(path, epoch=0),
        verdict="invalid",
        anomalies=(("repeated-sequence", 0, 3, "m3"),),
        breaking=frozenset({"repeated-sequence"}),
    ),
    Golden(
        name="sequence-of-a-new-epoch",
        build=lambda path: _numbered(path, epoch=1),
        verdict="valid",
    ),
    Golden(
        name="shared-epoch",
        build=lambda path: _elected(path, epoch=0),
        verdict="invalid",
        anomalies=(("shared-epoch", 0, None, None),),
        breaking=frozenset({"shared-epoch"}),
    ),
    Golden(name="an-epoch-each", build=lambda path: _elected(path, epoch=1), verdict="valid"),
    Golden(
        name="nothing-acknowledged",
        build=_untested,
        verdict="unknown",
        says=("no guarantee was tested",),
    ),
    *(
        Golden(
            name=name,
            build=build,
            verdict="invalid" if findings else "valid",
            anomalies=findings,
            breaking=frozenset(kind for kind, *_ in findings),
            says=("lost a decision of a controller",) if _lost_decision(findings) else (),
        )
        for name, build, findings in (
            *controllers.CASES,
            *coordinators.CASES,
            *remote_tier.CASES,
            *compaction.CASES,
            *journals.CASES,
            *lookups.CASES,
        )
    ),
    *(
        Golden(
            name=name,
            build=build,
            verdict=verdict,
            anomalies=findings,
            breaking=frozenset(kind for kind, *_ in findings) - {"unseen"},
            says=says,
        )
        for name, build, verdict, findings, says in hanging.CASES
    ),
    Golden(
        name="group-found-late",
        build=groups.found_late,
        verdict="invalid",
        anomalies=tuple(("undelivered", groups.NEW, n, f"m{n + 1}") for n in (0, 1)),
        breaking=frozenset({"undelivered"}),
        says=(
            "2 acknowledged records were never delivered to a group",
            "never delivered 2 records to a consumer group",
        ),
    ),
    *(
        Golden(name=name, build=build, verdict="valid", says=("kept all 4",))
        for name, build in groups.NEARLY.items()
    ),
    *(
        Golden(
            name=name,
            build=build,
            verdict="invalid" if breaking else "valid",
            anomalies=findings,
            breaking=breaking,
        )
        for name, build, findings, breaking in loops.CASES
    ),
    *(
        Golden(
            name=name,
            build=build,
            verdict=verdict,
            anomalies=findings,
            breaking=frozenset(kind for kind, *_ in findings if breaks),
            says=says,
        )
        for name, build, verdict, findings, breaks, says in others_topic.CASES
    ),
)

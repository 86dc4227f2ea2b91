"""Golden runs with the metadata logs of controllers, and with decisions of theirs.

Every log begins with the leader's control record (offset 0), the topic (1) and its partition (2);
then broker 2 leads (3), and the setting is changed (4).
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from highwater.harness.runs.store import Run
from tests.support import metadata_logs
from tests.support.metadata_logs import (
    change,
    log,
    nothing,
    partition,
    setting,
    topic,
    vote,
    write,
)
from tests.support.run_builder import RunBuilder, listed

SETTING: Final = "retention.ms"
DECIDED: Final = (
    (1, topic()),
    (1, partition()),
    (1, change(leader=2, isr=(1, 2))),
    (1, setting(SETTING, "7")),
)
END: Final = len(DECIDED) + 1
"""The offset behind these."""

Batches = Sequence[bytes]


def calm(path: Path, *, kafka: str = "4.3.1") -> RunBuilder:
    """A run in which nothing was lost, and whose topic the controllers know."""
    run = RunBuilder(path, kafka=kafka)
    run.leader(1, 0, [1, 2, 3])
    run.leader(2, 1, [1, 2])
    run.everywhere([(0, 0, "m0")])
    run.fence(1)
    run.disk([1, 2, 3], [(1, 0, "fence-0")])
    return run


def quorum(path: Path, logs: dict[int, Batches], ends: dict[int, int] | None = None) -> Run:
    """A run of three controllers, whose leader saw their logs end there."""
    run = calm(path)
    run.quorum(ends or dict.fromkeys(logs, END), END)
    built = run.write()
    for controller, batches in logs.items():
        write(path, controller, batches)
    return listed(built)


def agreeing(path: Path) -> Run:
    """Three equal logs, and a torn batch at the end of one."""
    whole = log(DECIDED)
    more = log((*DECIDED, (1, nothing())))
    return quorum(path, {100: whole, 101: whole, 102: [*whole, more[-1][:-3]]})


def flipped(path: Path) -> Run:
    """A bit of controller 102's record at offset 3 is another."""
    whole = log(DECIDED)
    bad = bytearray(whole[3])
    bad[-2] ^= 1
    return quorum(path, {100: whole, 101: whole, 102: [*whole[:3], bytes(bad), *whole[4:]]})


def short(path: Path) -> Run:
    """Controller 102 ends at offset 3, and had been seen to reach the end."""
    whole = log(DECIDED)
    return quorum(path, {100: whole, 101: whole, 102: whole[:3]})


def cleaned(path: Path, *, covered: int) -> Run:
    """Controller 101 has a log from offset 3 on, and a snapshot of what was before some offset."""
    run = calm(path)
    run.quorum(dict.fromkeys((100, 101), END), END)
    built = run.write()
    whole = log(DECIDED)
    write(path, 100, whole)
    before = [topic(), partition(version=0)]
    write(path, 101, whole[3:], base=3, snapshots={(covered, 1): before})
    return listed(built)


def alone(path: Path, batches: Batches, *, hw: int = END) -> Run:
    """A run of one controller; what it answered is that of ``decisions``."""
    run = calm(path)
    run.quorum({100: hw}, hw)
    for kind, value, row in (
        ("topic", None, {}),
        ("replicas", "3,1,2", {"partition": 0}),
        ("setting", "7", {"setting": SETTING}),
        ("leader", "1", {"partition": 0}),
    ):
        run.decided(kind, value, **row)
    built = run.write()
    write(path, None, batches)
    return listed(built)


def with_log(run: RunBuilder, batches: Batches) -> Run:
    """The run, with the log of its only controller, which was seen to go so far; no manifest."""
    run.quorum({100: len(batches)}, len(batches))
    built = run.write()
    write(built.path, None, batches)
    return built


def changed(*records: bytes) -> Batches:
    """The log with other records from offset 3 on."""
    return log((*DECIDED[:2], *((1, record) for record in records)))


def moved(path: Path, evidence: str) -> Run:
    """Brokers were made the leader; the log knows 1 and 2, one after the other, and not 3."""
    run = calm(path)
    for broker in (1, 2):
        run.decided("leader", str(broker), partition=0)
    run.decided("leader", "3", partition=0, evidence=evidence)
    return with_log(run, log(DECIDED))


def unanswered(path: Path) -> Run:
    """The setting was changed again without an answer: either may be there."""
    run = calm(path)
    run.decided("setting", "7", setting=SETTING)
    run.decided("setting", "8", setting=SETTING, evidence="unanswered")
    return with_log(run, log((*DECIDED, (1, setting(SETTING, "8")))))


def upgraded(path: Path, level: int) -> Run:
    """Level 9 of a feature was finalized; the log has some level."""
    run = calm(path)
    run.decided("feature", "9", subject="metadata.version")
    feature = metadata_logs.feature("metadata.version", level)
    return with_log(run, log((*DECIDED, (1, feature))))


def voted(path: Path, *decided: str | None, evidence: str = "answered") -> Run:
    """Controller 101 became a voter, or none; the log has 100 and 101, then 100 alone."""
    run = calm(path)
    for value in decided:
        run.decided("voter", value, subject="101", evidence=evidence)
    votes = [vote(END, 100, 101), vote(END + 1, 100)]
    return with_log(run, [*log(DECIDED), *votes])


def zookeeper(path: Path, *, value: str = "7", leader: int = 2, epoch: int = 1) -> Run:
    """ZooKeeper said yes to a topic and a setting; at the end it has these."""
    run = calm(path, kafka="2.8.2")
    run.decided("topic")
    run.decided("setting", "7", setting=SETTING)
    run.decided("topic", evidence="end")
    run.decided("setting", value, setting=SETTING, evidence="end")
    run.decided("replicas", "1,2,3", partition=0, evidence="end")
    run.decided("leader", str(leader), partition=0, epoch=epoch, evidence="end")
    return run.write()


def forgotten(path: Path) -> Run:
    """ZooKeeper does not know the topic at the end."""
    run = calm(path, kafka="2.8.2")
    run.decided("topic")
    run.decided("topic", "missing", evidence="end")
    return run.write()


Build = Callable[[Path], Run]
Finding = tuple[str, int, int | None, str | None]


def at(offset: int | None) -> tuple[Finding, ...]:
    """The finding that controllers' logs differ at an offset."""
    return (("metadata-divergence", 0, offset, None),)


def lost(*decided: str, partition: int = -1) -> tuple[Finding, ...]:
    """The findings that decisions are lost."""
    return tuple(("lost-decision", partition, None, words) for words in decided)


_LED: Final = "broker 2 led events-0 in leader epoch 1"

CASES: Final[tuple[tuple[str, Build, tuple[Finding, ...]], ...]] = (
    ("controllers-agree", agreeing, ()),
    ("controllers-flipped-bit", flipped, at(3)),
    ("controllers-short", short, at(3)),
    ("controllers-late-snapshot", lambda path: cleaned(path, covered=5), ()),
    ("controllers-no-snapshot", lambda path: cleaned(path, covered=2), at(2)),
    ("controller-alone", lambda path: alone(path, log(DECIDED)), ()),
    ("controller-alone-short", lambda path: alone(path, log(DECIDED), hw=END + 1), at(END)),
    (
        "decision-topic",
        lambda path: alone(path, log([(1, nothing())] * 4)),
        lost("topic events was created"),
    ),
    (
        "decision-setting",
        lambda path: alone(path, changed(change(leader=2, isr=(1, 2)), nothing())),
        lost("retention.ms of events was set to 7"),
    ),
    (
        "decision-replicas",
        lambda path: alone(
            path,
            changed(change(leader=2, isr=(1, 2), replicas=(2, 1)), setting(SETTING, "7")),
        ),
        lost("events-0 was given the replicas 3,1,2", partition=0),
    ),
    (
        "decision-other-leader",
        lambda path: alone(path, changed(change(leader=3, isr=(1, 2)), setting(SETTING, "7"))),
        lost(_LED, partition=0),
    ),
    (
        "decision-no-epoch",
        lambda path: alone(path, changed(change(isr=(1, 2)), setting(SETTING, "7"))),
        lost(_LED, partition=0),
    ),
    (
        "decision-moved-leader",
        lambda path: moved(path, "answered"),
        lost("broker 3 was made the leader of events-0", partition=0),
    ),
    ("decision-leader-unanswered", lambda path: moved(path, "unanswered"), ()),
    (
        "decision-isr",
        lambda path: alone(path, changed(change(leader=2), setting(SETTING, "7"))),
        lost("the ISR of events-0 was 1,2 in leader epoch 1", partition=0),
    ),
    (
        "decision-isr-and-more",
        lambda path: alone(
            path,
            changed(change(leader=2), setting(SETTING, "7"), change(isr=(2, 1)), change(isr=(2,))),
        ),
        (),
    ),
    ("decision-unanswered", unanswered, ()),
    (
        "decision-feature",
        lambda path: upgraded(path, 8),
        lost("feature metadata.version was finalized at level 9"),
    ),
    ("decision-feature-later", lambda path: upgraded(path, 10), ()),
    ("decision-no-voter", lambda path: voted(path, "votes", None), ()),
    (
        "decision-voter",
        lambda path: voted(path, None, "votes"),
        lost("controller 101 was added to the voters"),
    ),
    ("decision-voter-unanswered", lambda path: voted(path, "votes", evidence="unanswered"), ()),
    ("zookeeper", zookeeper, ()),
    (
        "zookeeper-setting",
        lambda path: zookeeper(path, value="8"),
        lost("retention.ms of events was set to 7"),
    ),
    ("zookeeper-later-epoch", lambda path: zookeeper(path, leader=3, epoch=4), ()),
    ("zookeeper-other-leader", lambda path: zookeeper(path, leader=3), lost(_LED, partition=0)),
    (
        "zookeeper-no-epoch",
        lambda path: zookeeper(path, leader=1, epoch=0),
        lost(_LED, partition=0),
    ),
    ("zookeeper-topic", forgotten, lost("topic events was created")),
)

"""The stories that the evidence about one record tells, without Spark."""

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from highwater.checkers.history.partition_ledgers import PartitionLedger
from highwater.checkers.inspection.replica_extents import LogExtent
from highwater.checkers.lineage.evidence import RecordEvidence
from highwater.checkers.lineage.sentences import _cut, sentence
from highwater.checkers.lineage.story import witnesses
from highwater.checkers.lineage.subject import Subject
from highwater.harness.runs.history import TABLES
from highwater.harness.runs.partition_trace import PartitionTrace, Track, partition_traces
from highwater.harness.runs.verdict import Witness
from tests.histories.stories import CUT, rehearse_fork, rehearse_loss
from tests.support.run_builder import RunBuilder


def evidence(run: RunBuilder) -> RecordEvidence:
    """What a run recorded, and the disks as the story of loss leaves them."""
    operations = [{"error": None, "complete_ns": None, **row} for row in run.rows["history/ops"]]
    names = ("events/partitions", "events/replicas")
    tables = (pa.Table.from_pylist(run.rows[name], schema=TABLES[name]) for name in names)
    trace = partition_traces(*tables).get(("events", 0), PartitionTrace())
    return RecordEvidence(
        topic=run.topic.name,
        operations=operations,
        traces={0: trace},
        faults=run.rows["events/faults"],
        log_lines=run.rows["events/log_lines"],
        disk={(0, 3): [(1, 0, "m3"), (2, 2, "m4")]},
        ends=[
            LogExtent(
                run="r0", broker=broker, topic="events", partition=0,
                first=0, last=last, segment=0, damaged=False,
            )
            for broker, last in ((1, 4), (2, 4), (3, 2))
        ],
        reach={0: PartitionLedger(run="r0", topic="events", partition=0, last=4, complete=True)},
    )  # fmt: skip


def subject(run: RunBuilder, kind: str = "lost-write") -> Subject:
    return Subject(evidence=evidence(run), kind=kind, partition=0, offset=3, value="m3")


@pytest.fixture
def lost() -> Subject:
    run = RunBuilder.rehearsal()
    rehearse_loss(run)
    return subject(run)


def row(kind: str = "lost-write", **columns: Any) -> dict[str, Any]:  # noqa: ANN401 - a row of any
    base = {"topic": "events", "partition": 0, "offset": 3, "value": "m3", "acks": "all"}
    return {"kind": kind, **base, "copies": None, **columns}


def test_sentence_of_a_loss_says_who_what_and_why(lost: Subject) -> None:
    assert sentence(row(), lost) == (
        "Let R be m3, acknowledged with acks=all at offset 3 of events-0 by broker 1 in epoch 0."
        " Then broker 3, whose HW was still 3, truncated its log to offset 3."
        " Then broker 3 became leader in epoch 2, without R."
        " However, R's offset was given to m4."
        " The final reader passed its offset and did not receive R: R is lost."
    )


def test_a_commit_without_a_record_is_no_brokers_acknowledgement() -> None:
    run = RunBuilder.rehearsal()
    rehearse_loss(run)
    for send in run.rows["history/ops"]:
        if send["value"] == "m3":
            send.update(error="OUT_OF_ORDER")
    failed = subject(run)
    assert sentence(row(offset=None), failed).startswith(
        "Let R be m3, in a transaction committed in events-0, though its send had failed"
        " (OUT_OF_ORDER)."
    )
    told = witnesses(failed)
    assert says(told, "committed") == [
        "The send of m3 failed (OUT_OF_ORDER), and its transaction was committed."
    ]
    assert "acknowledged" not in {witness.what for witness in told}


def test_witnesses_come_in_order_of_time_and_the_disks_last(lost: Subject) -> None:
    told = witnesses(lost)
    times = [witness.time_ns for witness in told if witness.time_ns is not None]
    assert times == sorted(times)
    kinds = [witness.what for witness in told]
    assert kinds[:2] == ["sent", "acknowledged"]
    assert kinds[-3:] == ["disk", "disk", "disk"]
    assert [w for w in kinds if w in ("kill", "truncated", "elected", "replaced")] == [
        "kill", "kill", "truncated", "elected", "truncated", "elected", "replaced",
    ]  # fmt: skip


def says(told: tuple[Witness, ...], what: str) -> list[str]:
    return [witness.says for witness in told if witness.what == what]


def test_followers_in_the_window_are_told_from_the_leader(lost: Subject) -> None:
    held = says(witnesses(lost), "held")
    assert "Broker 1 held offset 3 (LEO 4) and knew it as committed (HW 4)." in held
    assert (
        "Broker 3 held offset 3 (LEO 4) above its HW, which was still 3:"
        " the broker did not know that the record was committed." in held
    )


def test_a_follower_that_learned_later_says_when() -> None:
    run = RunBuilder.rehearsal()
    run.send("m3", 3)
    run.observe(2, 4, 3)
    run.tick(500)
    run.observe(2, 4, 4)
    run.tick(500)
    run.observe(2, 9, 9)
    (held,) = says(witnesses(subject(run, "unseen")), "held")
    assert held == "Broker 2 held offset 3 (LEO 4) above its HW 3; its HW passed it at 0.505 s."


def test_the_brokers_own_line_is_quoted(lost: Subject) -> None:
    assert f"Broker 3 logged: “{CUT}”" in says(witnesses(lost), "truncated")


def test_what_happened_after_the_loss_is_left_out(lost: Subject) -> None:
    """Brokers 1 and 2 are mended and cut their logs later, when R is gone already."""
    told = witnesses(lost)
    assert "healed" not in [witness.what for witness in told]
    assert {cut.broker for cut in lost.cuts} == {3}


def test_disks_say_what_they_hold(lost: Subject) -> None:
    assert says(witnesses(lost), "disk") == [
        "The disk of broker 1 holds m3 at offset 3, written in epoch 0.",
        "The disk of broker 2 holds m4 at offset 3, written in epoch 2.",
        "The disk of broker 3 ends before offset 3.",
    ]


def test_a_fork_is_told_to_its_end() -> None:
    run = RunBuilder.rehearsal()
    rehearse_fork(run)
    told = witnesses(subject(run, "divergence"))
    assert "Broker 1 is healed." in says(told, "healed")
    (replaced,) = says(told, "replaced")
    assert replaced == "Broker 3 acknowledged another record, m4, at the same offset 3."


def test_many_faults_are_told_by_their_first_and_last() -> None:
    run = RunBuilder.rehearsal()
    run.send("m3", 3)
    for number in range(40):
        run.tick()
        run.fault("kill", 1, f"fault {number} happens")
    told = says(witnesses(subject(run, "unseen")), "kill")
    assert told == [f"Fault {number} happens." for number in (*range(6), *range(34, 40))]


def test_a_record_without_offset_or_partition_has_a_story_too() -> None:
    run = RunBuilder.rehearsal()
    run.send("m3", None, partition=None)
    one = Subject(
        evidence=evidence(run), kind="lost-write", partition=None, offset=None, value="m3"
    )
    told = witnesses(one)
    assert [witness.what for witness in told] == ["sent", "acknowledged", "passed"]
    assert sentence(row(partition=None, offset=None, acks="0"), one) == (
        "Let R be m3, sent with acks=0, which no broker acknowledges, in events."
        " The final reader read the whole partition and did not receive R: R is lost."
    )


def test_sentence_of_a_divergence_groups_brokers_by_what_they_hold() -> None:
    copies = [
        {"broker": broker, "partition": 0, "offset": 3, "leader_epoch": epoch, "value": value}
        for broker, epoch, value in ((1, 0, "m3"), (2, 2, "m4"), (3, 2, "m4"))
    ]
    assert sentence(row("divergence", copies=copies), None) == (
        "At offset 3 of events-0 broker 1 holds m3 of epoch 0, however brokers 2 and 3 hold m4 of"
        " epoch 2: readers get the record of the current leader."
    )
    assert sentence(row("divergence", copies=copies[1:]), None) == (
        "At offset 3 of events-0 brokers 2 and 3 hold m4, but another replica skips that offset."
    )


@pytest.mark.parametrize(
    ("notes", "says"),
    [
        (
            ("below its HW 4", "below its HW 5"),
            (
                " This offset is below the HW of every replica that holds it: no replica will"
                " truncate it."
            ),
        ),
        (
            ("below its HW 4", "above its HW 3"),
            " This offset is not below the HW that broker 2 (3) had last checkpointed.",
        ),
        (
            ("above its HW 2", "above its HW 3"),
            (
                " This offset is not below the HW that broker 1 (2) and broker 2 (3) had last"
                " checkpointed."
            ),
        ),
        (("below its HW 4", None), ""),
    ],
)
def test_sentence_of_a_divergence_says_whether_it_was_committed(
    notes: tuple[str | None, ...], says: str
) -> None:
    copies = [
        {"broker": broker, "leader_epoch": broker, "value": f"m{broker}", "note": note}
        for broker, note in enumerate(notes, start=1)
    ]
    told = sentence(row("divergence", copies=copies), None)
    assert told.endswith(f"readers get the record of the current leader.{says}")


@pytest.mark.parametrize("told", [True, False])
def test_who_acknowledged_is_told_by_the_epoch_of_the_record(told: bool) -> None:
    """Leaderships may be observed late: m4 was written in epoch 2, of which the disk knows."""
    run = RunBuilder.rehearsal()
    rehearse_loss(run)
    changes = run.rows["events/partitions"]
    late = [{**change, "time_ns": 10**15} for change in changes if change["leader_epoch"] == 2]
    run.rows["events/partitions"] = [change for change in changes if change["leader_epoch"] < 2] + (
        late if told else []
    )
    found = [each for each in witnesses(subject(run)) if each.what == "replaced"]
    [replaced] = found
    assert replaced.who == ("broker 3" if told else "cluster")
    assert replaced.says.startswith("Broker 3 ack" if told else "The cluster ack")


@pytest.mark.parametrize(
    ("says", "sentence"),
    [
        ("broker 1 lost its power: events-0 lost 3 up to 4", "a fault removed R from the disk of"),
        ("broker 1 is killed", "broker 1 came back without R."),
    ],
)
def test_the_story_says_who_took_the_record_a_fault_or_kafka(says: str, sentence: str) -> None:
    send: dict[str, Any] = {
        "process": "story",
        "kind": "send",
        "outcome": "ok",
        "offset": 3,
        "value": "m3",
    }
    send |= {"invoke_ns": 1, "complete_ns": 3_000_000_000, "partition": 0, "topic": "events"}
    track = Track.of(1, [(3, 4, 4), (9, 3, 4)])
    told = RecordEvidence(
        topic="events",
        operations=[send],
        traces={0: PartitionTrace(tracks={1: track})},
        faults=[{"broker": 1, "time_ns": 5, "says": says, "phase": "inject", "fault": "kill"}],
    )
    subject = Subject(evidence=told, kind="lost-write", partition=0, offset=3, value="m3")
    assert any(sentence in one for one in _cut(subject))


@pytest.mark.parametrize(("told", "who"), [(2, "broker 3"), (None, "cluster")])
def test_without_disks_a_reader_tells_the_epoch_and_a_killed_broker_answers_nothing(
    told: int | None, who: str
) -> None:
    """A managed service: broker 1 is killed, and nobody has seen yet that another leads."""
    run = RunBuilder.rehearsal()
    run.leader(1, 0, [1, 2, 3])
    run.send("m3", 3)
    run.fault("kill", 1, "broker 1 is killed")
    run.tick(1_000)
    run.send("m4", 3)
    run.tick(1)
    run.leader(3, 2, [2, 3])
    run.read("m4", 3, leader_epoch=told)
    seen = replace(evidence(run), disk={}, ends=[])
    found = Subject(evidence=seen, kind="lost-write", partition=0, offset=3, value="m3")
    said = {each.what: each.who for each in witnesses(found)}
    assert said["acknowledged"] == "broker 1"
    assert said["replaced"] == who


@pytest.mark.parametrize("logged", [False, True])
def test_what_a_broker_lacks_after_it_was_down_is_cut_by_nobody_unless_its_log_says_so(
    logged: bool,
) -> None:
    """A cluster of one's own: what the command to kill took along is not known."""
    run = RunBuilder.rehearsal()
    run.leader(1, 0, [1, 2, 3])
    run.observe(2, 3)
    run.send("m3", 3)
    run.observe(2, 4)
    run.fault("kill", 2, "broker 2 is killed")
    run.tick(1_000)
    run.fault("kill", 2, "broker 2 is back", phase="heal")
    run.tick(1_000)
    run.observe(2, 3)
    if logged:
        run.log_line(2, "truncation", CUT, offset=3)
    said = sentence(row(), subject(run))
    ways = [each.says for each in witnesses(subject(run)) if each.source == "events/replicas"]
    if logged:
        assert "Then broker 2 truncated its log to offset 3." in said
        assert "Broker 2 truncated its log: LEO 4 became 3." in ways
    else:
        assert "Then broker 2 came back without R." in said
        assert "Broker 2 came back with LEO 3, which had been 4." in ways

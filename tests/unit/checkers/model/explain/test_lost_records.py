"""A record that a fault took from a disk is explained by that fault, and by no other."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from highwater.checkers.lineage.evidence import RecordEvidence
from highwater.checkers.lineage.sentences import _cut
from highwater.checkers.lineage.subject import Subject
from highwater.checkers.model.explain.lost_records import lost
from highwater.checkers.model.explain.other_anomalies import corrupt
from highwater.checkers.model.explain.software import Software, SoftwareHistory
from highwater.checkers.model.explain.tolerances import SECOND
from highwater.checkers.model.explain.trace import (
    FrozenReplica,
    LeadershipStart,
    RunTraces,
    Trace,
)
from highwater.harness.runs.faults.intervals import FaultInterval
from highwater.harness.runs.history import OPERATIONS
from highwater.harness.runs.partition_trace import Leadership, PartitionTrace, Track
from highwater.harness.runs.plan import Plan, Topic
from highwater.harness.runs.store import RunStatus

LOST = {"partition": 0, "offset": 3, "value": "m3"}
SEND: dict[str, Any] = {
    "process": "story",
    "kind": "send",
    "outcome": "ok",
    "invoke_ns": 2 * SECOND,
    "complete_ns": 3 * SECOND,
    "offset": 3,
    "value": "m3",
}


def observed(fault: str, broker: int, says: str, *, after: int = 3) -> RunTraces:
    """Broker 1 leads with m3, and again later from ``after`` on; in between somebody is struck."""
    plan = Plan(kafka="3.9.2", topic=Topic())
    disk = FrozenReplica(
        offsets=np.arange(4, dtype=np.int64),
        epochs=np.array([0, 0, 0, 2], dtype=np.int64),
        ids=["m0", "m1", "m2", "fence"],
    )
    led = Leadership(time_ns=0, leader=1, epoch=0, isr=(1, 2, 3))
    again = Leadership(time_ns=9 * SECOND, leader=1, epoch=2, isr=(1,))
    start = LeadershipStart(
        time_ns=9 * SECOND,
        broker=1,
        epoch=2,
        offset=after,
        isr=(1,),
        unclean=None,
        logged=True,
        event="Leader events-0 starts at leader epoch 2",
    )
    trace = Trace(partition=0, leaderships=[led, again], lines={}, disks={1: disk}, starts=[start])
    struck = FaultInterval(
        name=fault,
        broker=broker,
        start_ns=5 * SECOND,
        end_ns=None,
        says=says,
        row={"says": says},
    )
    found = RunTraces(
        plan=plan,
        status=RunStatus(phase="frozen"),
        software=SoftwareHistory(first=Software.of("3.9.2")),
        faults=[struck],
        traces={0: trace},
        ops=pa.Table.from_pylist([], schema=OPERATIONS),
    )
    found.suspects["m3"] = SEND
    return found


def test_the_tail_that_a_power_failure_took_explains_the_loss() -> None:
    chain = lost(
        observed("power-failure", 1, "broker 1 lost its power: events-0 lost 3 up to 4"), LOST
    )
    assert not chain.why_not
    assert [link.rule for link in chain.links] == ["acks=all", "power-failure", "elections"]


def test_a_segment_that_was_deleted_from_the_front_of_a_leaders_log_explains_it_too() -> None:
    says = "a segment of broker 1 is deleted: events-0 lost 0 up to 4"
    chain = lost(observed("segment-deleted", 1, says, after=5), LOST)
    assert not chain.why_not
    assert [link.rule for link in chain.links] == ["acks=all", "segment-deleted", "elections"]


@pytest.mark.parametrize(
    ("fault", "broker", "says"),
    [
        ("kill", 1, "broker 1 is killed"),
        ("power-failure", 2, "broker 2 lost its power: events-0 lost 3 up to 4"),
        ("power-failure", 1, "broker 1 lost its power: all it held had been flushed"),
        ("power-failure", 1, "broker 1 lost its power: events-0 lost 4 up to 5"),
        ("power-failure", 1, "broker 1 lost its power: events-1 lost 3 up to 4"),
        ("power-failure", 1, "broker 1 lost its power: other-0 lost 3 up to 4"),
    ],
)
def test_what_did_not_take_it_does_not_explain_it(fault: str, broker: int, says: str) -> None:
    assert lost(observed(fault, broker, says), LOST).why_not


@pytest.mark.parametrize(("broker", "explained"), [(1, True), (2, False)])
def test_a_bit_that_was_flipped_explains_a_damaged_disk(broker: int, explained: bool) -> None:
    says = "one bit is flipped on broker 1; cut there, events-0 lost 3 up to 4"
    copy = {"broker": broker, "partition": 0, "offset": 3}
    chain = corrupt(observed("bit-flip", 1, says), {"copies": [copy]})
    assert (not chain.why_not) == explained


@pytest.mark.parametrize(
    ("says", "sentence"),
    [
        ("broker 1 lost its power: events-0 lost 3 up to 4", "a fault took R from the disk of"),
        ("broker 1 is killed", "broker 1 cut its log to offset 3."),
    ],
)
def test_the_story_says_who_took_the_record_a_fault_or_kafka(says: str, sentence: str) -> None:
    track = Track.of(1, [(3, 4, 4), (9, 3, 4)])
    evidence = RecordEvidence(
        topic="events",
        operations=[{**SEND, "invoke_ns": 1, "partition": 0, "topic": "events"}],
        traces={0: PartitionTrace(tracks={1: track})},
        faults=[{"broker": 1, "time_ns": 5, "says": says, "phase": "inject", "fault": "kill"}],
    )
    subject = Subject(evidence=evidence, kind="lost-write", partition=0, offset=3, value="m3")
    assert any(sentence in one for one in _cut(subject))

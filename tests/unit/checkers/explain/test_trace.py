"""What a broker's log line tells, in the forms of every release."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from highwater.checkers.explain.elections import wrong_elections
from highwater.checkers.explain.software import Software, SoftwareHistory
from highwater.checkers.explain.tolerances import SECOND
from highwater.checkers.explain.trace import BrokerLogLine, RunTraces, Trace
from highwater.checkers.model.transactions.transaction_machine import (
    TransactionCounterexample,
)
from highwater.harness.runs.history import OPERATIONS
from highwater.harness.runs.partition_trace import Leadership
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.store import RunStatus
from highwater.nemesis.model_replay.transaction_replay import transaction_plan

STORED = Path(__file__).parents[4] / "docs/counterexamples"


def line(text: str, *, broker: int = 3, time_ns: int = 8 * SECOND) -> BrokerLogLine:
    return BrokerLogLine(time_ns=time_ns, broker=broker, kind="isr", offset=-1, text=text)


@pytest.mark.parametrize(
    ("text", "isr"),
    [
        # 0.9 and 0.10
        ("broker 3: Expanding ISR for partition [events-3,0] from 3 to 3,1 (kafka.", {1, 3}),
        ("broker 3: Expanding ISR for partition events-3-0 from 3 to 3,1 (kafka.", {1, 3}),
        ("broker 1: Shrinking ISR for partition [events-3,0] from 1,2,3 to 1,2 (kafka.", {1, 2}),
        # 0.11 to 2.8
        ("[Partition events-0 broker=3] Expanding ISR from 3 to 3,1 (kafka.cluster.", {1, 3}),
        ("[Partition events-0 broker=1] Shrinking ISR from 1,2,3 to 1. Leader: (high", {1}),
        # later
        ("ISR updated to 3,1 and version updated to 4 (kafka.cluster.Partition)", {1, 3}),
        ("ISR updated to [3,1] and zkVersion updated to [4] (kafka.cluster.Partition)", {1, 3}),
        ("[Partition events-0 broker=3] Leader events-0 starts at leader epoch 1", set()),
    ],
)
def test_the_isr_of_a_line_is_the_new_one(text: str, isr: set[int]) -> None:
    assert line(text).isr == isr


def test_a_broker_that_joined_between_two_observations_may_be_elected() -> None:
    before = Leadership(time_ns=7 * SECOND, leader=3, epoch=2, isr=(3,))
    now = Leadership(time_ns=9 * SECOND, leader=1, epoch=3, isr=(1,))
    text = "Expanding ISR for partition events-3-0 from 3 to 3,1 (kafka.cluster.Partition)"
    trace = Trace(partition=0, leaderships=[before, now], lines={3: [line(text)]}, disks={})
    assert trace.was_eligible(before, now)
    assert not trace.was_eligible(before, replace(now, leader=2))
    assert trace.was_eligible(before, replace(now, leader=2, epoch=4)), "an election between"


def test_a_controller_logs_the_isr_of_a_partition_without_leader() -> None:
    before = Leadership(time_ns=7 * SECOND, leader=2, epoch=2, isr=(2,))
    now = Leadership(time_ns=9 * SECOND, leader=1, epoch=4, isr=(1,))
    text = "Partition events-3-0 state changed to (Leader:-1,ISR:2,LeaderEpoch:3,ZkVersion:3) after"
    gone = replace(line(text), kind="offline")
    bare = Trace(partition=0, leaderships=[before, now], lines={}, disks={})
    trace = replace(bare, lines={3: [gone]})
    assert gone.epoch == 3
    assert gone.isr == {2}
    assert bare.was_eligible(before, now)
    assert not bare.knows_isr(before, now)
    assert trace.knows_isr(before, now)
    assert not trace.was_eligible(before, now)
    assert trace.was_eligible(before, replace(now, leader=2))
    assert trace.was_eligible(before, replace(now, epoch=6)), "another election between"


def test_a_new_leader_in_a_replay_of_transactions_is_like_any_other() -> None:
    stored = TransactionCounterexample.load(STORED / "transactions-zombie-4.0.1.json")
    before = Leadership(time_ns=7 * SECOND, leader=3, epoch=2, isr=(1, 3))
    now = Leadership(time_ns=9 * SECOND, leader=1, epoch=3, isr=(1,))
    trace = Trace(partition=0, leaderships=[before, now], lines={}, disks={})
    observed = RunTraces(
        plan=transaction_plan(stored, "4.0.1"),
        status=RunStatus(phase="frozen"),
        software=SoftwareHistory(first=Software.of("4.0.1")),
        faults=[],
        traces={0: trace},
        ops=pa.Table.from_pylist([], schema=OPERATIONS),
    )
    assert not observed.elects_anybody
    assert not list(wrong_elections(observed, trace))


def test_the_scripted_partition_is_that_of_the_schedule() -> None:
    traces = {n: Trace(partition=n, leaderships=[], lines={}, disks={}) for n in range(2)}
    for schedule, partition in ((None, 0), ({"partition": 1}, 1), ({}, 0)):
        observed = RunTraces(
            plan=Plan(kafka="4.4.0", schedule=schedule),
            status=RunStatus(phase="frozen"),
            software=SoftwareHistory(first=Software.of("4.4.0")),
            faults=[],
            traces=traces,
            ops=pa.Table.from_pylist([], schema=OPERATIONS),
        )
        assert observed.scripted.partition == partition

"""What a broker's log line tells, in the forms of every release."""

from dataclasses import replace

import pytest

from highwater.checkers.model.explain.tolerances import SECOND
from highwater.checkers.model.explain.trace import BrokerLogLine, Trace
from highwater.harness.runs.partition_trace import Leadership


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

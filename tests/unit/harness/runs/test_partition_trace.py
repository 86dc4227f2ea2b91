"""Which leader answered a send, as far as leaderships and what a log holds tell."""

import pyarrow as pa
import pytest

from highwater.harness.runs.history import PARTITIONS, REPLICAS
from highwater.harness.runs.partition_trace import (
    UNKNOWN,
    Leadership,
    PartitionTrace,
    partition_traces,
)


def leads(time_ns: int, leader: int, epoch: int) -> Leadership:
    return Leadership(time_ns=time_ns, leader=leader, epoch=epoch, isr=(1, 2, 3))


TRACE = PartitionTrace(leaderships=[leads(0, 1, 0), leads(10, 2, 1), leads(20, -1, 2)])


@pytest.mark.parametrize(
    ("sent_ns", "answered_ns", "others", "broker"),
    [
        pytest.param(3, 5, (), 1, id="one leads"),
        pytest.param(3, 12, (), None, id="the first one may have answered, or the second"),
        pytest.param(3, 12, (1,), 1, id="the log of the second has another record there"),
        pytest.param(12, 14, (1,), None, id="a deposed one that has not heard of it"),
        pytest.param(12, 25, (), 2, id="none leads afterwards"),
        pytest.param(25, 26, (), None, id="none leads"),
        pytest.param(3, None, (), None, id="no answer"),
    ],
)
def test_a_broker_is_named_that_alone_may_have_answered(
    sent_ns: int, answered_ns: int | None, others: tuple[int, ...], broker: int | None
) -> None:
    leader = TRACE.answering(sent_ns, answered_ns, others)
    assert (leader and leader.leader) == broker


def test_an_epoch_that_is_not_known_rules_no_leader_out() -> None:
    old = PartitionTrace(leaderships=[leads(0, 1, UNKNOWN)])
    assert old.answering(3, 5, (UNKNOWN,)) == old.leaderships[0]


def test_a_row_has_the_last_query_with_its_own_response() -> None:
    """In the tables, the row after it has this time; older runs do not have the column."""
    where = {"topic": "events", "partition": 0}
    common = {"leader": 1, "leader_epoch": 0, "isr": [1], "controller": 1}
    times = [(5, None), (20, 12), (30, 19)]
    partitions = pa.Table.from_pylist(
        [{"time_ns": at, "unchanged_ns": last, **where, **common} for at, last in times],
        PARTITIONS,
    )
    replicas = pa.Table.from_pylist(
        [
            {"time_ns": at, "unchanged_ns": last, "broker": 1, "leo": at, "hw": at, **where}
            for at, last in times
        ],
        REPLICAS,
    )
    trace = partition_traces(partitions, replicas)["events", 0]
    assert [row.unchanged_ns for row in trace.leaderships] == [12, 19, None]
    assert trace.tracks[1].unchanged_ns.tolist() == [12, 19, UNKNOWN]
    assert trace.tracks[1].since(20).unchanged_ns.tolist() == [19, UNKNOWN]
    older = [table.drop_columns(["unchanged_ns"]) for table in (partitions, replicas)]
    trace = partition_traces(*older)["events", 0]
    assert {row.unchanged_ns for row in trace.leaderships} == {None}
    assert set(trace.tracks[1].unchanged_ns.tolist()) == {UNKNOWN}

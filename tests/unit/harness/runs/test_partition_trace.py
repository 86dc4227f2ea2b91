"""Which leader answered a send, as far as leaderships and what a log holds tell."""

import pytest

from highwater.harness.runs.partition_trace import UNKNOWN, Leadership, PartitionTrace


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

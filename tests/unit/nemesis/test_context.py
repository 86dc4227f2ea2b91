"""What a schedule reads of brokers is asked for until it is answered."""

from collections.abc import Callable
from typing import Any

import pytest

from highwater.clusters.core.interfaces import PartitionState, ReplicaState, UnreachableError
from highwater.harness.base.waiting import await_condition
from highwater.harness.runs.plan import Plan
from highwater.nemesis import context
from highwater.nemesis.context import ScheduleContext, ScheduleNotFollowedError
from tests.support.schedule_contexts import schedule_context

STATE = PartitionState(leader=2, leader_epoch=7, isr=(2, 3))
REPLICA = ReplicaState(leo=5, hw=4)


class SilentAtFirst:
    """A probe that is not answered the first few times."""

    def __init__(self, silent: int) -> None:
        self.silent = silent

    def _answer(self, answer: Any) -> Any:  # noqa: ANN401 - of each kind
        self.silent -= 1
        if self.silent >= 0:
            raise UnreachableError("broker 1 did not answer")
        return answer

    def partition(self, topic: str, partition: int) -> PartitionState:
        assert (topic, partition) == ("events", 0)
        answered: PartitionState = self._answer(STATE)
        return answered

    def replica(self, broker: int, topic: str, partition: int) -> ReplicaState:
        assert (broker, topic, partition) == (3, "events", 1)
        answered: ReplicaState = self._answer(REPLICA)
        return answered

    def controller(self) -> int:
        return int(self._answer(100))


def made(silent: int) -> ScheduleContext:
    return schedule_context(plan=Plan(kafka="4.4.0"), probe=SilentAtFirst(silent))


READS: list[tuple[Callable[[ScheduleContext], object], object]] = [
    (ScheduleContext.state, STATE),
    (lambda context: context.replica(3, 1), REPLICA),
    (ScheduleContext.controller, 100),
]


@pytest.mark.parametrize(("read", "answer"), READS, ids=["state", "replica", "controller"])
def test_a_broker_that_does_not_answer_is_asked_again(
    read: Callable[[ScheduleContext], object], answer: object
) -> None:
    assert read(made(3)) == answer


@pytest.mark.parametrize(("read", "answer"), READS, ids=["state", "replica", "controller"])
def test_who_never_answers_is_named_and_the_schedule_is_not_followed(
    monkeypatch: pytest.MonkeyPatch,
    read: Callable[[ScheduleContext], object],
    answer: object,
) -> None:
    del answer
    monkeypatch.setattr(context, "await_condition", limited)
    with pytest.raises(ScheduleNotFollowedError, match="last seen: broker 1 did not answer"):
        read(made(1 << 30))


def limited(*looks: Callable[..., Any], **options: Any) -> object:  # noqa: ANN401 - as it is called
    return await_condition(*looks, **(options | {"limit_s": 0.03}))


def test_what_was_seen_instead_is_said() -> None:
    with pytest.raises(
        ScheduleNotFollowedError, match=r"waited 0 s for 1 to lead; .*leader 2.*isr"
    ):
        made(0).until(
            lambda: made(0).state(), lambda state: state.leader == 1, what="1 to lead", limit_s=0
        )

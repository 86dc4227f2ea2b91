"""Targets are data: whom they mean follows from who leads, who is in sync and who is struck."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

import pytest

from highwater.clusters.core.interfaces import Cluster, PartitionState, UnreachableError
from highwater.harness.base.errors import UsageError
from highwater.harness.releases.catalogue import release
from highwater.harness.runs.plan import External, Plan, Workload
from highwater.harness.runs.steps import FaultStep
from highwater.nemesis.context import ScheduleContext
from highwater.nemesis.faults import registry
from highwater.nemesis.faults.registry import fault
from highwater.nemesis.schedules.fault_spec import FaultSpec, resolve, resolve_controllers


def context(
    *, leader: int = 1, isr: tuple[int, ...] = (1, 2, 3), struck: tuple[int, ...] = ()
) -> ScheduleContext:
    """A context of five brokers, as far as targets look at one."""

    def partition(topic: str, __: int) -> PartitionState:
        if leader == 0:
            raise UnreachableError("nobody answers")
        leads = {"__transaction_state": 4, "__consumer_offsets": 5}.get(topic, leader)
        return PartitionState(leader=leads, leader_epoch=0, isr=isr)

    return cast(
        "ScheduleContext",
        SimpleNamespace(
            cluster=SimpleNamespace(brokers=dict.fromkeys(range(1, 6))),
            nemesis=SimpleNamespace(broken_brokers=frozenset(struck)),
            probe=SimpleNamespace(partition=partition, controller=lambda: 4),
            plan=SimpleNamespace(overlap=1),
            topic="events",
        ),
    )


def aimed_at(target: str, choice: float) -> FaultStep:
    return FaultStep(fault="kill", at_s=0.0, target=target, choice=choice)


@pytest.mark.parametrize(
    ("target", "where", "choice", "expected"),
    [
        ("leader", context(leader=3), 0.9, [3]),
        ("leader", context(leader=3, struck=(3,)), 0.0, [1]),
        ("leader", context(leader=0), 0.99, [5]),
        ("follower", context(leader=1), 0.0, [2]),
        ("controller", context(), 0.5, [4]),
        ("controller", context(struck=(4,)), 0.5, []),
        ("txn-coordinator", context(), 0.5, [4]),
        ("txn-coordinator", context(struck=(4,)), 0.5, []),
        ("txn-coordinator", context(leader=0), 0.5, []),
        ("group-coordinator", context(), 0.5, [5]),
        ("isr", context(isr=(1, 5)), 0.5, [1, 5]),
        ("isr", context(isr=(1, 5), struck=(5,)), 0.5, [1]),
        ("any", context(), 0.0, [1]),
        ("minority", context(), 0.0, [1, 2]),
        ("majority", context(), 0.8, [1, 2, 5]),
        ("all", context(struck=(2,)), 0.3, [1, 3, 4, 5]),
        ("2", context(), 0.9, [2]),
        ("2", context(struck=(2,)), 0.9, []),
        ("any", context(struck=(1, 2, 3, 4, 5)), 0.9, []),
    ],
)
def test_a_target_means_brokers(
    target: str, where: ScheduleContext, choice: float, expected: list[int]
) -> None:
    assert resolve(where, aimed_at(target, choice)) == expected


def test_a_word_has_a_fault_a_target_and_a_weight() -> None:
    word = FaultSpec.of("power-failure@isr=4")
    assert (word.fault.name, word.target, word.weight) == ("power-failure", "isr", 4)
    assert (FaultSpec.of("kill").target, FaultSpec.of("kill").weight) == (None, 1)


IN_TRANSACTIONS = Workload(idempotence=True, transactions=True)
WITH_GROUP = Workload(subscribe=2)


@pytest.mark.parametrize(
    ("word", "asked", "says"),
    [
        ("kill@txn-coordinator", IN_TRANSACTIONS, ""),
        ("kill@txn-coordinator", WITH_GROUP, "kill@txn-coordinator needs transactions"),
        ("pause@group-coordinator", WITH_GROUP, ""),
        ("pause@group-coordinator", Workload(), "needs members of a group"),
        ("move-txn-coordinator", IN_TRANSACTIONS, ""),
        ("move-txn-coordinator", Workload(), "move-txn-coordinator needs transactions"),
        ("move-group-coordinator", Workload(), "move-group-coordinator needs members"),
    ],
)
def test_a_coordinator_is_hit_only_where_it_is_used(word: str, asked: Workload, says: str) -> None:
    plan, kafka = Plan(kafka="2.8.2", workload=asked), release("2.8.2")
    if not says:
        FaultSpec.of(word).require(plan, kafka)
        return
    with pytest.raises(UsageError, match=says) as refused:
        FaultSpec.of(word).require(plan, kafka)
    assert refused.value.hint.startswith("Add --")


def test_an_external_cluster_has_many_coordinators() -> None:
    outside = External(inventory="i.toml", cluster_id="c", brokers=(1,), commands=("kill", "start"))
    plan = Plan(kafka="2.8.2", driver="external", external=outside, workload=IN_TRANSACTIONS)
    with pytest.raises(UsageError, match="many coordinators"):
        FaultSpec.of("kill@txn-coordinator").require(plan, release("2.8.2"))


def quorum(leader: int = 101, count: int = 3) -> ScheduleContext:
    """A context of controllers, as far as targets look at one; leader 0: they have none."""

    def quorum_leader() -> int:
        if leader == 0:
            raise UnreachableError("the KRaft quorum has no leader")
        return leader

    return cast(
        "ScheduleContext",
        SimpleNamespace(
            cluster=SimpleNamespace(controllers=dict.fromkeys(range(100, 100 + count))),
            probe=SimpleNamespace(quorum_leader=quorum_leader),
        ),
    )


@pytest.mark.parametrize(
    ("target", "where", "choice", "expected"),
    [
        ("leader", quorum(), 0.9, [101]),
        ("leader", quorum(leader=0), 0.9, [102]),
        ("follower", quorum(), 0.0, [100]),
        ("follower", quorum(), 0.9, [102]),
        ("any", quorum(), 0.5, [101]),
        ("minority", quorum(), 0.9, [102]),
        ("minority", quorum(count=5), 0.9, [100, 104]),
        ("majority", quorum(), 0.9, [100, 102]),
        ("all", quorum(), 0.5, [100, 101, 102]),
        ("102", quorum(), 0.0, [102]),
        ("7", quorum(), 0.0, []),
        ("leader", quorum(leader=0, count=1), 0.9, [100]),
        ("follower", quorum(leader=0, count=1), 0.9, [100]),
    ],
)
def test_a_target_means_controllers(
    target: str, where: ScheduleContext, choice: float, expected: list[int]
) -> None:
    assert resolve_controllers(where, target, choice) == expected


def test_a_fault_of_the_coordination_has_targets_of_its_own() -> None:
    for target in ("leader", "follower", "minority", "majority", "all", "101"):
        assert FaultSpec.of(f"controller-kill@{target}").target == target
    for target in ("isr", "controller"):
        with pytest.raises(UsageError, match="not a broker"):
            FaultSpec.of(f"controller-kill@{target}")
    with pytest.raises(UsageError, match="not a broker"):
        FaultSpec.of("move-leader@leader")


def test_the_controller_is_looked_up_once() -> None:
    asked = []

    def controller() -> int:
        asked.append(1)
        return 4

    on = context()
    on.probe.controller = controller  # type: ignore[method-assign]
    assert resolve(on, aimed_at("controller", 0.5)) == [4]
    assert asked == [1]


def test_the_name_of_a_fault_may_have_a_digit() -> None:
    @fault("limit-2")
    def limit(_: Cluster, broker: int) -> Iterator[str]:
        """Limit a broker."""
        yield f"broker {broker} is limited"

    try:
        word = FaultSpec.of("limit-2@leader=3")
    finally:
        del registry._registry["limit-2"]
    assert (word.fault.name, word.target, word.weight) == ("limit-2", "leader", 3)

"""The nemesis knows what it broke, heals it once, and writes both down."""

import contextlib
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import cast

import pytest

from highwater.clusters.core.interfaces import Cluster
from highwater.harness.base.errors import HarnessError, UsageError
from highwater.harness.runs.faults.facts import facts_of
from highwater.nemesis.faults import registry as fault_module
from highwater.nemesis.faults.registry import FaultTarget, Scope, aimed, fault, faults, find_fault
from highwater.nemesis.injector import Nemesis
from tests.support.schedule_contexts import NotedFaults

CLUSTER = cast(
    "Cluster", SimpleNamespace(brokers={1: None, 2: None, 3: None}, controllers={100: None})
)


@pytest.fixture
def healed() -> Iterator[list[int]]:
    done: list[int] = []

    @fault("itch")
    def itch(_: Cluster, broker: int) -> Iterator[str]:
        """Make a broker scratch."""
        yield f"broker {broker} itches"
        done.append(broker)

    @fault("stumble")
    def stumble(_: Cluster, broker: int) -> Iterator[str]:
        """Fail to break anything."""
        if broker:
            raise HarnessError(f"broker {broker} would not stumble")
        yield ""

    @fault("vigil", awaits_coordination=True)
    def vigil(_: Cluster, broker: int) -> Iterator[str]:
        """Wait until ZooKeeper says something of a broker."""
        yield f"broker {broker} was waited for"

    scopes = {"sting": "broker", "flood": "cluster", "fog": "topic", "hush": "coordination"}
    for name, scope in scopes.items():

        @aimed(name, at=cast("Scope", scope))
        def told(_: Cluster, aim: FaultTarget) -> Iterator[str]:
            """Strike what it is aimed at."""
            yield f"struck {aim.broker} of {aim.topic.name}-{aim.partition}"

    yield done
    for name in ("itch", "stumble", "vigil", *scopes):
        del fault_module._registry[name]


def test_a_fault_is_found_by_name_with_its_summary(healed: list[int]) -> None:
    assert healed == []
    assert find_fault("itch").summary == "Make a broker scratch."
    assert find_fault("kill").summary.startswith("SIGKILL")


def test_an_unknown_fault_names_the_nearest() -> None:
    with pytest.raises(UsageError) as refused:
        find_fault("pauze")
    assert "pause" in refused.value.hint


def test_inject_and_heal_are_written_down_and_happen_once(healed: list[int]) -> None:
    keeper = NotedFaults()
    nemesis = Nemesis(CLUSTER, keeper)
    nemesis.inject("itch", 2)
    assert nemesis.broken_brokers == {2}
    assert healed == []
    nemesis.heal(2)
    nemesis.heal(2)
    assert healed == [2]
    assert keeper.rows == [("itch", "inject", 2), ("itch", "heal", 2)]


def test_a_struck_broker_is_not_struck_again(healed: list[int]) -> None:
    nemesis = Nemesis(CLUSTER, NotedFaults())
    nemesis.inject("itch", 1)
    with pytest.raises(HarnessError, match="already has an open fault"):
        nemesis.inject("itch", 1)
    nemesis.heal_all()
    assert healed == [1]


def test_a_broker_and_its_wire_have_a_fault_each(healed: list[int]) -> None:
    """But nothing that waits for the broker's session is injected while its wire has a fault."""
    keeper = NotedFaults()
    network = SimpleNamespace(
        brokers=frozenset((1, 2, 3)), under=lambda _: contextlib.nullcontext()
    )
    cluster = cast(
        "Cluster",
        SimpleNamespace(brokers=dict.fromkeys((1, 2, 3)), network=network, controllers={}),
    )
    nemesis = Nemesis(cluster, keeper)
    nemesis.inject("itch", 1)
    nemesis.inject("partition", 1)
    assert not nemesis.can("throttle", 1)
    assert not nemesis.can("vigil", 1)
    assert nemesis.can("vigil", 2)
    nemesis.heal_fault("itch", 1)
    assert not nemesis.can("vigil", 1)
    nemesis.inject("itch", 1)
    nemesis.heal(1)
    assert healed == [1, 1]
    assert nemesis.broken_brokers == frozenset()
    assert ("partition", "heal", 1) in keeper.rows


def test_a_fault_that_fails_leaves_nothing_open(healed: list[int]) -> None:
    nemesis = Nemesis(CLUSTER, NotedFaults())
    with pytest.raises(HarnessError, match="would not"):
        nemesis.inject("stumble", 1)
    assert nemesis.broken_brokers == frozenset()
    assert healed == []


def test_heal_all_mends_the_named_or_everything(healed: list[int]) -> None:
    nemesis = Nemesis(CLUSTER, NotedFaults())
    for broker in (1, 2, 3):
        nemesis.inject("itch", broker)
    nemesis.heal_all([1, 9])
    assert healed == [1]
    nemesis.heal_all()
    assert sorted(healed) == [1, 2, 3]
    assert nemesis.broken_brokers == frozenset()


@pytest.mark.usefixtures("healed")
def test_a_paused_controller_is_asked_for_no_replicas() -> None:
    """It would take the replica away when it wakes, after the healing (found by a soak, 3.7.2)."""
    nemesis = Nemesis(CLUSTER, NotedFaults())
    nemesis.inject("hush")
    assert not nemesis.can("reassign")
    nemesis.heal_all()
    assert nemesis.can("reassign")


def test_every_registered_fault_has_a_summary() -> None:
    for one in faults().values():
        assert one.summary.endswith("."), one


@pytest.mark.usefixtures("healed")
@pytest.mark.parametrize(
    ("first", "second", "together"),
    [
        (("itch", 1), ("sting", 1), False),
        (("itch", 1), ("sting", 2), True),
        (("itch", 1), ("flood", None), False),
        (("flood", None), ("itch", 1), False),
        (("fog", None), ("itch", 1), True),
        (("fog", None), ("flood", None), True),
        (("fog", None), ("fog", None), False),
        (("hush", None), ("itch", 1), True),
        (("hush", None), ("vigil", 1), False),
        (("vigil", 1), ("hush", None), True),
    ],
)
def test_what_overlaps_on_one_target_is_refused(
    first: tuple[str, int | None], second: tuple[str, int | None], together: bool
) -> None:
    nemesis = Nemesis(CLUSTER, NotedFaults())
    nemesis.inject(*first)
    assert nemesis.can(*second) == together
    if together:
        nemesis.inject(*second)
    else:
        with pytest.raises(HarnessError, match=f"already has an open fault: {first[0]}"):
            nemesis.inject(*second)
    nemesis.heal_all()
    assert nemesis.can(*second)


@pytest.mark.usefixtures("healed")
def test_a_broker_that_there_is_not_is_refused_before_anything_is_hurt() -> None:
    keeper = NotedFaults()
    with pytest.raises(UsageError, match="no broker 7") as refused:
        Nemesis(CLUSTER, keeper).inject("itch", 7)
    assert "[1, 2, 3]" in refused.value.hint
    assert keeper.rows == []


def test_a_second_nemesis_waits_until_the_first_has_healed_all(healed: list[int]) -> None:
    cluster = cast("Cluster", SimpleNamespace(brokers={1: None, 2: None}, controllers={100: None}))
    first, second = Nemesis(cluster, NotedFaults()), Nemesis(cluster, NotedFaults())
    first.inject("itch", 1)
    with pytest.raises(HarnessError, match=r"another nemesis has faults open .*: broker 1"):
        second.inject("itch", 2)
    first.heal_all()
    second.inject("itch", 2)
    second.heal_all()
    assert healed == [1, 2]


def test_a_fault_that_cannot_be_healed_stays_open_and_is_written_down(healed: list[int]) -> None:
    @fault("rash")
    def rash(_: Cluster, broker: int) -> Iterator[str]:
        """Break a broker for good."""
        yield f"broker {broker} has a rash"
        raise HarnessError(f"broker {broker} would not start")

    keeper = NotedFaults()
    nemesis = Nemesis(CLUSTER, keeper)
    try:
        nemesis.inject("rash", 1)
        for _ in range(2):
            with pytest.raises(HarnessError, match="broker 1 would not start"):
                nemesis.heal_all()
        assert nemesis.broken_brokers == {1}
        assert not nemesis.can("itch", 1)
        assert keeper.rows == [("rash", "inject", 1), ("rash", "note", 1)]
        assert healed == []
    finally:
        del fault_module._registry["rash"]


def test_a_kill_that_fails_leaves_the_paused_broker_to_be_resumed() -> None:
    woken = []

    def kill() -> None:
        raise HarnessError("broker 1 cannot be killed")

    broker = SimpleNamespace(
        kill=kill, start=lambda: None, pause=lambda: None, resume=lambda: woken.append(1)
    )
    cluster = cast("Cluster", SimpleNamespace(brokers={1: broker}, controllers={100: None}))
    keeper = NotedFaults()
    nemesis = Nemesis(cluster, keeper)
    nemesis.inject("pause", 1)
    with pytest.raises(HarnessError, match="cannot be killed"):
        nemesis.inject("kill", 1)
    assert nemesis.broken_brokers == {1}
    assert woken == []
    nemesis.heal_all()
    assert woken == [1]
    assert keeper.rows == [("pause", "inject", 1), ("pause", "heal", 1)]


def test_open_faults_are_looked_at_while_others_are_opened_and_healed(healed: list[int]) -> None:
    brokers = dict.fromkeys(range(1, 6))
    cluster = cast("Cluster", SimpleNamespace(brokers=brokers, controllers={100: None}))
    nemesis = Nemesis(cluster, NotedFaults())
    ended = threading.Event()

    def injecting(broker: int) -> None:
        for _ in range(400):
            nemesis.inject("itch", broker)
            nemesis.heal(broker)

    def asking() -> int:
        asked = 0
        while not ended.is_set():
            nemesis.can("itch", 1)
            assert nemesis.broken_brokers <= set(brokers)
            nemesis.heal_all([9])
            asked += 1
        return asked

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            askers = [pool.submit(asking) for _ in range(3)]
            try:
                list(pool.map(injecting, brokers))
            finally:
                ended.set()
            assert all(asker.result() for asker in askers)
    finally:
        sys.setswitchinterval(interval)
    assert len(healed) == 2000


def test_the_judge_has_the_facts_about_what_is_paused_or_killed() -> None:
    for each in faults().values():
        facts, commands = facts_of(each.name), each.commands or frozenset()
        assert (facts.idle and facts.frozen) or "pause" not in commands, each.name
        assert facts.killed or "kill" not in commands, each.name

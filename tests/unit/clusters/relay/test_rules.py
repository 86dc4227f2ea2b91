import pytest

from highwater.clusters.relay.messages import MessageRule
from highwater.clusters.relay.rules import (
    COORDINATION,
    RelayRule,
    between,
    into,
    is_controller,
    node_name,
    out_of,
    ring,
)


def test_links_have_a_direction() -> None:
    assert between([1], [1, 2, 3]) == {(1, 2), (2, 1), (1, 3), (3, 1)}
    assert out_of(1, [1, 2, COORDINATION]) == {(1, 2), (1, 0)}
    assert into(1, [1, 2, COORDINATION]) == {(2, 1), (0, 1)}


@pytest.mark.parametrize("count", [4, 5, 6, 7, 9])
def test_in_a_ring_each_sees_a_majority_and_no_two_the_same(count: int) -> None:
    nodes = range(1, count + 1)
    cut = ring(nodes)
    seen = {frozenset(b for b in nodes if (a, b) not in cut) for a in nodes}
    assert len(seen) == count
    assert all(len(one) > count // 2 for one in seen)
    assert all((b, a) in cut for a, b in cut)


def test_in_a_ring_of_three_one_link_is_missing() -> None:
    assert ring([1, 2, 3]) == {(1, 2), (2, 1)}


def test_a_rule_survives_its_way_to_the_wire() -> None:
    rule = RelayRule(kind="hold", links=into(2, [1, 3]), topics=frozenset(["events"]), above=4)
    assert RelayRule.of(rule.plain()) == rule
    assert rule.concerns("events", 7)
    assert not rule.concerns("others", 7)


def test_controllers_are_no_brokers() -> None:
    nodes = (COORDINATION, 1, 9, 100, 104)
    assert [is_controller(node) for node in nodes] == [True, False, False, True, True]
    assert not is_controller("client:100")
    names = ["coordination", "broker-1", "broker-9", "controller-100", "controller-104"]
    assert [node_name(node) for node in nodes] == names


def test_a_message_rule_about_the_controller_means_each_of_several() -> None:
    to_controller = MessageRule(action="hold", source="broker-*", target=COORDINATION)
    assert to_controller.covers("request", 1, COORDINATION)
    assert to_controller.covers("request", 1, 102)
    assert not to_controller.covers("request", 101, 102)
    assert not to_controller.covers("request", 1, 2)
    to_one = MessageRule(action="hold", source=100, target=102)
    assert to_one.covers("request", 100, 102)
    assert not to_one.covers("request", 101, 102)

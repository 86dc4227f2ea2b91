"""A counterexample by messages: every message is a step, and the whole state follows each."""

from pathlib import Path

import pytest

from highwater.checkers.model.protocol.rules_by_release import rules_of
from highwater.checkers.model.schedules.compile import compile_for
from highwater.checkers.model.schedules.schedule import Schedule
from highwater.checkers.model.schedules.script import predict
from highwater.checkers.model.search.kafka_model import Counterexample
from highwater.harness.base.errors import UsageError

FILES = Path(__file__).parents[5] / "docs/counterexamples"


def schedule_of(name: str, kafka: str) -> Schedule:
    return compile_for(Counterexample.load(FILES / f"{name}.json"), kafka)


@pytest.mark.parametrize(
    ("name", "affected", "fixed"),
    [
        ("kafka-13141-2.8.0", "2.8.0", "2.8.2"),
        ("kafka-9338-2.4.1", "2.4.1", "2.8.2"),
        ("kafka-7415-2.0.0", "2.0.0", "2.0.1"),
        ("kafka-7128-2.0.0", "2.0.0", "2.0.1"),
        ("kafka-7164-2.0.0", "2.0.0", "2.0.1"),
    ],
)
def test_the_affected_release_loses_or_forks_and_the_fixed_one_keeps(
    name: str, affected: str, fixed: str
) -> None:
    bad = predict(schedule_of(name, affected), rules_of(affected), unclean=False)
    good = predict(schedule_of(name, fixed), rules_of(fixed), unclean=False)
    assert bad.lost or bad.forked
    assert (good.lost, good.forked) == ((), ())


def test_a_step_names_who_is_asked_and_which_decision() -> None:
    steps = schedule_of("kafka-13141-2.8.0", "2.8.0").steps
    assert [(step.action, step.broker, step.asks, step.decision) for step in steps] == [
        ("send", 0, None, None),
        ("move", 1, None, 1),
        ("move", 0, None, 2),
        ("learn", 0, None, 1),
        ("learn", 2, None, 1),
        ("learn", 1, None, 1),
        ("send", 1, None, None),
        ("fetch", 0, 1, None),
        ("learn", 0, None, 2),
        ("fetch", 2, 1, None),
        ("fetch", 2, 1, None),
        ("run", None, None, None),
        ("send", 0, None, None),
        ("run", None, None, None),
    ]
    assert steps[10].expect.acked == frozenset({"m2"})
    assert steps[10].expect.hw == {0: 0, 1: 1, 2: 0}
    assert steps[13].expect.acked == frozenset({"m2", "m3"})


def test_a_fetch_that_the_rules_refuse_is_sent_all_the_same() -> None:
    """A is two epochs ahead of its followers; since 2.5 it serves none of them."""
    steps = schedule_of("kafka-9338-2.4.1", "2.8.2").steps
    refused = [step for step in steps if step.action == "try"]
    assert [(step.broker, step.asks) for step in refused] == [(2, 0), (2, 0), (1, 0), (1, 0)]
    assert all(step.expect.leo == {0: 1, 1: 0, 2: 0} for step in refused)
    assert "A refuses" in refused[0].says


def test_a_broker_without_a_decision_since_its_start_is_not_asked() -> None:
    steps = schedule_of("kafka-14704-2.8.2", "2.8.2").steps
    [start] = [step for step in steps if step.action == "start"]
    assert start.expect.leo == {1: 0}


def test_the_hw_of_a_follower_covers_what_its_leader_lacks_until_3_4_1() -> None:
    """KAFKA-14704: nothing is lost by that, as the next fetch cuts it."""
    for kafka, hw in (("2.8.2", 1), ("3.3.2", 1), ("3.9.2-zk", 0)):
        step = schedule_of("kafka-14704-2.8.2", kafka).steps[13]
        assert (step.action, step.expect.leo, step.expect.hw) == (
            "fetch",
            {0: 1, 1: 1},
            {0: hw, 1: 1},
        )


def test_kraft_and_moves_without_a_message_are_refused() -> None:
    with pytest.raises(UsageError, match="KRaft"):
        schedule_of("kafka-13141-2.8.0", "4.3.1")


def test_a_controller_that_dies_loses_a_record_of_zookeepers() -> None:
    schedule = schedule_of("missed-decisions-3.9.2-zk", "3.9.2-zk")
    assert [step.broker for step in schedule.steps if step.action == "failover"] == [None]
    outcome = predict(schedule, rules_of("3.9.2-zk"), unclean=False)
    assert outcome.lost == ("m1",)


def test_a_fetch_that_ends_the_fetcher_is_a_step_of_its_own() -> None:
    bad, good = (schedule_of("batch-below-leo-1.1.1", kafka) for kafka in ("1.1.1", "2.0.1"))
    assert sum(step.action == "end-fetch" for step in bad.steps) == 1
    assert not any(step.action == "end-fetch" for step in good.steps)
    assert [step.record for step in bad.steps if step.action == "send"] == ["m1", "m2 m3", "m4"]
    outcome = predict(bad, rules_of("1.1.1"), unclean=True)
    assert outcome.logs["A"] == ("m2", "m3", "m4")
    assert [step.action for step in bad.steps][-6:-3] == ["wipe", "expire", "start"]
    assert outcome.logs["B"] == ("m2", "m3", "m4")
    assert predict(good, rules_of("2.0.1"), unclean=True).forked == ()


def test_a_cut_inside_of_a_batch_leaves_a_gap_for_good() -> None:
    bad, good = (schedule_of("batch-cut-inside-1.1.1", kafka) for kafka in ("1.1.1", "2.0.1"))
    logs = predict(bad, rules_of("1.1.1"), unclean=True).logs
    assert (logs["A"], logs["B"]) == (("m4",), ("m1", "m4"))
    logs = predict(good, rules_of("2.0.1"), unclean=True).logs
    assert logs["A"] == logs["B"] == ("m1", "m4")

"""A counterexample becomes a schedule that real brokers can follow, or it is said why not."""

import pytest

from highwater.checkers.model.protocol.rules_by_release import rules_of
from highwater.checkers.model.protocol.scope import Scope
from highwater.checkers.model.schedules.compile import compile_for
from highwater.checkers.model.schedules.schedule import OLD_FORMAT, Schedule, ScheduleStep
from highwater.checkers.model.schedules.script import predict
from highwater.checkers.model.search.kafka_model import Counterexample, ModelSettings
from highwater.checkers.model.search.paths import play
from highwater.checkers.model.search.situations import (
    LeaderState,
    Replica,
    name_of,
    situation,
    situation_of,
)
from highwater.harness.base.errors import UsageError
from highwater.nemesis.model_replay.schedule_replay import plan
from tests.browser.lineage import lost
from tests.support.model_dsl import CANCELLED, found, row_of

TWO_MOVES = "send A, run ABC, move B, move C, run C"
"""C hears of both moves at once: it cuts off what it did not know to be committed, and leads."""

KRAFT = "send A, run AB, move C, run BC, move A, run AC, move B, run B"
"""A never hears that C led in between, and commits by what B held before it truncated its log."""


def brief(step: ScheduleStep) -> tuple[object, ...]:
    return step.action, step.broker, sorted(step.held)


def test_a_counterexample_becomes_a_schedule_with_holds() -> None:
    schedule = compile_for(found(TWO_MOVES, "acked-kept", "0.10.2.2"), "0.10.2.2")
    assert (schedule.kafka, schedule.replicas, schedule.acks) == ("0.10.2.2", 3, "all")
    assert schedule.name == "acked-kept on 0.10.2.2"
    assert [brief(step) for step in schedule.steps] == [
        ("send", 0, [1, 2]),
        ("run", None, []),
        ("move", 1, [0, 1, 2]),
        ("move", 2, [0, 1, 2]),
        ("run", None, [0, 1]),
        ("kill", 0, []),
        ("expire", 0, []),
        ("start", 0, []),
    ]
    assert [step.record for step in schedule.steps if step.record] == ["m1"]
    assert schedule.steps[1].expect.acked == frozenset({"m1"})
    assert schedule.steps[1].expect.leo == {0: 1, 1: 1, 2: 1}
    last = schedule.steps[4].expect
    assert (last.leader, last.leo, last.hw) == (2, {2: 0}, {2: 0})
    assert Schedule.from_plain(schedule.plain()) == schedule


def test_who_ends_itself_at_the_end_is_started_again() -> None:
    """A is ahead of its leader, which up to 2.0 ends a broker, and is no failure that was found."""
    schedule = compile_for(found(TWO_MOVES, "acked-kept", "0.10.2.2"), "0.10.2.2")
    kill, expire, start = schedule.steps[-3:]
    assert "ends itself" in kill.says
    assert (kill.broker, start.broker) == (0, 0)
    assert (expire.expect.leader, expire.expect.isr) == (2, frozenset({1, 2}))
    outcome = predict(schedule, rules_of("0.10.2.2"), unclean=False)
    assert (outcome.lost, outcome.logs) == (("m1",), {"A": (), "B": (), "C": ()})


def test_the_old_format_is_a_setting_of_the_schedule_and_foretold() -> None:
    """KAFKA-6857: a leader without epochs tells its LEO, and A keeps m1 where B has m2."""
    script = "send A, move B, run B, send B, run ABC, tell ABC"
    path = found(script, "agree-at-rest", "0.11.0.2", old_format=True)
    old = compile_for(path, "0.11.0.2")
    assert old.settings == OLD_FORMAT
    assert predict(old, rules_of("0.11.0.2"), unclean=False).forked == (0,)
    fixed = compile_for(path, "0.11.0.3")
    assert predict(fixed, rules_of("0.11.0.3"), unclean=False).forked == ()


def test_on_another_release_its_own_rules_say_what_to_expect() -> None:
    schedule = compile_for(found(TWO_MOVES, "acked-kept", "0.10.2.2"), "0.11.0.3")
    assert schedule.kafka == "0.11.0.3"
    assert schedule.steps[-1].expect.leo == {2: 1}


def test_with_kraft_a_command_needs_brokers_that_hand_it_on() -> None:
    schedule = compile_for(found(KRAFT, "acked-kept", "4.3.1", records=1), "4.3.1")
    for step in schedule.steps:
        if step.action == "move":
            assert len(step.held) < 3
    last = schedule.steps[-1].expect
    assert (last.leader, last.leo) == (1, {1: 0})
    assert last.acked == frozenset({"m1"})


def test_one_that_was_found_by_messages_is_a_message_a_step() -> None:
    schedule = compile_for(lost(), "0.10.2.2")
    rows = [step.numbers() for step in lost().steps]
    assert schedule.by == "message"
    assert list(schedule.moves[: len(rows)]) == rows
    assert Schedule.from_plain(schedule.plain()) == schedule


def test_with_kraft_one_that_was_found_by_messages_is_refused() -> None:
    with pytest.raises(
        UsageError, match="one message may carry several controller decisions"
    ) as refused:
        compile_for(lost(), "4.3.1")
    assert "by round" in refused.value.hint


def test_elections_that_fit_no_order_are_refused() -> None:
    """A is gone twice: once B is elected and once C, both of the same ISR."""
    script = (
        "kill A, expire A B, run BC, start A, run ABC, move A, run ABC"
        ", send A, kill A, expire A C, run BC"
    )
    path = found(script, "acked-kept", "2.0.0", failures=2, acks="1")
    with pytest.raises(UsageError, match="no order of the replicas in the assignment"):
        compile_for(path, "2.0.0")


def test_elections_that_fit_an_order_choose_it() -> None:
    path = found("send A, kill A, expire A C, run BC", "acked-kept", "2.0.0", failures=1, acks="1")
    assert compile_for(path, "2.0.0").order == (0, 2, 1)


def test_one_whose_brokers_would_run_ahead_is_refused() -> None:
    """A KRaft broker has to run for the command, and then B fetches what is lost here."""
    path = found("send A, move B, run AB", "acked-kept", "4.3.1", acks="1")
    with pytest.raises(UsageError, match="runs ahead"):
        compile_for(path, "4.3.1")


def test_with_kraft_no_dead_broker_is_asked_for_the_decisions() -> None:
    """Only the dead B could run while its session ends: C is down, and A would commit m1."""
    name = name_of(situation(LeaderState.UNCOMMITTED, [Replica(in_isr=False, answers=False)] * 2))
    setting = ModelSettings(kafka="4.4.0", scope=Scope(records=1, moves=1, by="round"))
    path = setting.counterexample(name, ())
    rows = [row_of(move) for move in ("send A", "kill B", "stop C C", "expire B B")]
    leaps = play(setting.machine(), rows, path.breach(setting.machine()))
    assert leaps is not None
    with pytest.raises(UsageError, match="runs ahead"):
        compile_for(setting.counterexample(name, leaps), "4.4.0")


def test_each_new_situation_on_a_path_is_observed() -> None:
    """C did not run, and answers the observer with the LEO that it had."""
    behind = Replica(in_isr=True, answers=True, leo=-1, hw=0)
    equal = Replica(in_isr=True, answers=True, leo=0, hw=0)
    name = name_of(situation(LeaderState.UNCOMMITTED, [behind, equal]))
    path = found("send A, run AB", name, "4.4.0")
    schedule = compile_for(path, "4.4.0")
    actions = [step.action for step in schedule.steps]
    assert actions[:4] == ["send", "observe", "run", "observe"]
    assert schedule.steps[1].expect.leo == {0: 1, 1: 0, 2: 0}
    assert "send" in actions[4:]
    first = situation(LeaderState.UNCOMMITTED, [behind, behind])
    schedule = compile_for(path, "4.4.0", visited={first, situation_of(name) or 0})
    assert [step.action for step in schedule.steps][:3] == ["send", "run", "observe"]
    expect = schedule.steps[2].expect
    assert (expect.leader, expect.isr) == (0, frozenset({0, 1, 2}))
    assert (expect.leo, expect.hw) == ({0: 1, 1: 1, 2: 0}, {0: 0, 1: 0, 2: 0})
    assert plan(schedule, "4.4.0").wire


def test_all_run_before_a_kraft_broker_has_shut_down() -> None:
    """B is held until the controller has made it the leader, and never gets m1."""
    schedule = compile_for(found("send A, stop A B", "acked-kept", "4.3.1", acks="1"), "4.3.1")
    assert [brief(step) for step in schedule.steps] == [("send", 0, [1, 2]), ("stop", 0, [1, 2])]
    last = schedule.steps[-1].expect
    assert (last.leader, last.isr) == (1, frozenset({1, 2}))
    assert last.leo == {1: 0, 2: 0}  # of all that run then, and A does not
    outcome = predict(schedule, rules_of("4.3.1"), unclean=False)
    assert (outcome.lost, outcome.logs) == (("m1",), {"A": (), "B": (), "C": ()})


def test_on_kraft_a_stop_elects_whom_the_search_elects_whatever_the_order() -> None:
    """A is shut down last, as in a rolling restart; after these moves C is the first in line."""
    script = "send A, run AB, move C, run BC, move A, run AC, stop A B"
    schedule = compile_for(found(script, "acked-kept", "4.3.1", records=1), "4.3.1")
    assert brief(schedule.steps[-1]) == ("stop", 0, [1])
    assert schedule.steps[-1].expect.leader == 1
    assert predict(schedule, rules_of("4.3.1"), unclean=False).lost == ("m1",)


def test_an_unknown_release_is_refused() -> None:
    with pytest.raises(UsageError, match=r"know Kafka release '9\.9\.9'"):
        compile_for(found(TWO_MOVES, "acked-kept", "0.10.2.2"), "9.9.9")


REASSIGNED = "send A, run AB, reassign A, run AB, reassign AB, stop A B"
"""B deletes its replica, stays in the ELR, is added again, and leads without a record."""


def test_replicas_that_come_and_go_become_a_schedule_of_the_second_partition() -> None:
    example = found(
        REASSIGNED, "acked-kept", "4.4.0", brokers=2, records=1, moves=1, reassignments=2, min_isr=2
    )
    again = Counterexample.from_json(example.to_json())
    assert [step.numbers() for step in again.steps] == [
        row_of(move) for move in REASSIGNED.split(", ")
    ]
    schedule = compile_for(again, "4.4.0")
    assert Schedule.from_json(schedule.to_json()) == schedule
    assert schedule.partition == 1
    assert [(*brief(step), step.replicas) for step in schedule.steps] == [
        ("send", 0, [1], ()),
        ("run", None, [], ()),
        ("reassign", None, [], (0,)),
        ("run", None, [], ()),
        ("reassign", None, [1], (0, 1)),
        ("stop", 0, [1], ()),
    ]
    assert [step.expect.leo for step in schedule.steps[2:4]] == [{0: 1}, {0: 1}]
    assert (schedule.steps[-1].expect.leader, schedule.steps[-1].expect.leo) == (1, {1: 0})
    assert predict(schedule, rules_of("4.4.0"), unclean=False).lost == ("m1",)
    assert predict(schedule, rules_of("3.9.2"), unclean=False).lost == ()


def test_a_cancellation_becomes_a_step() -> None:
    bounds = {"failures": 1, "moves": 2, "reassignments": 3, "records": 1, "interrupts": True}
    example = found(CANCELLED, "acked-kept", "3.9.2-zk", **bounds)
    assert "--interrupts" in example.command
    schedule = compile_for(Counterexample.from_json(example.to_json()), "3.9.2-zk")
    steps = {step.action: step for step in schedule.steps}
    assert brief(steps["cancel"]) == ("cancel", 0, [2])
    assert (steps["cancel"].expect.leader, steps["cancel"].expect.isr) == (-1, frozenset({2}))
    assert predict(schedule, rules_of("3.9.2-zk"), unclean=False).lost == ("m1",)


BY_HAND = "send A, kill B, expire B B, run A, kill A, expire A A, start B, elect B, run B"


def test_an_election_by_hand_becomes_a_step() -> None:
    bounds = {"failures": 2, "moves": 0, "brokers": 2, "records": 1, "by_hand": True}
    schedule = compile_for(found(BY_HAND, "acked-kept", "4.4.0", **bounds), "4.4.0")
    [step] = [step for step in schedule.steps if step.action == "elect-unclean"]
    assert (step.broker, step.expect.leader, step.expect.isr) == (1, 1, frozenset({1}))
    assert predict(schedule, rules_of("4.4.0"), unclean=False).lost == ("m1",)


WIPED = (
    "send A, run AB, kill B, expire B B, kill A, expire A A, start A, stop A A, wipe A, start B"
    ", start A, run A"
)
"""The last leader comes back empty while B, which has everything, has left the ELR."""


def test_a_disk_that_comes_back_empty_becomes_a_step() -> None:
    bounds = {"failures": 2, "moves": 1, "wipes": 1, "brokers": 2, "records": 1, "min_isr": 2}
    schedule = compile_for(found(WIPED, "acked-kept", "4.4.0", **bounds), "4.4.0")
    assert schedule.partition == 0
    assert [step.action for step in schedule.steps][8] == "wipe"
    assert predict(schedule, rules_of("4.4.0"), unclean=False).lost == ("m1",)

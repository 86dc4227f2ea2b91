"""Schedules of counterexamples of transactions, and what they come to on each release."""

from pathlib import Path

import msgspec
import pytest

from highwater.campaigns.model_schedules import Source
from highwater.checkers.model.transactions.transaction_counterexample import (
    TransactionCounterexample,
)
from highwater.checkers.model.transactions.transaction_schedule import (
    END,
    ForetoldRecords,
    foretell_records,
    transaction_schedule,
)
from highwater.checkers.model.transactions.transaction_scope import TransactionScope
from highwater.harness.base.errors import UsageError
from highwater.nemesis.model_replay.script_lookup import find_script
from highwater.nemesis.model_replay.transaction_replay import (
    TransactionReplay,
    as_foretold_records,
    transaction_plan,
)

FILES = Path(__file__).parents[5] / "docs" / "counterexamples"


def load(name: str) -> TransactionCounterexample:
    return TransactionCounterexample.load(FILES / f"transactions-{name}.json")


def told(name: str, kafka: str) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    fate = foretell_records(load(name), kafka)
    return fate.lost, fate.published, fate.hanging


def test_what_becomes_of_records_follows_the_release() -> None:
    assert told("kafka-14402-3.3.2", "3.3.2") == ((), (), ("m1",))
    assert told("kafka-14402-3.3.2", "3.7.2") == ((), (), ())
    for kafka in ("3.9.2", "4.4.0"):
        assert told("kafka-17754-3.9.2", kafka) == ((), ("m2",), ())
        assert told("late-produce-4.4.0", kafka) == (("m2",), ("m1",), ())
        assert told("reused-sequence-4.4.0", kafka) == (("m2",), (), ())


def test_a_late_request_is_held_and_released_in_its_turn() -> None:
    steps = [(step.action, step.held) for step in transaction_schedule(*of("late-produce-4.4.0"))]
    assert [step for step in steps if step[1]] == [
        ("send", "m1"),
        ("given-up", "m1"),
        ("send", "m2"),
        ("release", "m1"),
        ("release", "m2"),
    ]
    steps = [(step.action, step.held) for step in transaction_schedule(*of("kafka-17754-3.9.2"))]
    assert [step for step in steps if step[1]] == [("commit", END), ("release", END)]


def of(name: str) -> tuple[TransactionCounterexample, str]:
    counterexample = load(name)
    return counterexample, counterexample.kafka


def test_the_log_is_awaited_where_nothing_else_comes_by_itself() -> None:
    steps = transaction_schedule(*of("kafka-14402-3.3.2"))
    assert [step.length for step in steps] == [0, None, 0, 0, None, None, 1, 2]


def test_a_plan_has_the_whole_counterexample() -> None:
    counterexample = load("reused-sequence-4.4.0")
    plan = transaction_plan(counterexample, "3.9.2", seed=3)
    script = find_script(plan)
    assert isinstance(script, TransactionReplay)
    assert script.counterexample == counterexample
    assert plan.wire_clients
    assert plan.happens == "committed-kept on Kafka 4.4.0 with librdkafka"


def test_a_run_is_held_against_what_was_foretold() -> None:
    plan = transaction_plan(load("late-produce-4.4.0"), "4.4.0")
    assert as_foretold_records(plan, {("lost-write", "m2"), ("G1a", "m1")}) is True
    assert as_foretold_records(plan, {("lost-write", "m2")}) is None
    plan = transaction_plan(load("kafka-14402-3.3.2"), "3.7.2")
    assert as_foretold_records(plan, set()) is False
    assert as_foretold_records(plan, {("hanging-transaction", "m1")}) is None


def test_what_cannot_be_played_is_refused() -> None:
    counterexample = load("late-produce-4.4.0")
    other = msgspec.structs.replace(counterexample, client="java-v1")
    with pytest.raises(UsageError, match="client is another"):
        transaction_schedule(other, "4.4.0")
    scope = TransactionScope(in_turn=0)
    with pytest.raises(UsageError, match="does not wait"):
        transaction_schedule(msgspec.structs.replace(counterexample, scope=scope), "4.4.0")


def test_both_kinds_of_files_are_read() -> None:
    source = Source.load(FILES / "transactions-late-produce-4.4.0.json")
    assert source.content.kafka == "4.4.0"
    run = source.planned("3.9.2", label="one", seed=1, driver="local")
    assert run.plan.kafka == "3.9.2"
    assert ForetoldRecords().harms is False

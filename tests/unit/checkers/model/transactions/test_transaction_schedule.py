"""Schedules of counterexamples of transactions, and what they come to on each release."""

from pathlib import Path

import msgspec
import pytest

from highwater.campaigns.model_schedules import Source
from highwater.checkers.model.transactions.transaction_machine import (
    TransactionCounterexample,
)
from highwater.checkers.model.transactions.transaction_schedule import (
    END,
    MARKER,
    ForetoldRecords,
    predict_records,
    transaction_schedule,
)
from highwater.checkers.model.transactions.transaction_scope import TransactionScope
from highwater.harness.base.errors import UsageError
from highwater.nemesis.model_replay.script_lookup import find_script
from highwater.nemesis.model_replay.transaction_replay import (
    TransactionReplay,
    records_reproduced,
    transaction_plan,
)

FILES = Path(__file__).parents[5] / "docs" / "counterexamples"


def load(name: str) -> TransactionCounterexample:
    return TransactionCounterexample.load(FILES / f"transactions-{name}.json")


def told(
    name: str, kafka: str, client: str = "librdkafka"
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    fate = predict_records(load(name), kafka, client)
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


def test_a_late_marker_is_given_up_by_the_coordinator_and_ends_the_next_transaction() -> None:
    steps = [(step.action, step.held) for step in transaction_schedule(*of("late-marker-4.4.0"))]
    assert [step for step in steps if step[1]] == [
        ("abort", MARKER),
        ("given-up", MARKER),
        ("release", MARKER),
    ]
    lost, kept = (("m2",), (), ()), ((), (), ())
    assert told("late-marker-4.4.0", "4.4.0") == lost
    assert told("late-marker-4.4.0", "4.1.2", "java") == lost
    assert told("late-marker-4.4.0", "4.2.1", "java") == kept
    assert told("late-marker-4.4.0", "4.4.0", "java-v1") == lost


def test_what_an_old_epoch_is_refused_for_with_version_2_is_kept() -> None:
    for name in ("kafka-17754-3.9.2", "late-copy-4.4.0", "early-copy-4.4.0", "forgotten-4.4.0"):
        assert predict_records(load(name), "4.4.0", "java").harms is False
        assert predict_records(load(name), "4.4.0", "java-v1").harms is True
    for name in ("late-copy-4.4.0", "early-copy-4.4.0"):
        assert predict_records(load(name), "3.9.2", "librdkafka").refused == ("m2",)
        assert predict_records(load(name), "3.3.2", "librdkafka").harms is False


def test_a_leader_is_waited_for_until_it_has_forgotten_the_producer() -> None:
    steps = transaction_schedule(*of("forgotten-4.4.0"))
    assert [step.action for step in steps[9:13]] == ["begin", "forgotten", "send", "await"]
    assert told("forgotten-4.4.0", "4.4.0", "java-v1") == ((), ("m1",), ())


def of(name: str) -> tuple[TransactionCounterexample, str, str]:
    counterexample = load(name)
    return counterexample, counterexample.kafka, counterexample.client


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
    assert records_reproduced(plan, {("lost-write", "m2"), ("G1a", "m1")}) is True
    assert records_reproduced(plan, {("lost-write", "m2")}) is None
    plan = transaction_plan(load("kafka-14402-3.3.2"), "3.7.2")
    assert records_reproduced(plan, set()) is False
    assert records_reproduced(plan, {("hanging-transaction", "m1")}) is None
    plan = transaction_plan(load("forgotten-4.4.0"), "4.4.0")
    assert records_reproduced(plan, {("G1a", "m1"), ("repeated-sequence", "m1")}) is True
    assert records_reproduced(plan, {("G1a", "m1")}) is None
    plan = transaction_plan(load("forgotten-4.4.0"), "4.4.0", client="java")
    assert records_reproduced(plan, set()) is False


def test_what_cannot_be_played_is_refused() -> None:
    counterexample = load("late-produce-4.4.0")
    with pytest.raises(UsageError, match="librdkafka's producer"):
        transaction_schedule(counterexample, "4.4.0", "java-v1")
    with pytest.raises(UsageError, match="Java's producer"):
        transaction_schedule(load("forgotten-4.4.0"), "4.4.0", "librdkafka")
    with pytest.raises(UsageError, match=r"up to 3\.3, a leader and the coordinator forget"):
        transaction_schedule(load("forgotten-4.4.0"), "3.3.2", "java-v1")
    scope = TransactionScope(in_turn=0)
    with pytest.raises(UsageError, match="does not wait"):
        transaction_schedule(
            msgspec.structs.replace(counterexample, scope=scope), "4.4.0", "librdkafka"
        )


def test_a_replay_is_with_the_client_of_the_search_unless_another_is_asked_for() -> None:
    def client(name: str, kafka: str, chosen: str | None = None) -> str:
        return transaction_plan(load(name), kafka, client=chosen).client

    assert client("late-copy-4.4.0", "4.4.0") == "librdkafka"
    assert client("late-copy-4.4.0", "4.4.0", "java") == "java"
    assert client("forgotten-4.4.0", "4.4.0") == "java:3.9.2"
    assert client("forgotten-4.4.0", "3.9.2") == "java"
    with pytest.raises(UsageError, match="does not know kafka-python"):
        client("late-copy-4.4.0", "4.4.0", "kafka-python")


def test_brokers_forget_and_ask_again_soon_where_a_replay_waits_for_it() -> None:
    forgetful = transaction_plan(load("forgotten-4.4.0"), "4.4.0").broker_config
    assert forgetful["producer.id.expiration.ms"] == "2000"
    assert "request.timeout.ms" not in forgetful
    asking = transaction_plan(load("late-marker-4.4.0"), "4.4.0").broker_config
    assert asking["request.timeout.ms"] == "4000"


def test_both_kinds_of_files_are_read() -> None:
    source = Source.load(FILES / "transactions-late-produce-4.4.0.json")
    assert source.content.kafka == "4.4.0"
    run = source.planned("3.9.2", label="one", seed=1, driver="local")
    assert run.plan.kafka == "3.9.2"
    assert ForetoldRecords().harms is False

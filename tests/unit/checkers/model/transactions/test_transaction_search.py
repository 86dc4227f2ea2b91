"""The model of transactions: what it finds by itself, and that a second model agrees with it."""

import random
from pathlib import Path

import pytest
from typer.testing import CliRunner

from highwater.checkers.model.search.breadth_first import Limits, explore
from highwater.checkers.model.search.result import search
from highwater.checkers.model.transactions.transaction_invariants import TRANSACTION_INVARIANTS
from highwater.checkers.model.transactions.transaction_machine import (
    TransactionCounterexample,
    TransactionSettings,
)
from highwater.checkers.model.transactions.transaction_rules import (
    CLIENTS,
    TRANSACTION_RELEASES,
    TRANSACTION_SWITCHES,
)
from highwater.checkers.model.transactions.transaction_scope import TransactionScope
from highwater.cli.app import app
from highwater.cli.options.model import logs_in_words, question_of
from highwater.harness.base.errors import UsageError
from highwater.harness.releases.catalogue import CATALOGUE
from tests.support.plain_transactions import survey

pytestmark = pytest.mark.slow  # machine code of the rules takes a while, the first time

PLENTY = Limits(memory=1 << 30)
LATE_END = TransactionScope(late=0, late_controls=1)
LATE_RECORD = TransactionScope()
COUNTEREXAMPLES = Path(__file__).parents[5] / "docs" / "counterexamples"


def broken(kafka: str, client: str, scope: TransactionScope, **switched: bool) -> dict[str, int]:
    """The invariants that can be broken, and in how many steps."""
    setting = TransactionSettings(kafka=kafka, client=client, scope=scope, switched=switched)
    answers = search(setting, list(TRANSACTION_INVARIANTS), limits=PLENTY)
    return {
        answer.invariant: len(answer.counterexample.steps)
        for answer in answers
        if answer.counterexample
    }


def told(kafka: str, client: str, scope: TransactionScope, name: str) -> list[str]:
    """The sentences of the shortest way to break an invariant."""
    setting = TransactionSettings(kafka=kafka, client=client, scope=scope)
    (answer,) = search(setting, [name], limits=PLENTY)
    assert answer.counterexample is not None
    assert answer.counterexample.replay() is not None
    return [step.says for step in answer.counterexample.steps]


@pytest.mark.parametrize(
    ("kafka", "client"), [("0.11.0.3", "java"), ("3.9.2", "java"), ("4.4.0", "librdkafka")]
)
def test_a_late_end_txn_ends_the_next_transaction(kafka: str, client: str) -> None:
    """KAFKA-17754, without being told of it."""
    steps = told(kafka, client, LATE_END, "open-unread")
    assert len(steps) == 14
    assert steps[-2:] == [
        "P's late EndTxn commit (epoch 0) arrives: the transaction is prepare commit",
        "the marker commit is written to partition 0",
    ]


def test_an_epoch_for_each_transaction_refuses_it() -> None:
    assert broken("4.4.0", "java", LATE_END) == {}
    assert broken("4.4.0", "java-v1", LATE_END)["open-unread"] == 14


def test_a_late_produce_opens_a_transaction_that_nobody_ends() -> None:
    """KAFKA-14402, without being told of it; since 3.6 leaders ask."""
    steps = told("3.3.2", "librdkafka", LATE_RECORD, "ends")
    assert len(steps) == 8
    assert steps[-2:] == [
        "the marker abort is written to partition 0",
        "P's late Produce of m1 (epoch 0, sequence 0) arrives: appended at offset 1",
    ]
    assert "ends" not in broken("3.7.2", "librdkafka", LATE_RECORD)
    assert broken("3.7.2", "librdkafka", LATE_RECORD, verification=False)["ends"] == 8


def test_librdkafka_reuses_a_sequence_number_and_java_does_not() -> None:
    """A committed record is lost, and one that was aborted is read: ours."""
    found = broken("4.4.0", "librdkafka", LATE_RECORD)
    assert (found["committed-kept"], found["aborted-unread"]) == (14, 15)
    in_time = TransactionScope(overdue=0)
    steps = told("4.4.0", "librdkafka", in_time, "committed-kept")
    assert any("takes it for a copy of a record that it has" in step for step in steps)
    assert "aborted-unread" not in broken("4.4.0", "librdkafka", in_time)
    kept = broken("4.4.0", "librdkafka", LATE_RECORD, purges_unanswered=False)
    assert kept.keys() == broken("4.4.0", "java-v1", LATE_RECORD).keys() == {"goes-on"}


def test_without_anything_late_all_promises_hold() -> None:
    scope = TransactionScope(records=4, transactions=3, late=0, partitions=2)
    for client in CLIENTS:
        for kafka in ("0.11.0.3", "2.8.2", "3.9.2", "4.4.0"):
            assert broken(kafka, client, scope) == {}


def test_a_second_producer_fences_the_first_but_for_leaders_that_do_not_ask() -> None:
    scope = TransactionScope(records=2, late=0, producers=2)
    assert broken("3.3.2", "java", scope).keys() == set()
    assert broken("3.9.2", "java", scope) == broken("4.4.0", "java", scope) == {}


@pytest.mark.parametrize("seed", range(6))
def test_two_models_agree_state_by_state(seed: int) -> None:
    """As many states, as deep, and every promise broken first at the same depth."""
    chance = random.Random(seed)  # noqa: S311 - draws scopes
    scope = TransactionScope(
        partitions=chance.choice([1, 2]),
        records=chance.choice([1, 2]),
        transactions=chance.choice([1, 2]),
        producers=chance.choice([1, 1, 2]),
        late=chance.choice([0, 1]),
        late_controls=chance.choice([0, 1]),
        late_markers=chance.choice([0, 0, 1]),
        expiries=chance.choice([0, 0, 1]),
        forgets=chance.choice([0, 0, 1]),
        overdue=chance.choice([0, 1, 1]),
        in_turn=chance.choice([0, 0, 1]),
    )
    agree(chance, scope, states_most=700)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(100, 160))
def test_two_models_agree_on_larger_scopes(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - draws scopes
    scope = TransactionScope(
        partitions=chance.choice([1, 1, 2]),
        records=chance.choice([2, 3]),
        transactions=chance.choice([2, 3]),
        producers=chance.choice([1, 1, 2]),
        late=chance.choice([0, 1, 2]),
        late_controls=chance.choice([0, 1]),
        late_markers=chance.choice([0, 1]),
        expiries=chance.choice([0, 1]),
        forgets=chance.choice([0, 1]),
        overdue=chance.choice([0, 1, 1]),
        in_turn=chance.choice([0, 0, 1]),
    )
    agree(chance, scope, states_most=4000)


def agree(chance: random.Random, scope: TransactionScope, *, states_most: int) -> None:
    """Search with both models; a scope with more states than asked for is tried with less."""
    client = chance.choice(CLIENTS)
    setting = TransactionSettings(
        kafka=chance.choice(TRANSACTION_RELEASES),
        client=client,
        scope=scope,
        switched={chance.choice(TRANSACTION_SWITCHES): chance.random() < 0.5},
    )
    found = explore(setting.machine(), [], limits=PLENTY)
    if found.states > states_most:
        smaller = TransactionScope(records=2, transactions=2, late=scope.late)
        setting = TransactionSettings(
            kafka=setting.kafka, client=client, scope=smaller, switched=setting.switched
        )
        found = explore(setting.machine(), [], limits=PLENTY)
    lengths: dict[str, int] = {}
    for name in TRANSACTION_INVARIANTS:
        paths = explore(setting.machine(), [name], limits=PLENTY).paths
        lengths |= {name: len(path) for name, path in paths.items()}
    assert found.exhausted
    assert survey(setting.scope, setting.rules()) == (found.states, found.depth, lengths)


def test_of_a_scope_that_does_not_fit_nothing_is_known() -> None:
    scope = TransactionScope(records=6, transactions=4, late=3, late_controls=3)
    setting = TransactionSettings(kafka="4.4.0", client="java-v1", scope=scope)
    (answer,) = search(setting, ["written-once"], limits=PLENTY)
    assert (answer.holds, answer.reason) == (None, "overflow")


def test_what_the_model_does_not_know_is_refused() -> None:
    with pytest.raises(UsageError, match="no transactions"):
        TransactionSettings(kafka="0.10.2.2").rules()
    with pytest.raises(UsageError, match="does not know client") as refused:
        TransactionSettings(kafka="4.4.0", client="librdkafk").rules()
    assert "librdkafka" in refused.value.hint
    with pytest.raises(UsageError, match="no rule"):
        TransactionSettings(kafka="4.4.0", switched={"verify": True}).rules()
    with pytest.raises(UsageError, match="no invariant"):
        question_of("transactions", ["acked-kept"], [], {"kafka": "4.4.0"})
    with pytest.raises(UsageError, match="records = 9"):
        TransactionScope(records=9)


def test_the_command_writes_a_counterexample_and_draws_it(tmp_path: Path) -> None:
    out, drawn = tmp_path / "found.json", tmp_path / "found.svg"
    words = ["model", "explore", "--transactions", "--kafka", "3.3.2", "--invariant", "ends"]
    done = CliRunner().invoke(app, [*words, "--out", str(out), "--report", str(drawn)])
    assert done.exit_code == 1
    assert "BROKEN ends in 8 steps" in done.output
    counterexample = TransactionCounterexample.load(out)
    assert logs_in_words(counterexample.steps[-1].after) == "[a | m1] complete abort"
    assert counterexample.replay() is not None
    assert "the application aborts transaction 1" in drawn.read_text("utf-8")
    done = CliRunner().invoke(app, [*words, "--kafka", "3.7.2", "--json"])
    assert done.exit_code == 0
    assert '"holds": true' in done.output


def test_the_command_refuses_options_of_the_other_model() -> None:
    words = ["model", "explore", "--transactions", "--kafka", "4.4.0"]
    for option in (["--moves", "2"], ["--bound", "moves=2"], ["--bound", "records=x"]):
        assert isinstance(CliRunner().invoke(app, [*words, *option]).exception, UsageError)


def test_rules_are_listed_by_release() -> None:
    words = ["model", "rules", "--transactions", "--client", "java", "--json"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0
    assert f"3.6.2 to {list(CATALOGUE)[-1]}" in done.output


@pytest.mark.parametrize("path", sorted(COUNTEREXAMPLES.glob("transactions-*.json")), ids=str)
def test_counterexamples_of_the_docs_still_break_what_they_broke(path: Path) -> None:
    assert TransactionCounterexample.load(path).replay() is not None

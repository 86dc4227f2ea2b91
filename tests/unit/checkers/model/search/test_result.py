"""The search on the model itself: the same by machine code and by plain Python."""

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from typer.testing import CliRunner

from highwater.checkers.model.protocol.compiled import State
from highwater.checkers.model.protocol.scope import Scope
from highwater.checkers.model.search.breadth_first import Limits, explore
from highwater.checkers.model.search.fingerprints import new_table
from highwater.checkers.model.search.kafka_model import (
    PROMISES,
    Counterexample,
    ModelSettings,
    invariants,
)
from highwater.checkers.model.search.kernels import Problem, kernels
from highwater.checkers.model.search.machine import Machine
from highwater.checkers.model.search.model_file import FORMAT
from highwater.checkers.model.search.paths import successors
from highwater.checkers.model.search.result import SearchAnswer, search
from highwater.cli.app import app
from highwater.cli.model import exit_code
from highwater.cli.options.model import holdings, steps
from highwater.harness.base.errors import StoreError, UsageError

pytestmark = pytest.mark.slow  # machine code of the rules takes most of a minute, the first time

PLENTY = Limits(memory=1 << 30)
SMALL = Scope(brokers=2, records=1, failures=1, moves=0)
TWO_MOVES = ModelSettings(kafka="0.10.2.2", scope=Scope(records=1, failures=0, moves=2))


def canonical(machine: Machine, state: State) -> bytes:
    form = state.copy()
    machine.laws.canonical(state, form, machine.constants)
    return form.tobytes()


def interpreted(machine: Machine, name: Callable[[State], bytes]) -> set[bytes]:
    """Every state by the rules as plain Python, under the name that it is given."""
    seen, frontier = {name(machine.initial)}, [machine.initial]
    while frontier:
        found = [after for state in frontier for _, after in successors(machine, state)]
        frontier = []
        for after in found:
            if (key := name(after)) not in seen:
                seen.add(key)
                frontier.append(np.frombuffer(key, np.int8).copy())
    return seen


def compiled(machine: Machine) -> set[bytes]:
    """Every state by the kernel."""
    first = np.frombuffer(canonical(machine, machine.initial), np.uint64).copy()
    source, seen, row = first.reshape(1, -1), {first.tobytes()}, 0
    table, marks = new_table(1 << 20), np.zeros(63, np.uint64)
    kernel = kernels(machine.laws)
    problem = Problem(machine.constants, machine.moves, 0)
    while row < len(source):
        out = np.empty((1 << 15, source.shape[1]), np.uint64)
        row, new, _ = kernel.expand(source, row, out, table, problem, marks)
        source = np.concatenate([source, out[:new]])
        seen |= {state.tobytes() for state in out[:new]}
    return seen


def shapes(machine: Machine, states: Iterable[bytes]) -> set[bytes]:
    """Orbits: states up to any renaming of brokers."""
    vectors = (np.frombuffer(state, np.int8).copy() for state in states)
    return {min(canonical(machine, one) for one in machine.renamed(each)) for each in vectors}


@pytest.mark.parametrize("kafka", ["0.10.2.2", "2.0.0", "2.8.2", "4.3.1"])
def test_machine_code_and_python_agree_state_by_state(kafka: str) -> None:
    machine = ModelSettings(kafka=kafka, scope=SMALL).machine()
    by_python = interpreted(machine, lambda state: canonical(machine, state))
    assert len(by_python) > 300
    assert by_python == compiled(machine)
    found = explore(machine, [], limits=PLENTY)
    assert (found.states, found.exhausted) == (len(by_python), True)


@pytest.mark.nightly  # the rounds are other machine code
@pytest.mark.parametrize("kafka", ["2.8.2", "4.4.0"])
def test_machine_code_and_python_agree_on_rounds(kafka: str) -> None:
    scope = Scope(brokers=2, records=1, failures=1, moves=1, by="round")
    machine = ModelSettings(kafka=kafka, scope=scope).machine()
    assert interpreted(machine, lambda state: canonical(machine, state)) == compiled(machine)


RARE = {
    "a batch": ("1.1.1", Scope(brokers=2, records=2, failures=0, moves=1, batch=2)),
    "a failover": ("2.8.2", Scope(brokers=2, records=1, failures=0, moves=2, failovers=1)),
    "a disk": ("3.9.2-zk", Scope(brokers=2, records=1, failures=0, moves=2, wipes=1, joins=1)),
}


@pytest.mark.parametrize(("kafka", "scope"), RARE.values(), ids=RARE)
def test_machine_code_and_python_agree_on_what_is_rare(kafka: str, scope: Scope) -> None:
    machine = ModelSettings(kafka=kafka, scope=scope).machine()
    by_python = interpreted(machine, lambda state: canonical(machine, state))
    without = ModelSettings(
        kafka=kafka, scope=replace(scope, batch=1, failovers=0, wipes=0, joins=0)
    ).machine()
    assert by_python == compiled(machine)
    assert len(by_python) > len(compiled(without))


def test_renaming_brokers_loses_no_state_and_invents_none() -> None:
    """What is met without any renaming has, up to renaming, the shapes that are met with it."""
    scope = Scope(brokers=3, records=1, failures=0, moves=1)
    machine = ModelSettings(kafka="2.0.1", scope=scope).machine()
    named = interpreted(machine, lambda state: state.tobytes())
    nameless = compiled(machine)
    assert shapes(machine, named) == shapes(machine, nameless)
    assert len(nameless) < len(named)


def test_two_planned_moves_lose_a_record_of_0_10() -> None:
    (found,) = search(TWO_MOVES, ["acked-kept"], limits=PLENTY)
    assert found.holds is False
    assert found.counterexample is not None
    assert found.counterexample.shortest
    last = found.counterexample.steps[-1].after
    assert last.acked == ("m1",)
    assert last.replicas[last.leader].log == ()
    assert found.depth == len(found.counterexample.steps)
    assert found.counterexample.replay() is not None


def test_no_two_planned_moves_lose_a_record_of_4_3() -> None:
    setting = ModelSettings(kafka="4.3.1", scope=TWO_MOVES.scope)
    found = search(setting, PROMISES, limits=PLENTY)
    assert [one.holds for one in found] == [True] * len(PROMISES)
    assert exit_code(found) == 0
    assert len({one.states for one in found}) == 1


def test_a_rule_that_is_switched_off_is_missed() -> None:
    setting = ModelSettings(kafka="4.3.1", scope=TWO_MOVES.scope, switched={"epochs": False})
    assert setting.rules().epochs is False
    with pytest.raises(UsageError, match="no rule") as refused:
        ModelSettings(kafka="4.3.1", switched={"epoch": False}).rules()
    assert "epochs" in refused.value.hint


def test_more_decisions_than_a_state_holds_are_not_known() -> None:
    """One broker may lag behind nine moves, each with decisions of its own."""
    scope = Scope(brokers=2, records=1, failures=0, moves=9)
    for kafka in ("4.4.0", "3.9.2-zk"):
        found = search(ModelSettings(kafka=kafka, scope=scope), ["acked-kept"], limits=PLENTY)
        assert [(one.holds, one.reason) for one in found] == [(None, "overflow")]
        assert exit_code(found) == 3


def test_a_breach_before_there_is_no_room_is_found() -> None:
    scope = Scope(brokers=2, records=1, failures=0, moves=9)
    found = search(ModelSettings(kafka="0.10.2.2", scope=scope), PROMISES, limits=PLENTY)
    assert found[0].holds is False
    assert {one.reason for one in found if one.holds is None} <= {"overflow"}


def test_too_little_memory_ends_with_what_was_found() -> None:
    setting = ModelSettings(kafka="0.10.2.2", scope=Scope(records=2, failures=2, moves=2))
    found = search(setting, ["acked-kept", "type-ok"], limits=Limits(memory=60 << 20))
    assert [one.holds for one in found] == [False, None]
    assert [one.reason for one in found] == [None, "memory"]
    assert found[1].states > 10_000
    assert exit_code(found) == 1
    assert exit_code(found[1:]) == 3


def counterexample() -> Counterexample:
    (found,) = search(TWO_MOVES, ["acked-kept"], limits=PLENTY)
    assert found.counterexample is not None
    return found.counterexample


def test_a_counterexample_survives_its_file(tmp_path: Path) -> None:
    found = counterexample()
    path = tmp_path / "found.json"
    path.write_bytes(found.to_json())
    assert Counterexample.load(path) == found
    leaps = found.replay()
    assert leaps is not None
    assert len(leaps) == len(found.steps)


def test_a_counterexample_of_a_release_without_the_fault_breaks_nothing() -> None:
    assert msgspec.structs.replace(counterexample(), kafka="4.3.1").replay() is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"format": 99}', "format 99"),
        ("{}", "no counterexample"),
        ('{"format": 1}', "no counterexample"),
        ("not json", "no counterexample"),
    ],
)
def test_files_that_are_no_counterexample(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "found.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=says):
        Counterexample.load(path)
    with pytest.raises(StoreError, match="cannot be read"):
        Counterexample.load(tmp_path / "none.json")
    assert FORMAT == 1


def test_a_move_that_the_model_does_not_know() -> None:
    found = counterexample()
    odd = msgspec.structs.replace(found.steps[0], move="fly")
    with pytest.raises(UsageError, match="FLY"):
        msgspec.structs.replace(found, steps=(odd,)).replay()


def test_names_that_nobody_knows() -> None:
    with pytest.raises(UsageError, match="acked-lost") as refused:
        invariants(["acked-lost"])
    assert "Did you mean acked-kept" in refused.value.hint
    with pytest.raises(UsageError, match=r"2\.8\.3"):
        ModelSettings(kafka="2.8.3").machine()
    with pytest.raises(UsageError, match="no invariant is named"):
        invariants([])
    assert set(invariants(["promises"])) == set(PROMISES) < set(invariants(["all"]))
    assert invariants(["read-once", "all"])[0] == "read-once"


def test_the_words_show_each_step_and_who_holds_what() -> None:
    found = counterexample()
    lines = steps(found, holdings)
    assert len(lines) == 2 * len(found.steps)
    assert lines[0].startswith("   1. ")
    assert holdings(found.steps[0].after).count("[") == 3
    assert "m1|" in " ".join(lines)


def test_the_command(tmp_path: Path) -> None:
    out = tmp_path / "found" / "loss.json"
    words = ["model", "explore", "--kafka", "0.10.2.2", "--invariant", "acked-kept"]
    words += ["--failures", "0", "--records", "1"]
    result = CliRunner().invoke(app, [*words, "--json", "--out", str(out)])
    assert result.exit_code == 1, result.output
    answer = json.loads(result.stdout)
    assert answer["holds"] is False
    assert len(answer["counterexample"]) == answer["depth"]
    assert {"states", "seconds", "compile_seconds", "rate", "peak_bytes", "collision"} <= set(
        answer
    )
    assert len(Counterexample.load(out).steps) == answer["depth"]
    told = CliRunner().invoke(app, words)
    assert "BROKEN acked-kept in" in told.stdout
    assert "probability below" in told.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--kafka 0.10.2.3", "0.10.2.2"),
        ("--kafka 4.3.1 --invariant kept", "acked-kept"),
        ("--kafka 4.3.1 --brokers 4", "brokers = 4"),
        ("--kafka 4.3.1 --memory much", "512M"),
        ("--kafka 4.3.1 --rule epochs", "epochs=off"),
        ("--kafka 4.3.1 --rule epoch=off", "epochs"),
        ("--kafka 4.3.1 --acks some", "0, 1 or all"),
        ("--kafka 4.3.1 --client java", "without --transactions or --quorum"),
        ("--kafka 4.3.1 --bound records=3", "without --transactions or --quorum"),
    ],
)
def test_the_command_refuses_with_a_hint(words: str, says: str) -> None:
    result = CliRunner().invoke(app, ["model", "explore", *words.split()])
    assert isinstance(result.exception, UsageError)
    assert says in str(result.exception)


def test_a_result_is_one_object() -> None:
    (found,) = search(TWO_MOVES, ["acked-kept"], limits=PLENTY)
    assert isinstance(found, SearchAnswer)
    assert json.loads(json.dumps(found.summary()))["invariant"] == "acked-kept"

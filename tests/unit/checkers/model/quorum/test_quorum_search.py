"""The model of KRaft's quorum: what it finds by itself, and what holds within bounds."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner

from highwater.checkers.model.quorum import quorum_layout as layout
from highwater.checkers.model.quorum.quorum_invariants import QUORUM_INVARIANTS
from highwater.checkers.model.quorum.quorum_layout import put, voters_of
from highwater.checkers.model.quorum.quorum_machine import (
    QuorumCounterexample,
    QuorumSettings,
    QuorumStep,
)
from highwater.checkers.model.quorum.quorum_moves import QuorumMove
from highwater.checkers.model.quorum.quorum_rules import QUORUM_RELEASES, quorum_rules_of
from highwater.checkers.model.quorum.quorum_scope import OLD_ID, STANDALONE, QuorumScope
from highwater.checkers.model.search.breadth_first import Limits, explore
from highwater.checkers.model.search.result import SearchAnswer, search
from highwater.cli.app import app
from highwater.harness.base.errors import UsageError

PLENTY = Limits(memory=1 << 30)
SAFETY = ("committed-kept", "agree-below-hw", "one-leader", "log-matching")
FIXED, DYNAMIC = "3.7.2", "4.4.0"

searched = pytest.mark.slow  # machine code of the rules takes a while, the first time


def answers(
    kafka: str, names: tuple[str, ...] = tuple(QUORUM_INVARIANTS), /, **bounds: int
) -> tuple[SearchAnswer[QuorumCounterexample], ...]:
    settings = QuorumSettings(kafka=kafka, scope=QuorumScope(**bounds))
    return search(settings, list(names), limits=PLENTY)


def broken(
    kafka: str, names: tuple[str, ...] = tuple(QUORUM_INVARIANTS), /, **bounds: int
) -> dict[str, int]:
    """The invariants that can be broken, and in how many steps."""
    found = answers(kafka, names, **bounds)
    assert all(answer.reason is None for answer in found)
    return {
        answer.invariant: len(answer.counterexample.steps)
        for answer in found
        if answer.counterexample is not None
    }


def without(rule: str, name: str, **bounds: int) -> tuple[QuorumStep, ...]:
    """The shortest way to break an invariant if a rule is switched off."""
    settings = QuorumSettings(
        kafka=DYNAMIC, scope=QuorumScope(wipes=0, **bounds), switched={rule: False}
    )
    (answer,) = search(settings, [name], limits=PLENTY)
    assert answer.counterexample is not None
    return answer.counterexample.steps


class Played:
    """The model of one release, on which a test takes moves by hand."""

    def __init__(
        self, kafka: str, *, switched: Mapping[str, bool] | None = None, **bounds: int
    ) -> None:
        scope = QuorumScope(**bounds)
        self.machine = QuorumSettings(kafka=kafka, scope=scope, switched=switched or {}).machine()
        self.state = self.machine.initial.copy()

    def take(self, move: QuorumMove, a: int, b: int = 0) -> bool:
        """Take a move, if it is possible."""
        after = self.state.copy()
        possible = self.machine.laws.apply(after, self.machine.constants, int(move), a, b)
        if possible:
            self.state = after
        return possible

    def broken(self) -> set[str]:
        mask = self.machine.laws.broken(self.state, self.machine.constants)
        return {name for name, bit in self.machine.invariants.items() if mask >> bit & 1}

    def get(self, r: int, field: int) -> int:
        return layout.get(self.state, r, field)


@pytest.mark.parametrize("name", QUORUM_INVARIANTS)
def test_each_invariant_notices_a_state_that_breaks_it(name: str) -> None:
    played = Played(DYNAMIC)
    assert played.broken() == set()
    s = played.state
    if name == "committed-kept":
        s[layout.DECIDED], s[layout.COMMITTED] = 1, 1
        assert played.broken() == set()  # the leader of epoch 1 itself may lack it: it truncates
        put(s, 0, layout.EPOCH, 2)
    elif name == "agree-below-hw":
        put(s, 1, layout.EPOCHS, 2)
    elif name == "one-leader":
        put(s, 1, layout.LEADS, 1)
    elif name == "quorum-returns":
        put(s, 1, layout.STATUS, layout.REPLACED)
        assert played.broken() == set()
        put(s, 2, layout.STATUS, layout.REPLACED)
    else:
        for r in (0, 1):
            put(s, r, layout.HW, 0)
            put(s, r, layout.EPOCHS + 1, 2)
            put(s, r, layout.LEO, 2)
        put(s, 1, layout.VALUES, 1)
    assert played.broken() == {name}


def test_a_decision_needs_a_majority_that_reports_it() -> None:
    played = Played(DYNAMIC)
    assert played.take(QuorumMove.DECIDE, 0)
    assert not played.take(QuorumMove.DECIDE, 1)  # it does not lead
    assert played.take(QuorumMove.FETCH, 1, 0)
    assert played.get(0, layout.HW) == 1
    assert played.take(QuorumMove.FETCH_NONE, 1, 0)
    assert (played.get(0, layout.HW), played.get(1, layout.HW)) == (2, 1)
    assert played.state[layout.COMMITTED] == 1


def test_votes_go_to_logs_that_are_not_older_and_once_an_epoch() -> None:
    played = Played(DYNAMIC)
    played.take(QuorumMove.DECIDE, 0)
    played.take(QuorumMove.FETCH, 1, 0)
    assert not played.take(QuorumMove.ELECT, 2, 0b110)  # the log of B is longer
    assert not played.take(QuorumMove.ELECT, 1, 0b010)  # no majority
    assert played.take(QuorumMove.ELECT, 1, 0b110)
    assert [played.get(r, layout.EPOCH) for r in range(3)] == [1, 2, 2]
    assert played.take(QuorumMove.ELECT, 0, 0b101)
    assert played.get(0, layout.EPOCH) == 3  # C has no vote left in epoch 2
    assert not played.take(QuorumMove.FETCH, 0, 1)  # its epoch is higher than B's


def test_a_follower_truncates_to_its_leader_but_not_below_its_hw() -> None:
    played = Played(DYNAMIC, restarts=1)
    played.take(QuorumMove.DECIDE, 0)
    played.take(QuorumMove.ELECT, 1, 0b110)
    put(played.state, 0, layout.HW, 2)
    assert not played.take(QuorumMove.FETCH, 0, 1)
    assert played.take(QuorumMove.RESTART, 0)
    assert played.take(QuorumMove.FETCH, 0, 1)
    assert played.get(0, layout.LEO) == 1
    assert played.take(QuorumMove.FETCH, 0, 1)
    assert [played.get(0, layout.EPOCHS + offset) for offset in range(2)] == [1, 2]


def test_a_change_of_voters_holds_at_once_and_is_taken_back_by_truncation() -> None:
    played = Played(DYNAMIC, spares=1, changes=2)
    assert not played.take(QuorumMove.ADD, 0, 3)  # it has not fetched
    played.take(QuorumMove.FETCH, 3, 0)
    played.take(QuorumMove.FETCH, 3, 0)
    assert played.take(QuorumMove.ADD, 0, 3)
    assert voters_of(played.state, 0) == 0b1111
    assert not played.take(QuorumMove.REMOVE, 0, 1)  # the first change is not committed
    played.take(QuorumMove.ELECT, 1, 0b110)
    assert played.take(QuorumMove.FETCH, 0, 1)
    assert voters_of(played.state, 0) == 0b0111


def test_a_leader_that_removed_itself_resigns_after_the_commit() -> None:
    played = Played(DYNAMIC, changes=1)
    assert played.take(QuorumMove.REMOVE, 0, 0)
    for r in (1, 1, 2):
        assert played.take(QuorumMove.FETCH, r, 0)
        assert played.get(0, layout.LEADS)
    assert played.take(QuorumMove.FETCH, 2, 0)
    assert not played.get(0, layout.LEADS)
    assert not played.take(QuorumMove.ELECT, 0, 0b011)  # no voter any more


def test_a_new_disk_has_a_new_directory_id_and_no_vote() -> None:
    played = Played(DYNAMIC)
    assert played.take(QuorumMove.REPLACE, 1)
    assert not played.take(QuorumMove.ELECT, 2, 0b110)
    assert not played.take(QuorumMove.ELECT, 3, 0b1101)
    fixed = Played(FIXED)
    assert fixed.take(QuorumMove.REPLACE, 1)
    assert fixed.take(QuorumMove.ELECT, 2, 0b110)


@searched
def test_with_fixed_voters_one_empty_disk_loses_a_decision() -> None:
    """A voter that forgot its vote, or its log, and a voter that lagged."""
    found = {"committed-kept": 5, "agree-below-hw": 7, "one-leader": 3, "log-matching": 5}
    assert broken(FIXED) == found
    assert broken(DYNAMIC, format=OLD_ID) == found  # with the directory id of the old disk
    assert broken(FIXED, wipes=0) == {}


@searched
def test_with_directory_ids_an_empty_disk_loses_nothing_but_two_stop_the_quorum() -> None:
    assert broken(DYNAMIC) == {}
    assert broken(DYNAMIC, wipes=2, epochs=2) == {"quorum-returns": 2}
    assert broken(DYNAMIC, SAFETY, changes=1, epochs=2) == {}


@searched
def test_a_disk_that_is_formatted_as_a_quorum_of_its_own_decides_alone() -> None:
    found = broken(DYNAMIC, ("committed-kept", "one-leader"), format=STANDALONE)
    assert found == {"committed-kept": 4, "one-leader": 2}


@searched
def test_a_leader_that_removes_itself_from_two_voters_can_stop_the_quorum() -> None:
    """The other voter needs its vote, and its log is longer."""
    (answer,) = answers(DYNAMIC, ("quorum-returns",), voters=2, wipes=0, changes=1)
    assert answer.counterexample is not None
    assert [step.says for step in answer.counterexample.steps] == ["A removes the voter A"]
    assert broken(DYNAMIC, voters=3, wipes=0, changes=1, epochs=2) == {}


@searched
@pytest.mark.parametrize(
    ("rule", "steps", "bounds"),
    [("own_epoch_commits", 6, {"epochs": 4}), ("one_change", 4, {"changes": 2})],
)
def test_each_rule_is_needed(rule: str, steps: int, bounds: dict[str, int]) -> None:
    """Without the first, a leader commits what the next leader truncates (Raft, figure 8)."""
    assert len(without(rule, "committed-kept", **bounds)) == steps
    assert broken(DYNAMIC, ("committed-kept",), wipes=0, **{**bounds, "epochs": 2}) == {}


@pytest.mark.parametrize("rule", [True, False])
def test_a_new_leader_must_commit_before_it_changes_the_voters(rule: bool) -> None:
    """The bug of changes by one server in Raft's dissertation (raft-dev, 2015)."""
    played = Played(DYNAMIC, voters=4, spares=1, changes=2, switched={"change_after_commit": rule})
    fetch, lost = QuorumMove.FETCH, QuorumMove.FETCH_NONE
    steps = [(fetch, 4, 0), (fetch, 4, 0), (QuorumMove.ADD, 0, 4), (QuorumMove.ELECT, 1, 0b1110)]
    for move, a, b in steps:
        assert played.take(move, a, b)
    assert played.take(QuorumMove.REMOVE, 1, 0) is not rule
    if not rule:
        for move, a, b in [(QuorumMove.DECIDE, 1, 0), (fetch, 2, 1), (lost, 2, 1)]:
            assert played.take(move, a, b)
        assert played.broken() == set()
        assert played.take(QuorumMove.ELECT, 0, 0b11001)
        assert played.broken() == {"committed-kept"}


@searched
def test_compiled_and_plain_rules_reach_the_same_states() -> None:
    machine = QuorumSettings(
        kafka=DYNAMIC, scope=QuorumScope(voters=2, changes=1, epochs=2)
    ).machine()
    found = explore(machine, [], limits=PLENTY)
    seen, waiting = {machine.initial.tobytes()}, [machine.initial]
    while waiting:
        before = waiting.pop()
        for kind, a, b in machine.moves.tolist():
            after = before.copy()
            possible = machine.laws.apply(after, machine.constants, kind, a, b)
            if possible and after.tobytes() not in seen:
                seen.add(after.tobytes())
                waiting.append(after)
    assert (found.exhausted, found.states) == (True, len(seen))


def test_releases_before_kip_853_have_fixed_voters() -> None:
    dynamic = [name for name in QUORUM_RELEASES if quorum_rules_of(name).directory_ids]
    assert "3.9.2" in dynamic
    assert "3.7.2" not in dynamic
    assert "3.9.2-zk" not in QUORUM_RELEASES


def test_wrong_use_is_refused() -> None:
    with pytest.raises(UsageError, match="no quorum"):
        QuorumSettings(kafka="2.8.2").rules()
    with pytest.raises(UsageError, match="voters = 9"):
        QuorumScope(voters=9)
    with pytest.raises(UsageError, match="= 8 does not fit"):
        QuorumScope(voters=4, spares=3)
    done = CliRunner().invoke(
        app, ["model", "explore", "--quorum", "--kafka", "4.4.0", "--client", "java"]
    )
    assert "--client has no effect with --quorum" in str(done.exception)
    done = CliRunner().invoke(app, ["model", "rules", "--quorum", "--transactions"])
    assert "two models" in str(done.exception)


@searched
def test_the_command_writes_a_counterexample(tmp_path: Path) -> None:
    out = tmp_path / "found.json"
    words = ["model", "explore", "--quorum", "--kafka", FIXED, "--invariant", "one-leader"]
    done = CliRunner().invoke(app, [*words, "--out", str(out)])
    assert done.exit_code == 1
    assert "BROKEN one-leader in 3 steps" in done.output
    steps = QuorumCounterexample.load(out).steps
    assert [step.move for step in steps] == ["elect", "replace", "elect"]
    assert "this model has no drawings" in str(
        CliRunner().invoke(app, [*words, "--report", str(tmp_path / "x.svg")]).exception
    )


def test_rules_are_listed_with_their_releases() -> None:
    done = CliRunner().invoke(app, ["model", "rules", "--quorum", "--json"])
    rows = {row["rule"]: row for row in json.loads(done.stdout)}
    assert rows["directory_ids"]["releases"].startswith("3.9.0 to")
    assert rows["own_epoch_commits"]["releases"].startswith("3.3.2-kraft")

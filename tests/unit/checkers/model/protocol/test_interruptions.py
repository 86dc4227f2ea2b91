"""Reassignments that an operator cancels or replaces (KIP-455)."""

from typing import Any

import pytest

from highwater.checkers.model.protocol.moves import Move, apply, moves
from highwater.checkers.model.protocol.scope import Scope
from highwater.checkers.model.search.kafka_model import ModelSettings
from highwater.harness.base.errors import UsageError
from tests.support.model_dsl import Play


def follow(play: Play, script: str) -> Play:
    """Take every move; before and after each one the brokers learn all decisions."""
    for move in ("", *script.split(", ")):
        play.do(move)
        for broker in "ABC":
            while play.can(f"learn {broker}"):
                play.do(f"learn {broker}")
    return play


@pytest.mark.parametrize(
    ("kafka", "script", "assigned", "isr"),
    [
        ("3.9.2", "cancel A", (0, 1), (0, 1)),
        ("3.9.2", "reassign AB", (0, 1), (0, 1)),
        ("3.9.2", "reassign BC", (0, 1, 2), (0, 1)),
        ("3.9.2", "reassign BC, fetch C, fetch C", (1, 2), (1, 2)),
        ("4.4.0", "reassign AB", (0, 1, 2), (0, 1)),
        ("4.4.0", "reassign AB, fetch C, fetch C", (0, 1, 2), (0, 1, 2)),
        ("4.4.0", "reassign AB, fetch C, fetch C, cancel A", (0, 1), (0, 1)),
        ("3.9.2-zk", "cancel A", (0, 1), (0, 1)),
        ("3.9.2-zk", "reassign AC", (0, 1, 2), (0, 1)),
        ("2.8.2", "reassign A", (0,), (0,)),
    ],
)
def test_a_reassignment_is_interrupted(
    kafka: str, script: str, assigned: tuple[int, ...], isr: tuple[int, ...]
) -> None:
    """C is being added. A rollback by a request never ends on 4.4.0: C is added and removed."""
    play = Play.of(kafka, interrupts=True)
    follow(play, f"send A, fetch B, fetch B, reassign AB, reassign ABC, {script}")
    assert (play.now.assigned, play.now.isr) == (assigned, isr)


def alone(kafka: str) -> Play:
    """C is being added, and it alone is in sync and has m1."""
    script = "reassign AB, kill B, expire B B, reassign ABC, fetch C, stop A C, send C"
    play = follow(Play.of(kafka, interrupts=True), script)
    assert (play.now.acked, play.now.isr, play.now.assigned) == (("m1",), (2,), (0, 1, 2))
    return play


@pytest.mark.parametrize("kafka", ["2.8.2", "3.9.2-zk"])
def test_with_zookeeper_a_cancellation_deletes_the_only_log_in_sync(kafka: str) -> None:
    play = follow(alone(kafka), "cancel A")
    assert (play.now.leader, play.now.isr, play.now.assigned) == (-1, (2,), (0, 1))
    assert (play.log("C"), play.broken) == ("", set())
    follow(play, "reassign ABC, start B")
    assert play.now.leader == -1  # until a session ends
    follow(play, "stop B C")
    assert (play.now.leader, play.broken) == (2, {"acked-kept", "read-kept"})


@pytest.mark.parametrize("kafka", ["3.9.2", "4.4.0"])
def test_kraft_refuses_to_cancel_if_only_added_replicas_are_in_sync(kafka: str) -> None:
    play = alone(kafka)
    assert not any(play.can(f"cancel {broker}") for broker in "ABC")


def test_a_cancellation_moves_the_leader_from_an_added_replica() -> None:
    script = (
        "send A, fetch B, reassign AB, kill B, expire B B, reassign ABC, fetch C, fetch C, move C"
    )
    play = follow(Play.of("3.9.2", interrupts=True), script)
    assert (play.now.leader, play.log("C")) == (2, "m1")
    assert not play.can("cancel C")
    follow(play, "cancel A")
    assert (play.now.leader, play.now.assigned, play.log("C")) == (0, (0, 1), "")


def test_kraft_does_not_forget_what_was_to_be_removed() -> None:
    """The request for A, B and C removes no replica, so B is still to be removed."""
    play = Play.of("3.9.2", interrupts=True).do("send A, fetch B, fetch C, kill C, expire C C")
    play.do("learn A, reassign AC")
    assert not play.can("reassign ABC")  # it changes nothing
    play.do("start C, learn C, fetch C")
    assert (play.now.assigned, play.now.isr) == ((0, 2), (0, 2))


def test_interruptions_are_in_no_other_scope() -> None:
    usual, more = (Scope(reassignments=2, interrupts=on) for on in (False, True))
    rows = [{tuple(row) for row in moves(scope).tolist()} for scope in (usual, more)]
    assert rows[1] - rows[0] == {(int(Move.CANCEL), b, 0) for b in range(3)}
    assert rows[0] < rows[1]
    assert not Play.of("3.9.2").do("reassign AB, reassign ABC").can("reassign AC")


def test_before_kip_455_no_reassignment_is_interrupted() -> None:
    scope = Scope(reassignments=1, interrupts=True)
    assert ModelSettings(kafka="2.4.1", scope=scope).rules()
    with pytest.raises(UsageError, match=r"in Kafka 2\.1\.1 an operator cannot cancel"):
        ModelSettings(kafka="2.1.1", scope=scope).rules()


@pytest.mark.parametrize(("kafka", "states"), [("2.8.2", 1312), ("3.9.2", 662), ("4.4.0", 662)])
def test_a_scope_without_interruptions_has_the_states_of_before(kafka: str, states: int) -> None:
    """As counted before the model had interruptions."""
    assert reachable(kafka) == states


def reachable(kafka: str) -> int:
    """Count the states of a small scope with two reassignments."""
    none = dict.fromkeys(("failures", "moves", "late", "failovers", "wipes", "joins"), 0)
    bounds: dict[str, Any] = {"brokers": 2, "records": 1, "batch": 1, "reassignments": 2, **none}
    play = Play.of(kafka, **bounds)
    seen, rows = {play.vector.tobytes()}, moves(play.scope).tolist()
    new = [play.vector]
    while new:
        state = new.pop()
        for row in rows:
            after = state.copy()
            if apply(after, play.k, *row) and after.tobytes() not in seen:
                seen.add(after.tobytes())
                new.append(after)
    return len(seen)

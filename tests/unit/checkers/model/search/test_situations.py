"""Situations of the model's states, taken from whole blocks of them, are those of single states."""

import numpy as np
import pytest

from highwater.checkers.model.protocol.readable_state import State, decode
from highwater.checkers.model.protocol.scope import Scope
from highwater.checkers.model.search.kafka_model import ModelSettings
from highwater.checkers.model.search.situations import (
    LeaderState,
    Replica,
    situation,
    situations,
    texts,
)


def of_state(state: State) -> int:
    """The situation of one readable state."""

    def sign(one: int, other: int) -> int:
        return (one > other) - (one < other)

    answers = [
        replica.process == "up" and (not state.assigned or b in state.assigned)
        for b, replica in enumerate(state.replicas)
    ]
    leader = None if state.leader < 0 else state.replicas[state.leader]
    heard = leader is not None and leader.process == "up"
    others = []
    for b, replica in enumerate(state.replicas):
        ends: dict[str, int | None] = {}
        if leader is not None and heard and answers[b]:
            ends = {"leo": sign(replica.leo, leader.leo), "hw": sign(replica.hw, leader.hw)}
        if b != state.leader:
            others.append(Replica(in_isr=b in state.isr, answers=answers[b], **ends))
    if leader is None:
        return situation(LeaderState.NONE, others)
    if not heard:
        return situation(LeaderState.SILENT, others)
    committed = leader.hw == leader.leo
    return situation(LeaderState.COMMITTED if committed else LeaderState.UNCOMMITTED, others)


@pytest.mark.parametrize("kafka", ["1.1.1", "4.4.0"])
@pytest.mark.parametrize(
    "scope",
    [
        Scope(failures=2),
        Scope(failures=2, reassignments=1),
        Scope(failures=2, brokers=2, records=3),
    ],
)
def test_a_block_of_states_has_the_situations_of_its_states(kafka: str, scope: Scope) -> None:
    machine = ModelSettings(kafka=kafka, scope=scope).machine()
    random = np.random.default_rng(7)
    state, walk = machine.initial, []
    for _ in range(3000):
        row = random.choice(machine.moves)
        after = state.copy()
        state = after if machine.laws.apply(after, machine.constants, *row) else state
        state = machine.initial if random.random() < 0.02 else state
        walk.append(state)
    singles = {of_state(decode(state, machine.constants)) for state in walk}
    found = situations(np.stack(walk), scope.brokers)
    assert found.keys() == singles
    assert {of_state(decode(walk[row], machine.constants)) for row in found.values()} == singles
    assert len(singles) > 12


def test_every_replica_has_a_code_of_its_own() -> None:
    ends = [(leo, hw) for leo in (-1, 0, 1) for hw in (-1, 0, 1)]
    replicas = [
        Replica(in_isr=in_isr, answers=answers, **seen)
        for in_isr in (True, False)
        for answers, seen in [
            (False, {}),
            (True, {}),
            *((True, {"leo": leo, "hw": hw}) for leo, hw in ends),
        ]
    ]
    assert [Replica.of(one.code) for one in replicas] == replicas
    assert len({one.code for one in replicas}) == len(replicas) == 22


def test_a_situation_is_told_without_the_brokers_names() -> None:
    behind = Replica(in_isr=False, answers=True, leo=-1, hw=0)
    silent = Replica(in_isr=True, answers=False)
    number = situation(LeaderState.UNCOMMITTED, [behind, silent])
    assert number == situation(LeaderState.UNCOMMITTED, [silent, behind])
    assert texts(number) == (
        "HW < LEO",
        "in the ISR, does not answer",
        "outside of the ISR, LEO <, HW =",
    )
    assert texts(situation(LeaderState.NONE, [Replica(in_isr=True, answers=True)])) == (
        "none",
        "in the ISR, answers",
    )

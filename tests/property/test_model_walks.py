"""Random walks on the model: what holds in every state, whichever moves led to it.

A walk is a list of numbers; each chooses one of the moves that are possible then.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.checkers.model.protocol.compiled import State
from highwater.checkers.model.protocol.invariants import INVARIANTS, broken
from highwater.checkers.model.protocol.rules_by_release import RELEASES
from highwater.checkers.model.protocol.scope import Scope
from highwater.checkers.model.search.kafka_model import ModelSettings
from highwater.checkers.model.search.machine import Machine
from highwater.checkers.model.search.symmetry import canonical, rename, signature
from highwater.harness.releases.catalogue import CATALOGUE

WALKS = settings(max_examples=40, deadline=None)
choices = st.lists(st.integers(0, 10**6), min_size=5, max_size=50)
scopes = st.builds(
    Scope,
    brokers=st.sampled_from([2, 3]),
    records=st.integers(1, 3),
    failures=st.integers(0, 2),
    moves=st.integers(0, 3),
    late=st.integers(0, 1),
    batch=st.integers(1, 3),
    failovers=st.integers(0, 1),
    wipes=st.integers(0, 1),
    joins=st.integers(0, 1),
    reassignments=st.integers(0, 2),
    acks=st.sampled_from(["1", "all"]),
    min_isr=st.sampled_from([1, 2]),
    unclean=st.booleans(),
    by_hand=st.booleans(),
    interrupts=st.booleans(),
    by=st.sampled_from(["message", "round"]),
)
machines = st.builds(
    lambda kafka, scope: ModelSettings(
        kafka=kafka,
        scope=scope
        if CATALOGUE[kafka].elects_by_hand
        else replace(scope, by_hand=False, interrupts=False),
    ).machine(),
    st.sampled_from(list(RELEASES)),
    scopes,
)


def walk(machine: Machine, chosen: Sequence[int]) -> Iterator[State]:
    """The states on a walk, the first included."""
    state = machine.initial
    yield state
    rows = machine.moves.tolist()
    for number in chosen:
        first = number % len(rows)
        for kind, a, b in (*rows[first:], *rows[:first]):
            after = state.copy()
            if machine.laws.apply(after, machine.constants, kind, a, b):
                state = after
                yield state
                break
        else:
            return


def breaks(machine: Machine, state: State) -> set[str]:
    mask = broken(state, machine.constants)
    return {name for name, one in INVARIANTS.items() if mask >> one.bit & 1}


@WALKS
@given(machine=machines, chosen=choices)
def test_every_value_stays_one_that_it_can_have(machine: Machine, chosen: list[int]) -> None:
    for state in walk(machine, chosen):
        assert breaks(machine, state).isdisjoint({"type-ok", "leader-in-isr"})


@WALKS
@given(machine=machines, chosen=choices)
def test_no_move_is_refused_that_can_be_taken(machine: Machine, chosen: list[int]) -> None:
    """What the search looks at before it copies a state never hides a move."""
    for state in walk(machine, chosen):
        for kind, a, b in machine.moves.tolist():
            if machine.laws.apply(state.copy(), machine.constants, kind, a, b):
                assert machine.laws.possible(state, machine.constants, kind, a)


@WALKS
@given(machine=machines, chosen=choices)
def test_the_names_of_brokers_do_not_matter(machine: Machine, chosen: list[int]) -> None:
    """A state and its renamings break the same, and are one shape.

    They are one canonical state too, unless two brokers tie in all that is not a name.
    """
    n = int(machine.constants[0])
    *_, state = walk(machine, chosen)
    forms, ties = set(), len({signature(forgotten(machine, state), b) for b in range(n)}) < n
    for order in permutations(range(n)):
        other, form = state.copy(), state.copy()
        rename(other, n, *(*order, 2)[:3])
        assert breaks(machine, other) == breaks(machine, state)
        canonical(other, form, machine.constants)
        forms.add(form.tobytes())
    assert ties or len(forms) == 1


def forgotten(machine: Machine, state: State) -> State:
    """A state without its old decisions: canonical, which only renames it besides."""
    form = state.copy()
    canonical(state, form, machine.constants)
    return form


@WALKS
@given(machine=machines, chosen=choices)
def test_what_is_canonical_stays_so(machine: Machine, chosen: list[int]) -> None:
    for state in walk(machine, chosen):
        once = forgotten(machine, state)
        assert forgotten(machine, once).tobytes() == once.tobytes()
        assert breaks(machine, once) == breaks(machine, state)


@pytest.mark.parametrize("kafka", ["3.9.2-zk", "4.3.1"])
@WALKS
@given(chosen=choices)
def test_the_newest_releases_agree_below_their_high_watermarks(
    kafka: str, chosen: list[int]
) -> None:
    """Without unclean elections, message by message, answers late or not.

    With KRaft that takes one rule that no release has, see ``elected_again_is_new``.
    """
    scope = Scope(records=3, failures=2, moves=3, late=1)
    machine = ModelSettings(
        kafka=kafka, scope=scope, switched={"elected_again_is_new": True}
    ).machine()
    for state in walk(machine, chosen):
        assert "agree-below-hw" not in breaks(machine, state)

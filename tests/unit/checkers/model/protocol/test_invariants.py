"""Every invariant: what breaks it, and that nothing does before."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from highwater.checkers.model.protocol.invariants import INVARIANTS, at_rest
from highwater.checkers.model.protocol.state_layout import (
    APPLIED_DECISION,
    HW,
    LEO,
    MAX_RECORDS,
    put,
    set_isr,
)
from tests.support.model_dsl import Play

TWO = {"brokers": 2}
LOSS = (
    "send A, fetch B, fetch B, move B, learn B, move A, learn A, learn A, learn B, move B, learn B"
)
"""0.10: B cuts off what A has committed, and is elected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Moves of which the last is the first to break an invariant."""

    invariant: str
    kafka: str
    script: str
    switched: Mapping[str, bool] = field(default_factory=dict)
    bounds: Mapping[str, Any] = field(default_factory=lambda: TWO)


CASES = (
    Case(invariant="acked-kept", kafka="0.10.2.2", script=LOSS),
    Case(invariant="read-kept", kafka="0.10.2.2", script=LOSS),
    Case(
        invariant="read-once", kafka="0.10.2.2",
        script=f"{LOSS}, send B, learn A, fetch A",
    ),
    Case(
        invariant="agree-below-hw", kafka="0.10.2.2",
        script=f"{LOSS}, send B, send B, learn A, fetch A, fetch A",
    ),
    Case(
        invariant="log-matching", kafka="2.0.0",
        script="send A, send A, move B, learn B, send B, send B, move A, learn A, learn A, send A"
        ", learn B, truncate B, fetch B",
    ),
    Case(
        invariant="agree-at-rest", kafka="2.0.0",
        script="send A, send A, move B, learn B, send B, send B, move A, learn A, learn A, send A"
        ", learn B, truncate B, fetch B, fetch B, fetch B",
    ),
    Case(
        invariant="weak-isr", kafka="0.10.2.2",
        script="send A, fetch B, fetch B, move B, learn B, move A, learn A, learn A, learn B",
    ),
    Case(
        invariant="strong-isr", kafka="0.10.2.2",
        script="send A, fetch B, fetch B, move B, learn B, move A, learn A, learn A, learn B",
    ),
    Case(
        invariant="leader-live", kafka="4.0.2", bounds={**TWO, "min_isr": 2},
        script="kill B, expire B B, learn A, kill A, expire A A, start A, kill A, expire A A"
        ", start B",
        switched={"elr": True},
    ),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.invariant)
def test_the_last_move_breaks_it_and_none_before(case: Case) -> None:
    play = Play.of(case.kafka, case.switched, **case.bounds)
    *before, last = case.script.split(",")
    for move in before:
        play.do(move)
        assert case.invariant not in play.broken, move
    assert case.invariant in play.do(last).broken


@pytest.mark.parametrize("name", INVARIANTS)
def test_at_the_beginning_all_hold(name: str) -> None:
    assert INVARIANTS[name].says.endswith(".") or name == "type-ok"
    assert name not in Play.of("0.9.0.1").broken


def test_a_leader_outside_of_the_isr_is_seen() -> None:
    play = Play.of("4.3.1")
    set_isr(play.vector, 0, 0b110)
    assert play.broken == {"leader-in-isr"}


@pytest.mark.parametrize(
    ("field", "value"),
    [(HW, 1), (HW, -1), (LEO, MAX_RECORDS + 1), (APPLIED_DECISION, 1), (APPLIED_DECISION, -2)],
)
def test_a_value_that_cannot_be_is_seen(field: int, value: int) -> None:
    play = Play.of("4.3.1")
    put(play.vector, 1, field, value)
    assert "type-ok" in play.broken


def test_more_decisions_than_there_is_room_for_are_seen() -> None:
    play = Play.of("4.3.1").do("move B, move A, " * 4 + "move B")
    play.do("kill C, expire C C, kill A, expire A A, kill B")
    assert not play.broken
    assert "type-ok" in play.do("expire B B").broken


def test_an_isr_that_only_the_controller_keeps_is_strong_and_not_weak() -> None:
    """The leader has not heard that C is in the ISR, and has committed what C lacks."""
    play = Play.of("2.0.1")
    play.do("lag A C, send A, fetch B, fetch B")
    set_isr(play.vector, 0, 0b111)
    assert play.broken == {"strong-isr"}


def test_at_rest_everybody_has_committed_all() -> None:
    play = Play.of("4.3.1").do("send A, fetch B, fetch C")
    for move in ("fetch B", "fetch C", "fetch B", "fetch C"):
        assert not at_rest(play.vector, play.k)
        play.do(move)
    assert at_rest(play.vector, play.k)
    assert not play.broken
    assert not at_rest(play.do("pause C").vector, play.k)

"""The command that finds a counterexample again asks the same question.

The same release, bounds, switches and invariant: what is printed is parsed, and compared.
"""

import shlex
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from highwater.checkers.model.protocol.invariants import INVARIANTS
from highwater.checkers.model.protocol.rules_by_release import Rules
from highwater.checkers.model.protocol.scope import ACKS, BOUNDS, Scope
from highwater.checkers.model.search import result
from highwater.checkers.model.search.kafka_model import Counterexample, ModelSettings
from highwater.cli.app import app


@st.composite
def scopes(draw: st.DrawFn) -> Scope:
    drawn: dict[str, Any] = {name: draw(st.integers(*bounds)) for name, bounds in BOUNDS.items()}
    drawn["min_isr"] = draw(st.integers(1, drawn["brokers"]))
    drawn["acks"] = draw(st.sampled_from(ACKS))
    drawn["by"] = draw(st.sampled_from(("message", "round")))
    for field in fields(Scope):
        if isinstance(field.default, bool):
            drawn[field.name] = draw(st.booleans())
    assert drawn.keys() == {field.name for field in fields(Scope)}
    return Scope(**drawn)


class AskedError(Exception):
    """The search is not begun: this is its question."""


def asked(command: str) -> tuple[ModelSettings, tuple[str, ...]]:
    """The question of a command, as its search is given it."""

    def refuse(settings: ModelSettings, invariants: tuple[str, ...], **_: object) -> None:
        raise AskedError(settings, invariants)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(result, "search", refuse)
        program, *words = shlex.split(command)
        assert program == "highwater"
        error = CliRunner().invoke(app, words).exception
    assert isinstance(error, AskedError), error
    return error.args


@given(
    scopes(),
    st.sampled_from(["4.4.0", "3.9.2-zk"]),
    st.sampled_from(sorted(INVARIANTS)),
    st.dictionaries(st.sampled_from([field.name for field in fields(Rules)]), st.booleans()),
)
def test_the_command_of_a_counterexample_asks_the_same(
    scope: Scope, kafka: str, invariant: str, switched: dict[str, bool]
) -> None:
    counterexample = Counterexample(
        kafka=kafka, scope=scope, switched=switched, invariant=invariant,
        says="", shortest=True, steps=(),
    )  # fmt: skip
    assert asked(counterexample.command) == (counterexample.settings, (invariant,))

"""A way to break an invariant, step by step, as a file."""

from collections.abc import Mapping
from dataclasses import fields
from typing import ClassVar, Final

import msgspec

from highwater.checkers.model.protocol.invariants import INVARIANTS
from highwater.checkers.model.protocol.moves import OF_TWO, ROUNDS, Move
from highwater.checkers.model.protocol.readable_state import State, decode
from highwater.checkers.model.protocol.scope import Scope
from highwater.checkers.model.protocol.step_sentences import says
from highwater.checkers.model.schedules.model_file import FORMAT, ModelFile
from highwater.checkers.model.search.kafka_model import ModelSettings
from highwater.checkers.model.search.paths import PathStep
from highwater.checkers.model.search.paths import replayed

_SETTINGS: Final = ("acks", "min_isr")
_ALWAYS: Final = (*_SETTINGS, "brokers", "records", "failures", "moves", "late")
"""Bounds that the command names whatever they are."""


class CounterexampleStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One move.

    Attributes:
        move: its kind, as ``moves.Move`` calls it, in lower case.
        brokers: the broker of the move, and the other broker that it names, if any, or of a batch
            the number of records; in a round all that run; of a reassignment the new replicas.
        after: the state after it.
    """

    move: str
    brokers: tuple[int, ...]
    says: str
    after: State

    def numbers(self) -> tuple[int, int, int]:
        """Its kind and brokers, as arguments of the rules."""
        kind = Move[self.move.upper()]
        if kind in ROUNDS or kind == Move.REASSIGN:
            mask = sum(1 << broker for broker in set(self.brokers))
            return int(kind), mask, self.brokers[0] if kind == Move.REASSIGN else 0
        a, b = (*self.brokers, 0, 0)[:2]
        return int(kind), a, b


class Counterexample(ModelFile, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A way to break an invariant of a release within a scope.

    Attributes:
        kafka: the release whose rules hold.
        switched: rules changed from those of the release.
        invariant: broken by the last step, and by no step before it.
        says: the invariant as a sentence.
        shortest: whether a search has shown that there is no shorter one.
    """

    kind: ClassVar[str] = "counterexample"
    found_by: ClassVar[str] = "highwater model explore --out FILE"

    format: int = FORMAT
    kafka: str
    scope: Scope
    switched: Mapping[str, bool] = {}
    invariant: str
    says: str
    shortest: bool
    steps: tuple[CounterexampleStep, ...]

    @property
    def name(self) -> str:
        """The name of its schedule."""
        return f"{self.invariant} on {self.kafka}"

    @property
    def settings(self) -> ModelSettings:
        """The model of its search."""
        return ModelSettings(kafka=self.kafka, scope=self.scope, switched=self.switched)

    @property
    def command(self) -> str:
        """The command that finds it again."""
        words = ["highwater model explore", f"--kafka {self.kafka}"]
        words += [f"--invariant {self.invariant}"]
        for bound in sorted(fields(Scope), key=lambda field: field.name not in _SETTINGS):
            value, option = getattr(self.scope, bound.name), bound.name.replace("_", "-")
            if value is True or value is False:
                words += [] if value is bound.default else [f"--{'' if value else 'no-'}{option}"]
            elif value != bound.default or bound.name in _ALWAYS:
                words.append(f"--{option} {value}")
        words += [f"--rule {name}={'on' if on else 'off'}" for name, on in self.switched.items()]
        return " ".join(words)

    def replay(self) -> tuple[PathStep, ...] | None:
        """Return its states by the rules of today; None if it no longer breaks the invariant.

        Raises:
            UsageError: a release, rule, move or invariant that the model does not know.
        """
        return replayed(self.settings.machine(), self.steps, self.invariant)


def counterexample(
    setting: ModelSettings, invariant: str, leaps: tuple[PathStep, ...], *, shortest: bool
) -> Counterexample:
    """Put a path into words."""
    machine = setting.machine()
    before, steps = machine.initial, []
    for leap in leaps:
        kind, a, b = leap.move
        steps.append(
            CounterexampleStep(
                move=Move(kind).name.lower(),
                brokers=_brokers(Move(kind), a, b),
                says=says(kind, a, b, before, leap.after),
                after=decode(leap.after, machine.constants),
            )
        )
        before = leap.after
    return Counterexample(
        kafka=setting.kafka,
        scope=setting.scope,
        switched=dict(setting.switched),
        invariant=invariant,
        says=INVARIANTS[invariant].says,
        shortest=shortest,
        steps=tuple(steps),
    )


def _brokers(kind: Move, a: int, b: int) -> tuple[int, ...]:
    if kind in ROUNDS:
        return tuple(number for number in range(8) if (a >> number) & 1)
    if kind == Move.REASSIGN:
        return (b, *(number for number in range(8) if (a >> number) & 1 and number != b))
    if kind == Move.FAILOVER:
        return ()
    return (a, b) if kind in OF_TWO or kind == Move.BATCH else (a,)

"""A way to break an invariant, step by step, as a file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

import msgspec

from highwater.checkers.model.protocol.invariants import INVARIANTS
from highwater.checkers.model.protocol.moves import OF_TWO, ROUNDS, Move
from highwater.checkers.model.protocol.readable_state import State, decode
from highwater.checkers.model.protocol.scope import Scope
from highwater.checkers.model.protocol.step_sentences import says
from highwater.checkers.model.search.kafka_model import ModelSettings
from highwater.checkers.model.search.paths import PathStep
from highwater.checkers.model.search.random_walks import play
from highwater.harness.base.errors import StoreError, UsageError

FORMAT: Final = 1
"""Version of the file; it changes when an older reader would misunderstand a newer one."""


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


class Counterexample(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A way to break an invariant of a release within a scope.

    Attributes:
        kafka: the release whose rules hold.
        switched: rules changed from those of the release.
        invariant: broken by the last step, and by no step before it.
        says: the invariant as a sentence.
        shortest: whether a search has shown that there is no shorter one.
    """

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
    def setting(self) -> ModelSettings:
        """The model of its search."""
        return ModelSettings(kafka=self.kafka, scope=self.scope, switched=self.switched)

    def to_json(self) -> bytes:
        """Return the counterexample as a file holds it."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n"

    @classmethod
    def from_json(cls, text: bytes) -> Self:
        """Read a file's content.

        Raises:
            UsageError: it is of another format, or no counterexample at all.
        """
        try:
            version = msgspec.json.decode(text, type=_FormatOnly).format
            if version == FORMAT:
                return msgspec.json.decode(text, type=cls)
        except msgspec.MsgspecError as error:
            raise UsageError(
                f"this is no counterexample: {error}",
                hint="highwater model explore --out FILE writes one.",
            ) from error
        raise UsageError(
            f"the counterexample has format {version}; this is format {FORMAT}",
            hint="Find it again with this release of Highwater: highwater model explore --out FILE",
        )

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a file.

        Raises:
            StoreError: it cannot be read.
            UsageError: as ``from_json``.
        """
        try:
            return cls.from_json(path.read_bytes())
        except OSError as error:
            raise StoreError(f"{path} cannot be read: {error.strerror}") from error

    def replay(self) -> tuple[PathStep, ...] | None:
        """Return its states by the rules of today; None if it no longer breaks the invariant.

        Raises:
            UsageError: a release, rule, move or invariant that the model does not know.
        """
        machine = self.setting.machine()
        try:
            moves = [step.numbers() for step in self.steps]
            bit = machine.invariants[self.invariant]
        except KeyError as error:
            raise UsageError(f"the model does not know {error}") from error
        leaps = play(machine, moves, bit)
        return leaps if leaps is not None and len(leaps) == len(moves) else None


class _FormatOnly(msgspec.Struct):
    format: int


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

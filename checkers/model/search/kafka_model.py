"""The model of replication: the settings of a search, and the file of a counterexample."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import permutations
from typing import ClassVar, Final

import msgspec
import numpy as np

from highwater.checkers.model.protocol.compiled import State
from highwater.checkers.model.protocol.invariants import INVARIANTS, broken, overflowed
from highwater.checkers.model.protocol.moves import (
    OF_TWO,
    ROUNDS,
    Move,
    apply,
    apply_alone,
    moves,
    possible,
)
from highwater.checkers.model.protocol.readable_state import State as ReadableState
from highwater.checkers.model.protocol.readable_state import decode, members
from highwater.checkers.model.protocol.rules_by_release import Rules, rules_of
from highwater.checkers.model.protocol.scope import Scope, constants, initial
from highwater.checkers.model.protocol.step_sentences import says
from highwater.checkers.model.search.machine import Machine, MachineFunctions
from highwater.checkers.model.search.model_file import FORMAT, ModelFile
from highwater.checkers.model.search.paths import PathStep, replayed, transitions
from highwater.checkers.model.search.questions import invariants_by_name, switch
from highwater.checkers.model.search.situations import situation_of, situations, texts
from highwater.checkers.model.search.symmetry import canonical, rename
from highwater.harness.base.errors import UsageError
from highwater.harness.releases.catalogue import CATALOGUE

_LAWS: Final = {
    "message": MachineFunctions(
        apply=apply_alone, canonical=canonical, broken=broken, possible=possible
    ),
    "round": MachineFunctions(apply=apply, canonical=canonical, broken=broken, possible=possible),
}
"""The functions that a search compiles, by its kind of step: message or round. A search by messages
compiles no rounds."""

PROMISES: Final = tuple(name for name, invariant in INVARIANTS.items() if invariant.promise)

_SETTINGS: Final = ("acks", "min_isr")
_ALWAYS: Final = (*_SETTINGS, "brokers", "records", "failures", "moves", "late")
"""The options that ``Counterexample.command`` names even if their values are the defaults."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """The settings of a model: its release and its bounds.

    Attributes:
        kafka: a release that the model knows.
        switched: the rules that differ from the release's rules, by name.
    """

    kafka: str
    scope: Scope = field(default_factory=Scope)
    switched: Mapping[str, bool] = field(default_factory=dict)

    @property
    def client(self) -> msgspec.UnsetType:
        """Unset, because only the model of transactions has a client library."""
        return msgspec.UNSET

    def rules(self) -> Rules:
        """Return the rules of the release, with the switched rules.

        Raises:
            UsageError: the model does not know the release or a rule. Or the scope allows unclean
                elections by an operator or interrupted reassignments, and the release does not.
        """
        rules = rules_of(self.kafka)
        if self.scope.by_hand and not CATALOGUE[self.kafka].elects_by_hand:
            raise UsageError(
                f"in Kafka {self.kafka} an operator cannot request an unclean election",
                hint="Choose 2.4 or a later release (KIP-460).",
            )
        if self.scope.interrupts and not CATALOGUE[self.kafka].interrupts_reassignments:
            raise UsageError(
                f"in Kafka {self.kafka} an operator cannot cancel or replace a reassignment",
                hint="Choose 2.4 or a later release (KIP-455).",
            )
        return switch(rules, self.switched, Rules.__dataclass_fields__, "rule")

    def machine(self) -> Machine:
        """Return the model as a machine for the search. Raises the errors of ``rules``."""
        return Machine(
            laws=_LAWS[self.scope.by],
            moves=moves(self.scope).astype(np.int64),
            constants=constants(self.scope, self.rules()),
            initial=initial(self.scope),
            invariants={name: invariant.bit for name, invariant in INVARIANTS.items()},
            overflowed=overflowed,
            renamed=_renamer(self.scope.brokers),
        )

    def says(self, invariant: str) -> str:
        """Return an invariant as a sentence."""
        if situation := situation_of(invariant):
            leader, *others = texts(situation)
            return (
                f"The partition is never in this situation: leader {leader}; {'; '.join(others)}."
            )
        return INVARIANTS[invariant].says

    def counterexample(self, invariant: str, path: Sequence[PathStep]) -> "Counterexample":
        """Return the counterexample of a shortest path that breaks an invariant."""
        machine = self.machine()
        return Counterexample(
            kafka=self.kafka,
            scope=self.scope,
            switched=dict(self.switched),
            invariant=invariant,
            says=self.says(invariant),
            shortest=True,
            steps=tuple(
                CounterexampleStep(
                    move=Move(kind).name.lower(),
                    brokers=_brokers(Move(kind), a, b),
                    says=says(kind, a, b, before, after),
                    after=decode(after, machine.constants),
                )
                for (kind, a, b), before, after in transitions(machine, path)
            ),
        )


class CounterexampleStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One move of a counterexample.

    Attributes:
        move: the name of the move's kind in ``moves.Move``, in lower case.
        brokers: the broker of the move, and its second broker, if any. For a batch the second
            number is the number of records. For a round these are the brokers that run; for a
            reassignment, the new replicas.
        after: the state after the move.
    """

    move: str
    brokers: tuple[int, ...]
    says: str
    after: ReadableState

    def numbers(self) -> tuple[int, int, int]:
        """Return the kind and the brokers of the move as arguments of the rules."""
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
        switched: the rules that differ from the release's rules.
        invariant: the invariant that only the last step breaks; or the name of the situation to
            which the last step leads.
        says: the invariant as a sentence.
        shortest: whether a search has shown that there is no shorter counterexample.
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
        """The name of the schedule made from the counterexample."""
        return f"{self.invariant} on {self.kafka}"

    @property
    def settings(self) -> ModelSettings:
        """The settings of the model in which the search found the counterexample."""
        return ModelSettings(kafka=self.kafka, scope=self.scope, switched=self.switched)

    @property
    def command(self) -> str:
        """The command that finds the counterexample again."""
        words = [
            "highwater model explore",
            f"--kafka {self.kafka}",
            f"--invariant {self.invariant}",
        ]
        if situation_of(self.invariant):
            words = ["highwater model coverage --out DIR", f"--kafka {self.kafka}"]
        for bound in sorted(fields(Scope), key=lambda field: field.name not in _SETTINGS):
            value, option = getattr(self.scope, bound.name), bound.name.replace("_", "-")
            if value is True or value is False:
                words += [] if value is bound.default else [f"--{'' if value else 'no-'}{option}"]
            elif value != bound.default or bound.name in _ALWAYS:
                words.append(f"--{option} {value}")
        words += [f"--rule {name}={'on' if on else 'off'}" for name, on in self.switched.items()]
        return " ".join(words)

    def replay(self) -> tuple[PathStep, ...] | None:
        """Return the path under the present rules; None if the path no longer breaks the invariant.

        Raises:
            UsageError: the model does not know the release, a rule, a move or the invariant.
        """
        machine = self.settings.machine()
        return replayed(machine, self.steps, self.breach(machine))

    def breach(self, machine: Machine) -> Callable[[State], bool]:
        """Return a function that tests whether a state breaks the invariant or is in the situation.

        Raises:
            UsageError: the model does not know the invariant.
        """
        if situation := situation_of(self.invariant):
            brokers = self.scope.brokers
            return lambda state: situation in situations(state[None, :], brokers)
        return machine.breach(self.invariant)


def invariants(text: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the chosen invariants; ``promises`` chooses those that clients rely on.

    Raises the errors of ``invariants_by_name``.
    """
    return invariants_by_name(text, INVARIANTS, "invariant")


def _renamer(brokers: int) -> Callable[[State], Iterator[State]]:
    def every(state: State) -> Iterator[State]:
        for order in permutations(range(brokers)):
            first, second, third = (*order, 2)[:3]
            other = state.copy()
            rename(other, brokers, first, second, third)
            yield other

    return every


def _brokers(kind: Move, a: int, b: int) -> tuple[int, ...]:
    if kind in ROUNDS:
        return members(a)
    if kind == Move.REASSIGN:
        return (b, *(number for number in members(a) if number != b))
    if kind == Move.FAILOVER:
        return ()
    return (a, b) if kind in OF_TWO or kind == Move.BATCH else (a,)

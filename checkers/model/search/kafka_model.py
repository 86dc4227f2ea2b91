"""The model of a release as a machine that can be searched, and the questions to ask of it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import permutations
from typing import Final

import numpy as np

from highwater.checkers.model.protocol.compiled import State
from highwater.checkers.model.protocol.invariants import INVARIANTS, broken, overflowed
from highwater.checkers.model.protocol.moves import apply, apply_alone, moves, possible
from highwater.checkers.model.protocol.rules_by_release import Rules, rules_of
from highwater.checkers.model.protocol.scope import Scope, constants, initial
from highwater.checkers.model.search.machine import Machine, MachineFunctions
from highwater.checkers.model.search.questions import invariants_by_name, switch
from highwater.checkers.model.search.symmetry import canonical, rename
from highwater.harness.base.errors import UsageError
from highwater.harness.releases.catalogue import CATALOGUE

_LAWS: Final = {
    "message": MachineFunctions(
        apply=apply_alone, canonical=canonical, broken=broken, possible=possible
    ),
    "round": MachineFunctions(apply=apply, canonical=canonical, broken=broken, possible=possible),
}
"""The functions of a search, by its step: one by messages need not compile the rounds."""

PROMISES: Final = tuple(name for name, invariant in INVARIANTS.items() if invariant.promise)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """The settings of a model: its release and its bounds.

    Attributes:
        kafka: a release that the model knows. switched: rules changed from those of the release, by
            name.
    """

    kafka: str
    scope: Scope = field(default_factory=Scope)
    switched: Mapping[str, bool] = field(default_factory=dict)

    def rules(self) -> Rules:
        """Return the rules that hold.

        Raises:
            UsageError: the model knows no such release, or no such rule; or the release lacks what
                the scope has.
        """
        rules = rules_of(self.kafka)
        if self.scope.by_hand and not CATALOGUE[self.kafka].elects_by_hand:
            raise UsageError(
                f"Kafka {self.kafka} has no unclean elections by hand",
                hint="They came with 2.4 (KIP-460).",
            )
        return switch(rules, self.switched, Rules.__dataclass_fields__, "rule")

    def machine(self) -> Machine:
        """Return the model as a machine. Raises what ``rules`` raises."""
        return Machine(
            laws=_LAWS[self.scope.by],
            moves=moves(self.scope).astype(np.int64),
            constants=constants(self.scope, self.rules()),
            initial=initial(self.scope),
            invariants={name: invariant.bit for name, invariant in INVARIANTS.items()},
            overflowed=overflowed,
            renamed=_renamer(self.scope.brokers),
        )


def invariants(text: Iterable[str]) -> tuple[str, ...]:
    """Return invariants by name; ``promises`` are those that clients rely on.

    Raises what ``invariants_by_name`` raises.
    """
    groups = {"all": tuple(INVARIANTS), "promises": PROMISES}
    return invariants_by_name(text, groups, "invariant")


def _renamer(brokers: int) -> Callable[[State], Iterator[State]]:
    def every(state: State) -> Iterator[State]:
        for order in permutations(range(brokers)):
            first, second, third = (*order, 2)[:3]
            other = state.copy()
            rename(other, brokers, first, second, third)
            yield other

    return every

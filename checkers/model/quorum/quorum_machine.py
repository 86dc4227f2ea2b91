"""The model of the quorum: the settings of a search, and the file of a counterexample."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal

import msgspec

from highwater.checkers.model.quorum.quorum_invariants import QUORUM_INVARIANTS, broken_of
from highwater.checkers.model.quorum.quorum_moves import (
    QuorumMove,
    quorum_moves,
    take,
    unchanged_form,
)
from highwater.checkers.model.quorum.quorum_rules import (
    QUORUM_SWITCHES,
    QuorumRules,
    quorum_rules_of,
)
from highwater.checkers.model.quorum.quorum_scope import (
    QuorumScope,
    quorum_constants,
    quorum_initial,
)
from highwater.checkers.model.quorum.quorum_state import (
    ModelController,
    decode_quorum,
    says_quorum,
)
from highwater.checkers.model.search.machine import Machine, MachineFunctions
from highwater.checkers.model.search.model_file import FORMAT, ModelFile
from highwater.checkers.model.search.paths import PathStep, transitions
from highwater.checkers.model.search.questions import switch

QUORUM_LAWS: Final = MachineFunctions(apply=take, canonical=unchanged_form, broken=broken_of)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumSettings:
    """The settings of a search of the quorum: a release and bounds.

    Attributes:
        switched: rules that differ from those of the release, by name.
    """

    kafka: str
    scope: QuorumScope = field(default_factory=QuorumScope)
    switched: Mapping[str, bool] = field(default_factory=dict)

    @property
    def client(self) -> msgspec.UnsetType:
        """Unset, because controllers have no client library."""
        return msgspec.UNSET

    def rules(self) -> QuorumRules:
        """Return the rules of the release, with the switched rules.

        Raises:
            UsageError: the model does not know the release or a rule.
        """
        return switch(quorum_rules_of(self.kafka), self.switched, QUORUM_SWITCHES, "quorum rule")

    def machine(self) -> Machine:
        """Return the model as a machine. Raises the errors of ``rules``."""
        return Machine(
            laws=QUORUM_LAWS,
            moves=quorum_moves(self.scope),
            constants=quorum_constants(self.scope, self.rules()),
            initial=quorum_initial(self.scope, self.rules()),
            invariants={name: invariant.bit for name, invariant in QUORUM_INVARIANTS.items()},
        )

    def says(self, invariant: str) -> str:
        """Return an invariant as a sentence."""
        return QUORUM_INVARIANTS[invariant].says

    def counterexample(self, invariant: str, path: Sequence[PathStep]) -> "QuorumCounterexample":
        """Return the counterexample of a shortest path that breaks an invariant."""
        return QuorumCounterexample(
            kafka=self.kafka,
            scope=self.scope,
            switched=dict(self.switched),
            invariant=invariant,
            says=self.says(invariant),
            steps=tuple(
                QuorumStep(
                    move=QuorumMove(kind).name.lower(),
                    arguments=(a, b),
                    says=says_quorum(kind, a, b, before, after),
                    after=decode_quorum(after),
                )
                for (kind, a, b), before, after in transitions(self.machine(), path)
            ),
        )


class QuorumStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One move: its name (``QuorumMove``), its arguments, and the controllers after it."""

    move: str
    arguments: tuple[int, int]
    says: str
    after: tuple[ModelController, ...]


class QuorumCounterexample(ModelFile, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A shortest path that breaks an invariant of the quorum within a scope."""

    kind: ClassVar[str] = "counterexample of the quorum"
    found_by: ClassVar[str] = "highwater model explore --quorum --out FILE"

    model: Literal["quorum"] = "quorum"
    format: int = FORMAT
    kafka: str
    scope: QuorumScope
    switched: Mapping[str, bool] = {}
    invariant: str
    says: str
    steps: tuple[QuorumStep, ...]

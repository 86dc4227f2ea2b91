"""The model of transactions: the settings of a search, and the file of a counterexample."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal

import msgspec

from highwater.checkers.model.search.machine import Machine, MachineFunctions
from highwater.checkers.model.search.model_file import FORMAT, ModelFile
from highwater.checkers.model.search.paths import PathStep, replayed, transitions
from highwater.checkers.model.search.questions import switch
from highwater.checkers.model.transactions.transaction_invariants import (
    TRANSACTION_INVARIANTS,
    broken_of,
    overflowed,
)
from highwater.checkers.model.transactions.transaction_messages import in_form
from highwater.checkers.model.transactions.transaction_moves import (
    TransactionMove,
    is_possible,
    take,
    transaction_moves,
)
from highwater.checkers.model.transactions.transaction_rules import (
    TRANSACTION_SWITCHES,
    TransactionRules,
    transaction_rules_of,
)
from highwater.checkers.model.transactions.transaction_scope import (
    TransactionScope,
    transaction_constants,
    transaction_initial,
)
from highwater.checkers.model.transactions.transaction_sentences import says_transaction
from highwater.checkers.model.transactions.transaction_state import (
    TransactionState,
    decode_transactions,
)

TRANSACTION_LAWS: Final = MachineFunctions(
    apply=take, canonical=in_form, broken=broken_of, possible=is_possible
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """The settings of a search of transactions: a release, a client and bounds.

    Attributes:
        switched: rules that differ from those of the release and the client, by name.
    """

    kafka: str
    client: str = "librdkafka"
    scope: TransactionScope = field(default_factory=TransactionScope)
    switched: Mapping[str, bool] = field(default_factory=dict)

    def rules(self) -> TransactionRules:
        """Return the rules of the release and the client, with the switched rules.

        Raises:
            UsageError: the model does not know the release, the client or a rule.
        """
        rules = transaction_rules_of(self.kafka, self.client)
        return switch(rules, self.switched, TRANSACTION_SWITCHES, "rule of transactions")

    def machine(self) -> Machine:
        """Return the model as a machine. Raises the errors of ``rules``."""
        return Machine(
            laws=TRANSACTION_LAWS,
            moves=transaction_moves(self.scope),
            constants=transaction_constants(self.scope, self.rules()),
            initial=transaction_initial(),
            invariants={name: invariant.bit for name, invariant in TRANSACTION_INVARIANTS.items()},
            overflowed=overflowed,
        )

    def says(self, invariant: str) -> str:
        """Return an invariant as a sentence."""
        return TRANSACTION_INVARIANTS[invariant].says

    def counterexample(
        self, invariant: str, path: Sequence[PathStep]
    ) -> "TransactionCounterexample":
        """Return the counterexample of a shortest path that breaks an invariant."""
        machine = self.machine()
        return TransactionCounterexample(
            kafka=self.kafka,
            client=self.client,
            scope=self.scope,
            switched=dict(self.switched),
            invariant=invariant,
            says=self.says(invariant),
            shortest=True,
            steps=tuple(
                TransactionStep(
                    move=TransactionMove(kind).name.lower(),
                    arguments=(a, b),
                    says=says_transaction(kind, a, b, before, after),
                    after=decode_transactions(after, machine.constants),
                )
                for (kind, a, b), before, after in transitions(machine, path)
            ),
        )


class TransactionStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One move: its name (``TransactionMove``), its arguments, and the state after it."""

    move: str
    arguments: tuple[int, int]
    says: str
    after: TransactionState

    def numbers(self) -> tuple[int, int, int]:
        """Return the kind and the arguments of the move as arguments of the rules."""
        return (int(TransactionMove[self.move.upper()]), *self.arguments)


class TransactionCounterexample(ModelFile, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A path that breaks an invariant with a release and a client, within a scope.

    Attributes:
        model: the word that marks the file as a counterexample of transactions.
        switched: rules that differ from those of the release and the client.
        invariant: the invariant that only the last step breaks.
        says: the invariant as a sentence.
        shortest: whether a search has shown that there is no shorter counterexample.
    """

    kind: ClassVar[str] = "counterexample of transactions"
    found_by: ClassVar[str] = "highwater model explore --transactions --out FILE"

    model: Literal["transactions"] = "transactions"
    format: int = FORMAT
    kafka: str
    client: str
    scope: TransactionScope
    switched: Mapping[str, bool] = {}
    invariant: str
    says: str
    shortest: bool
    steps: tuple[TransactionStep, ...]

    @property
    def settings(self) -> TransactionSettings:
        """The settings of the model in which the search found the counterexample."""
        return TransactionSettings(
            kafka=self.kafka, client=self.client, scope=self.scope, switched=self.switched
        )

    @property
    def headline(self) -> str:
        """The broken invariant, with the release and the client."""
        return f"{self.invariant} on Kafka {self.kafka} with {self.client}"

    def replay(self) -> tuple[PathStep, ...] | None:
        """Return the path under the present rules; None if the path no longer breaks the invariant.

        Raises:
            UsageError: the model does not know the release, a rule, a move or the invariant.
        """
        machine = self.settings.machine()
        return replayed(machine, self.steps, machine.breach(self.invariant))

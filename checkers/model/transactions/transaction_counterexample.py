"""A way to break an invariant of transactions, step by step, as a file."""

from collections.abc import Mapping
from typing import ClassVar, Literal

import msgspec

from highwater.checkers.model.schedules.model_file import FORMAT, ModelFile
from highwater.checkers.model.search.paths import PathStep
from highwater.checkers.model.search.paths import replayed
from highwater.checkers.model.transactions.transaction_invariants import TRANSACTION_INVARIANTS
from highwater.checkers.model.transactions.transaction_machine import TransactionSettings
from highwater.checkers.model.transactions.transaction_moves import TransactionMove
from highwater.checkers.model.transactions.transaction_scope import TransactionScope
from highwater.checkers.model.transactions.transaction_sentences import says_transaction
from highwater.checkers.model.transactions.transaction_state import (
    TransactionState,
    decode_transactions,
)


class TransactionStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One move: its kind as ``TransactionMove`` has it, its arguments, and the state after it."""

    move: str
    arguments: tuple[int, int]
    says: str
    after: TransactionState

    def numbers(self) -> tuple[int, int, int]:
        """Its kind and arguments, as arguments of the rules."""
        return (int(TransactionMove[self.move.upper()]), *self.arguments)


class TransactionCounterexample(ModelFile, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A way to break an invariant with a release and a client, within a scope.

    Attributes:
        model: tells such a file from a counterexample of replication.
        switched: rules changed from those of the release and the client.
        invariant: broken by the last step, and by no step before it.
        says: the invariant as a sentence.
        shortest: whether a search has shown that there is no shorter one.
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
        """The model of its search."""
        return TransactionSettings(
            kafka=self.kafka, client=self.client, scope=self.scope, switched=self.switched
        )

    @property
    def headline(self) -> str:
        """The broken invariant, where, and in how many steps."""
        return f"{self.invariant} on Kafka {self.kafka} with {self.client}"

    def replay(self) -> tuple[PathStep, ...] | None:
        """Return its states by the rules of today; None if it no longer breaks the invariant.

        Raises:
            UsageError: a release, rule, move or invariant that the model does not know.
        """
        return replayed(self.settings.machine(), self.steps, self.invariant)


def transaction_counterexample(
    settings: TransactionSettings, invariant: str, leaps: tuple[PathStep, ...], *, shortest: bool
) -> TransactionCounterexample:
    """Put a path into words."""
    machine = settings.machine()
    before, steps = machine.initial, []
    for leap in leaps:
        kind, a, b = leap.move
        steps.append(
            TransactionStep(
                move=TransactionMove(kind).name.lower(),
                arguments=(a, b),
                says=says_transaction(kind, a, b, before, leap.after),
                after=decode_transactions(leap.after, machine.constants),
            )
        )
        before = leap.after
    return TransactionCounterexample(
        kafka=settings.kafka,
        client=settings.client,
        scope=settings.scope,
        switched=dict(settings.switched),
        invariant=invariant,
        says=TRANSACTION_INVARIANTS[invariant].says,
        shortest=shortest,
        steps=tuple(steps),
    )

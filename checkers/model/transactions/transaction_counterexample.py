"""A way to break an invariant of transactions, step by step, as a file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, Self

import msgspec

from highwater.checkers.model.search.paths import PathStep
from highwater.checkers.model.search.random_walks import play
from highwater.checkers.model.transactions.transaction_invariants import TRANSACTION_INVARIANTS
from highwater.checkers.model.transactions.transaction_machine import TransactionSettings
from highwater.checkers.model.transactions.transaction_moves import TransactionMove
from highwater.checkers.model.transactions.transaction_scope import TransactionScope
from highwater.checkers.model.transactions.transaction_sentences import says_transaction
from highwater.checkers.model.transactions.transaction_state import (
    TransactionState,
    decode_transactions,
)
from highwater.harness.base.errors import StoreError, UsageError

TRANSACTION_FORMAT: Final = 1
"""Version of the file; it changes when an older reader would misunderstand a newer one."""


class TransactionStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One move: its kind as ``TransactionMove`` has it, its arguments, and the state after it."""

    move: str
    arguments: tuple[int, int]
    says: str
    after: TransactionState


class TransactionCounterexample(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    """A way to break an invariant with a release and a client, within a scope.

    Attributes:
        model: tells such a file from a counterexample of replication.
        switched: rules changed from those of the release and the client.
        invariant: broken by the last step, and by no step before it.
        says: the invariant as a sentence.
        shortest: whether a search has shown that there is no shorter one.
    """

    model: Literal["transactions"] = "transactions"
    format: int = TRANSACTION_FORMAT
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

    def to_json(self) -> bytes:
        """Return the counterexample as a file holds it."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n"

    def plain(self) -> dict[str, Any]:
        """Return it as plain JSON, for a run's plan."""
        content: dict[str, Any] = msgspec.to_builtins(self)
        return content

    @classmethod
    def from_plain(cls, content: object) -> Self:
        """Read what ``plain`` returned.

        Raises:
            UsageError: it is no counterexample of transactions.
        """
        try:
            return msgspec.convert(content, cls)
        except msgspec.ValidationError as error:
            raise UsageError(
                f"this is no counterexample of transactions: {error}",
                hint="highwater model explore --transactions --out FILE writes one.",
            ) from error

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a file.

        Raises:
            StoreError: it cannot be read.
            UsageError: it is no counterexample of transactions.
        """
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls)
        except OSError as error:
            raise StoreError(f"{path} cannot be read: {error.strerror}") from error
        except msgspec.MsgspecError as error:
            raise UsageError(
                f"this is no counterexample of transactions: {error}",
                hint="highwater model explore --transactions --out FILE writes one.",
            ) from error

    def replay(self) -> tuple[PathStep, ...] | None:
        """Return its states by the rules of today; None if it no longer breaks the invariant.

        Raises:
            UsageError: a release, rule, move or invariant that the model does not know.
        """
        machine = self.settings.machine()
        try:
            moves = [(TransactionMove[step.move.upper()], *step.arguments) for step in self.steps]
            bit = machine.invariants[self.invariant]
        except KeyError as error:
            raise UsageError(f"the model does not know {error}") from error
        leaps = play(machine, moves, bit)
        return leaps if leaps is not None and len(leaps) == len(moves) else None


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

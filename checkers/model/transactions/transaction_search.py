"""The answer of a search of transactions, about one invariant."""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from highwater.checkers.model.search.breadth_first import (
    Limits,
    Reason,
    SearchOutcome,
    SearchProgress,
    explore,
)
from highwater.checkers.model.transactions.transaction_counterexample import (
    TransactionCounterexample,
    transaction_counterexample,
)
from highwater.checkers.model.transactions.transaction_invariants import TRANSACTION_INVARIANTS
from highwater.checkers.model.transactions.transaction_machine import TransactionSettings
from highwater.checkers.model.transactions.transaction_scope import TransactionScope
from highwater.harness.base.errors import UsageError


class TransactionAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one question: can this invariant be broken within this scope?

    Attributes:
        holds: true if no state within the scope breaks it; false if one does; null if it is not
            known, because not every state was reached.
        reason: why it is not known; null where it is.
        rate: states per second of searching; ``compile_seconds`` went before, for machine code.
        counterexample: steps that break it; null where none was found.
    """

    kafka: str
    client: str
    scope: TransactionScope
    switched: Mapping[str, bool]
    invariant: str
    says: str
    holds: bool | None
    reason: Reason | None
    states: int
    depth: int
    seconds: float
    compile_seconds: float
    rate: float
    collision: float
    counterexample: TransactionCounterexample | None

    def summary(self) -> dict[str, object]:
        """Return the object of ``--json``: the counterexample is its steps."""
        plain: dict[str, object] = msgspec.to_builtins(self)
        if self.counterexample is not None:
            plain["counterexample"] = msgspec.to_builtins(self.counterexample.steps)
        return plain


def search_transactions(
    settings: TransactionSettings,
    invariants: Sequence[str],
    *,
    limits: Limits,
    jobs: int = 1,
    watch: Callable[[SearchProgress], None] = lambda _: None,
) -> tuple[TransactionAnswer, ...]:
    """Search for the shortest way to break each invariant; an answer each. As ``explore``.

    Raises:
        UsageError: the scope has states that do not fit in the model.
    """
    outcome = explore(settings.machine(), invariants, limits=limits, jobs=jobs, watch=watch)
    if outcome.reason == "overflow":
        raise UsageError(
            "within these bounds there are more messages or entries than the model holds",
            hint="Lower a bound: records, late or transactions.",
        )
    return tuple(_answer(settings, name, outcome) for name in invariants)


def _answer(settings: TransactionSettings, name: str, outcome: SearchOutcome) -> TransactionAnswer:
    path, holds = outcome.paths.get(name), True if outcome.exhausted else None
    return TransactionAnswer(
        kafka=settings.kafka,
        client=settings.client,
        scope=settings.scope,
        switched=dict(settings.switched),
        invariant=name,
        says=TRANSACTION_INVARIANTS[name].says,
        holds=holds if path is None else False,
        reason=outcome.reason if path is None and holds is None else None,
        states=outcome.states,
        depth=outcome.depth,
        seconds=outcome.seconds,
        compile_seconds=outcome.compile_seconds,
        rate=outcome.states / max(outcome.seconds, 1e-9),
        collision=outcome.collision,
        counterexample=None
        if path is None
        else transaction_counterexample(settings, name, path, shortest=True),
    )

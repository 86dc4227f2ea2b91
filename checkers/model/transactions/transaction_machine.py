"""The model of transactions as a machine that can be searched."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from highwater.checkers.model.protocol.compiled import Constants, State, copy_state, rule
from highwater.checkers.model.search.machine import Machine, MachineFunctions
from highwater.checkers.model.search.questions import invariants_by_name, switch
from highwater.checkers.model.transactions.transaction_invariants import (
    TRANSACTION_INVARIANTS,
    broken_of,
    overflowed,
)
from highwater.checkers.model.transactions.transaction_messages import sort_messages
from highwater.checkers.model.transactions.transaction_moves import (
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


@rule
def in_form(s: State, out: State, k: Constants) -> None:  # noqa: ARG001 - of all machines
    """Write ``s`` to ``out`` with its messages in the order of their connections."""
    copy_state(s, out)
    sort_messages(out)


TRANSACTION_LAWS: Final = MachineFunctions(
    apply=take, canonical=in_form, broken=broken_of, possible=is_possible
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """A release, a client and bounds: everything that a search of transactions depends on.

    Attributes:
        switched: rules changed from those of the release and the client, by name.
    """

    kafka: str
    client: str = "librdkafka"
    scope: TransactionScope = field(default_factory=TransactionScope)
    switched: Mapping[str, bool] = field(default_factory=dict)

    def rules(self) -> TransactionRules:
        """Return the rules that hold.

        Raises:
            UsageError: the model knows no such release, client or rule.
        """
        rules = transaction_rules_of(self.kafka, self.client)
        return switch(rules, self.switched, TRANSACTION_SWITCHES, "rule of transactions")

    def machine(self) -> Machine:
        """Return the model as a machine. Raises what ``rules`` raises."""
        return Machine(
            laws=TRANSACTION_LAWS,
            moves=transaction_moves(self.scope),
            constants=transaction_constants(self.scope, self.rules()),
            initial=transaction_initial(),
            invariants={name: invariant.bit for name, invariant in TRANSACTION_INVARIANTS.items()},
            overflowed=overflowed,
        )


def transaction_invariants(names: Iterable[str]) -> tuple[str, ...]:
    """Return invariants by name; ``promises`` and ``all`` are all of them.

    Raises what ``invariants_by_name`` raises.
    """
    groups = dict.fromkeys(("all", "promises"), tuple(TRANSACTION_INVARIANTS))
    return invariants_by_name(names, groups, "invariant of transactions")

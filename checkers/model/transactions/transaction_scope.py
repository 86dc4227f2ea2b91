"""The bounds of a search of transactions, and the constants vector that every rule reads."""

from dataclasses import dataclass, fields
from typing import Final

import numpy as np

from highwater.checkers.model.protocol.compiled import Constants, State
from highwater.checkers.model.protocol.scope import require_bounds
from highwater.checkers.model.transactions import transaction_layout as layout
from highwater.checkers.model.transactions.transaction_layout import Phase
from highwater.checkers.model.transactions.transaction_rules import TransactionRules

TRANSACTION_BOUNDS: Final = {
    "partitions": (1, layout.MAX_PARTITIONS),
    "records": (1, layout.MAX_RECORDS),
    "transactions": (1, layout.MAX_TRANSACTIONS),
    "producers": (1, layout.MAX_PRODUCERS),
    "late": (0, 3),
    "late_controls": (0, 3),
    "late_markers": (0, 2),
    "expiries": (0, 2),
    "forgets": (0, 2),
    "overdue": (0, 1),
    "in_turn": (0, 1),
}
"""The smallest and the largest value of each bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionScope:
    """The bounds of a search of transactions.

    Attributes:
        partitions: partitions of the topic; each has its own leader.
        records: maximum number of records that all producers send.
        transactions: maximum number of transactions that all producers begin.
        producers: producers with one ``transactional.id``. The second producer replaces the first,
            which continues because it gets no message about this.
        late: maximum number of connections to leaders that a producer closes while a Produce is in
            flight. That Produce arrives later or never.
        late_controls: maximum number of connections to the coordinator that a producer closes while
            an AddPartitionsToTxn or EndTxn is in flight.
        late_markers: maximum number of late markers; the coordinator sends each a second time.
        expiries: maximum number of transactions that the coordinator ends by a timeout.
        forgets: maximum number of times that a leader forgets a producer
            (``producer.id.expiration.ms``).
        overdue: 1 if a late Produce may arrive after the end of its own transaction; 0 if it
            arrives before that end or never.
        in_turn: 1 for fewer interleavings, which brokers can replay. An application continues only
            after a response, or when its connection was closed. A second producer starts when the
            first has ended its transaction. A leader forgets only when no request waits.

    Raises:
        UsageError: a bound is outside its range, so a state has no space for it.
    """

    partitions: int = 1
    records: int = 3
    transactions: int = 2
    producers: int = 1
    late: int = 1
    late_controls: int = 0
    late_markers: int = 0
    expiries: int = 0
    forgets: int = 0
    overdue: int = 1
    in_turn: int = 0

    def __post_init__(self) -> None:
        """Raise an error if a state has no space for the bounds."""
        require_bounds(self, TRANSACTION_BOUNDS)


_SCOPE: Final = {field.name: number for number, field in enumerate(fields(TransactionScope))}
_RULES: Final = {
    field.name: len(_SCOPE) + number for number, field in enumerate(fields(TransactionRules))
}

K_PARTITIONS: Final = _SCOPE["partitions"]
K_RECORDS: Final = _SCOPE["records"]
K_TRANSACTIONS: Final = _SCOPE["transactions"]
K_PRODUCERS: Final = _SCOPE["producers"]
K_LATE: Final = _SCOPE["late"]
K_LATE_CONTROLS: Final = _SCOPE["late_controls"]
K_LATE_MARKERS: Final = _SCOPE["late_markers"]
K_EXPIRIES: Final = _SCOPE["expiries"]
K_FORGETS: Final = _SCOPE["forgets"]
K_OVERDUE: Final = _SCOPE["overdue"]
K_IN_TURN: Final = _SCOPE["in_turn"]
K_DUPLICATES_CACHED: Final = _RULES["duplicates_cached"]
K_UNKNOWN_ACCEPTED: Final = _RULES["unknown_accepted"]
K_OPEN_IN_EPOCH: Final = _RULES["open_in_epoch"]
K_STALE_EPOCH_FIRST: Final = _RULES["stale_epoch_first"]
K_VERIFICATION: Final = _RULES["verification"]
K_LOWEST_SEQUENCE: Final = _RULES["lowest_sequence"]
K_COPY_IS_NOT_LOWEST: Final = _RULES["copy_is_not_lowest"]
K_BUMPS_EPOCH: Final = _RULES["bumps_epoch"]
K_ADDS_BY_PRODUCE: Final = _RULES["adds_by_produce"]
K_FIRST_IS_ZERO: Final = _RULES["first_is_zero"]
K_MARKER_ABOVE: Final = _RULES["marker_above"]
K_ANSWERS_FIRST: Final = _RULES["answers_first"]
K_PURGES_UNANSWERED: Final = _RULES["purges_unanswered"]


def transaction_constants(scope: TransactionScope, rules: TransactionRules) -> Constants:
    """Return the bounds and the rules as the vector that compiled code reads."""
    bounds = [int(getattr(scope, name)) for name in _SCOPE]
    return np.array([*bounds, *(int(getattr(rules, name)) for name in _RULES)], dtype=np.int64)


def transaction_initial() -> State:
    """Return the first state: the first producer is ready, in epoch 0, and all logs are empty."""
    s = np.zeros(layout.WIDTH, dtype=np.int8)
    s[layout.PRODUCERS + layout.PHASE] = Phase.READY
    return s

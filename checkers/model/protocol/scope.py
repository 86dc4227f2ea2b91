"""The bounds of a search, and the constants vector that every rule reads."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final, Literal

from highwater.checkers.model.protocol import state_layout as layout
from highwater.checkers.model.protocol.compiled import Constants, State
from highwater.checkers.model.protocol.rules_by_release import Rules
from highwater.checkers.model.protocol.state_layout import Fetcher, block
from highwater.harness.base.errors import UsageError

Acks = Literal["0", "1", "all"]
By = Literal["message", "round"]
ACKS: Final[tuple[Acks, ...]] = ("0", "1", "all")
BOUNDS: Final = {
    "brokers": (2, layout.MAX_BROKERS),
    "records": (1, layout.MAX_RECORDS),
    "failures": (0, 9),
    "moves": (0, 9),
    "late": (0, 9),
    "batch": (1, 3),
    "failovers": (0, 3),
    "wipes": (0, 3),
    "joins": (0, 3),
    "reassignments": (0, 3),
}
"""The smallest and the largest value of each bound; ``min_isr`` is 1 to the number of brokers."""


def require_bounds(scope: object, bounds: Mapping[str, tuple[int, int]]) -> None:
    """Raise a UsageError if a bound is outside its range, so that a state has no space for it."""
    for name, (low, high) in bounds.items():
        value = getattr(scope, name)
        if not low <= value <= high:
            raise UsageError(
                f"{name} = {value} is outside the model's bounds", hint=f"Choose {low} to {high}."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The bounds of a search, and the settings on which Kafka's guarantees depend.

    Attributes:
        brokers: replicas of the partition, 2 or 3.
        records: maximum number of records sent, 1 to 6.
        failures: maximum number of kills, pauses and lagging followers together.
        moves: maximum number of leadership moves and clean shutdowns together.
        late: maximum number of fetch responses that arrive after other steps.
        batch: maximum number of records in one batch of a producer, 1 to 3.
        failovers: maximum number of controllers that die and are replaced.
        wipes: maximum number of disks that an empty disk replaces, on brokers outside the ISR.
        joins: maximum number of late requests of leaders to add a follower to the ISR.
        reassignments: maximum number of reassignments that an operator requests.
        min_isr: ``min.insync.replicas``.
        unclean: ``unclean.leader.election.enable``.
        by_hand: whether an operator may request an unclean election when no broker leads (KIP-460).
        interrupts: whether an operator may cancel a reassignment in progress, or request another
            one instead (KIP-455). The other one counts as one of the ``reassignments``.
        by: the unit of a step, ``message`` or ``round``. In a round some brokers run until they are
            idle, and the others are frozen. Real brokers can replay rounds.
        stops: whether the search includes clean shutdowns, which count as ``moves``.
        old_format: whether records have the format from before 0.11, without leader epochs.

    Raises:
        UsageError: a bound is outside its range, so a state has no space for it.
    """

    brokers: int = 3
    records: int = 2
    failures: int = 1
    moves: int = 2
    late: int = 0
    batch: int = 1
    failovers: int = 0
    wipes: int = 0
    joins: int = 0
    reassignments: int = 0
    acks: Acks = "all"
    min_isr: int = 1
    unclean: bool = False
    by_hand: bool = False
    interrupts: bool = False
    old_format: bool = False
    by: By = "message"
    stops: bool = True

    def __post_init__(self) -> None:
        """Raise an error for bounds that do not fit in a state."""
        require_bounds(self, {**BOUNDS, "min_isr": (1, self.brokers)})
        if self.acks not in ACKS:
            raise UsageError(f"acks {self.acks!r} is unknown", hint="Choose 0, 1 or all.")


K_BROKERS: Final = 0
K_RECORDS: Final = 1
K_FAILURES: Final = 2
K_MOVES: Final = 3
K_LATE: Final = 4
K_ACKS: Final = 5
K_MIN_ISR: Final = 6
K_UNCLEAN: Final = 7
K_OLD_FORMAT: Final = 8
K_BY_ROUND: Final = 9
K_BATCH: Final = 10
K_FAILOVERS: Final = 11
K_WIPES: Final = 12
K_JOINS: Final = 13
K_REASSIGNMENTS: Final = 14
K_INTERRUPTS: Final = 15
_FIRST_RULE: Final = 16

_RULES: Final = {field.name: _FIRST_RULE + n for n, field in enumerate(fields(Rules))}

K_KRAFT: Final = _RULES["kraft"]
K_EPOCHS: Final = _RULES["epochs"]
K_EXACT_EPOCHS: Final = _RULES["exact_epochs"]
K_EPOCH_ON_ELECTION: Final = _RULES["epoch_on_election"]
K_CUT_ON_NEW_EPOCH: Final = _RULES["cut_on_new_epoch"]
K_JOIN_FROM_EPOCH_START: Final = _RULES["join_from_epoch_start"]
K_FENCED_QUESTIONS: Final = _RULES["fenced_questions"]
K_FENCED_FETCHES: Final = _RULES["fenced_fetches"]
K_DIVERGING_TELLS_HW: Final = _RULES["diverging_tells_hw"]
K_CUT_DROPS_EMPTY_EPOCH: Final = _RULES["cut_drops_empty_epoch"]
K_CUT_ON_FETCH: Final = _RULES["cut_on_fetch"]
K_DIVERGING_IS_NO_PROGRESS: Final = _RULES["diverging_is_no_progress"]
K_LATE_FENCED: Final = _RULES["late_fenced"]
K_OUT_OF_RANGE_CUTS: Final = _RULES["out_of_range_cuts"]
K_ELECTED_AGAIN_IS_NEW: Final = _RULES["elected_again_is_new"]
K_ASYNC_ISR: Final = _RULES["async_isr"]
K_STRICT_MIN_ISR: Final = _RULES["strict_min_isr"]
K_CAUGHT_UP_STAYS: Final = _RULES["caught_up_stays"]
K_LATE_NEEDS_FETCHING: Final = _RULES["late_needs_fetching"]
K_NO_EPOCHS_IS_UNDEFINED: Final = _RULES["no_epochs_is_undefined"]
K_BELOW_FIRST_IS_EMPTY: Final = _RULES["below_first_is_empty"]
K_CUT_ON_MISSED_EPOCH: Final = _RULES["cut_on_missed_epoch"]
K_ELR: Final = _RULES["elr"]
K_UNCLEAN_START_LEAVES: Final = _RULES["unclean_start_leaves"]
K_LAST_LEADER_ALIVE: Final = _RULES["last_leader_alive"]
K_REMOVAL_BUMPS_EPOCH: Final = _RULES["removal_bumps_epoch"]
K_LIVE_JOINS_ONLY: Final = _RULES["live_joins_only"]
K_DECISIONS_LOGGED: Final = _RULES["decisions_logged"]
K_JOINS_BY_BROKER_EPOCH: Final = _RULES["joins_by_broker_epoch"]
K_PARTITION_FAILS_ALONE: Final = _RULES["partition_fails_alone"]
K_ADDED_COMPLETE: Final = _RULES["added_complete"]
K_ELR_OF_REPLICAS: Final = _RULES["elr_of_replicas"]


def constants(scope: Scope, rules: Rules) -> Constants:
    """Return the bounds and the rules as the vector that compiled code reads."""
    import numpy as np  # noqa: PLC0415 - the base lacks it, and its help shows the bounds

    bounds = [getattr(scope, name) for name in ("brokers", "records", "failures", "moves", "late")]
    settings = [ACKS.index(scope.acks), scope.min_isr, int(scope.unclean)]
    settings += [int(scope.old_format), int(scope.by == "round")]
    settings += [scope.batch, scope.failovers, scope.wipes, scope.joins, scope.reassignments]
    settings += [int(scope.interrupts)]
    switches = [int(getattr(rules, field.name)) for field in fields(rules)]
    return np.array([*bounds, *settings, *switches], dtype=np.int64)


def initial(scope: Scope) -> State:
    """Return the first state: logs are empty; all brokers run, are in sync and know the leader.

    Broker 0 leads in epoch 0.
    """
    import numpy as np  # noqa: PLC0415 - see above

    s = np.zeros(layout.WIDTH, dtype=np.int8)
    everybody = (1 << scope.brokers) - 1
    s[layout.DECISION] = everybody << 2
    layout.set_replicas(s, 0, everybody)
    s[layout.DECISIONS] = 1
    s[layout.LIVE] = everybody
    for b in range(layout.MAX_BROKERS):
        if b >= scope.brokers:
            s[block(b) + layout.APPLIED_DECISION] = -1
        else:
            s[block(b) + layout.FETCHER] = Fetcher.NONE if b == 0 else Fetcher.FETCHING
    s[layout.BLOCKS + layout.VIEW] = everybody
    return s

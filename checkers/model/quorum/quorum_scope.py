"""The bounds of a search of KRaft's quorum, and its first state."""

from dataclasses import dataclass, fields
from typing import Final

import numpy as np

from highwater.checkers.model.protocol.compiled import Constants, State
from highwater.checkers.model.protocol.scope import require_bounds
from highwater.checkers.model.quorum import quorum_layout as layout
from highwater.checkers.model.quorum.quorum_layout import put
from highwater.checkers.model.quorum.quorum_rules import QUORUM_SWITCHES, QuorumRules
from highwater.harness.base.errors import UsageError

NEW_ID: Final = 0
OLD_ID: Final = 1
STANDALONE: Final = 2
"""The bound ``format``: the way in which an operator formats an empty disk."""

QUORUM_BOUNDS: Final = {
    "voters": (1, 4),
    "spares": (0, 3),
    "epochs": (1, 5),
    "decisions": (1, layout.MAX_DECISIONS),
    "restarts": (0, 3),
    "wipes": (0, 3),
    "changes": (0, 3),
    "format": (NEW_ID, STANDALONE),
}
"""The smallest and the largest value of each bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumScope:
    """The bounds of a search of the quorum.

    Attributes:
        voters: controllers in the first voter set. The first of them leads epoch 1.
        spares: controllers with an empty disk that are not in the first voter set.
        epochs: the highest epoch.
        decisions: maximum number of decisions that leaders append, such as a new topic or ISR.
        restarts: maximum number of restarts. A controller then forgets its HW and its leadership.
        wipes: maximum number of disks that are lost and replaced by an empty disk.
        changes: maximum number of additions and removals of voters.
        format: the operator formats an empty disk with 0: ``--no-initial-controllers``, and so a
            new directory id; 1: ``--initial-controllers`` as at the first time, and so the old
            directory id; 2: ``--standalone``, a quorum of its own. Only with ``directory_ids``.

    Raises:
        UsageError: a bound is outside its range, or the bounds together have no space in a state.
    """

    voters: int = 3
    spares: int = 0
    epochs: int = 3
    decisions: int = 1
    restarts: int = 0
    wipes: int = 1
    changes: int = 0
    format: int = NEW_ID

    def __post_init__(self) -> None:
        """Raise an error if a state has no space for the bounds."""
        require_bounds(self, QUORUM_BOUNDS)
        entries = self.epochs + self.decisions + self.changes
        for name, sum_, most in (
            ("voters + spares + wipes", self.replicas, layout.MAX_REPLICAS),
            ("epochs + decisions + changes", entries, layout.MAX_LOG),
        ):
            if sum_ > most:
                raise UsageError(f"{name} = {sum_} does not fit", hint=f"Choose at most {most}.")

    @property
    def replicas(self) -> int:
        """The most disks that a search can need."""
        return self.voters + self.spares + self.wipes


_SCOPE: Final = tuple(field.name for field in fields(QuorumScope))

K_VOTERS: Final = _SCOPE.index("voters")
K_EPOCHS: Final = _SCOPE.index("epochs")
K_DECISIONS: Final = _SCOPE.index("decisions")
K_RESTARTS: Final = _SCOPE.index("restarts")
K_WIPES: Final = _SCOPE.index("wipes")
K_CHANGES: Final = _SCOPE.index("changes")
K_FORMAT: Final = _SCOPE.index("format")
K_DIRECTORY_IDS: Final = len(_SCOPE) + QUORUM_SWITCHES.index("directory_ids")
K_OWN_EPOCH_COMMITS: Final = len(_SCOPE) + QUORUM_SWITCHES.index("own_epoch_commits")
K_CHANGE_AFTER_COMMIT: Final = len(_SCOPE) + QUORUM_SWITCHES.index("change_after_commit")
K_ONE_CHANGE: Final = len(_SCOPE) + QUORUM_SWITCHES.index("one_change")


def quorum_constants(scope: QuorumScope, rules: QuorumRules) -> Constants:
    """Return the bounds and the rules as the vector that compiled code reads."""
    bounds = [int(getattr(scope, name)) for name in _SCOPE]
    switches = [int(getattr(rules, name)) for name in QUORUM_SWITCHES]
    return np.array([*bounds, *switches], dtype=np.int64)


def quorum_initial(scope: QuorumScope, rules: QuorumRules) -> State:
    """Return the first state: all voters have the entry that begins epoch 1, and it is committed.

    With ``directory_ids`` this entry also has the voter set.
    """
    s = np.zeros(layout.WIDTH, dtype=np.int8)
    voters = (1 << scope.voters) - 1
    for r in range(scope.voters + scope.spares):
        put(s, r, layout.NODE, r)
        put(s, r, layout.STATUS, layout.USED)
    for r in range(scope.voters):
        put(s, r, layout.EPOCHS, 1)
        put(s, r, layout.VALUES, layout.SET + voters if rules.directory_ids else 0)
        put(s, r, layout.LEO, 1)
        put(s, r, layout.EPOCH, 1)
        put(s, r, layout.HW, 1)
        put(s, r, layout.FORMATTED, voters)
        put(s, 0, layout.FETCHED + r, 1)
    put(s, 0, layout.LEADS, 1)
    return s

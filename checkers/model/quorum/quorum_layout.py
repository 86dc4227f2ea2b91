"""The layout of a state of the quorum: a block for each controller's disk, and counters.

A state is ``WIDTH`` signed bytes. A *replica* is a node with one disk: a new disk with a new
directory id is a new replica with the same node. Voter sets are bit masks of replicas.
"""

from typing import Final

from highwater.checkers.model.protocol.compiled import State, rule

MAX_REPLICAS: Final = 6
MAX_LOG: Final = 9
MAX_DECISIONS: Final = 3

# Entries of a log, by their value: below SET the number of a decision, from SET on a voter set.
EPOCH_START: Final = 0
SET: Final = 64

# The fields of a replica, relative to its block. The log is an epoch and a value for each offset.
EPOCHS: Final = 0
VALUES: Final = MAX_LOG
LEO: Final = 2 * MAX_LOG
EPOCH: Final = LEO + 1  # the highest epoch that the replica knows; it has no vote left in it
HW: Final = LEO + 2
LEADS: Final = LEO + 3
START: Final = LEO + 4  # the offset at which the leader's epoch began
NODE: Final = LEO + 5
STATUS: Final = LEO + 6
FORMATTED: Final = LEO + 7  # the voter set that the format command or the configuration names
FETCHED: Final = LEO + 8  # of a leader: the end offset of each replica's last fetch
REPLICA: Final = FETCHED + MAX_REPLICAS

# Counters of events so far, and for each decision the epoch in which it was committed.
DECIDED: Final = MAX_REPLICAS * REPLICA
RESTARTS: Final = DECIDED + 1
WIPES: Final = DECIDED + 2
CHANGES: Final = DECIDED + 3
COMMITTED: Final = DECIDED + 4

WIDTH: Final = -(-(COMMITTED + MAX_DECISIONS) // 8) * 8
"""The size of a state in bytes, a multiple of eight."""

UNUSED: Final = 0
USED: Final = 1
REPLACED: Final = 2
"""The values of ``STATUS``. Nothing is left of a replaced disk."""


@rule
def get(s: State, r: int, field: int) -> int:
    """Return a field of replica ``r``."""
    return int(s[r * REPLICA + field])


@rule
def put(s: State, r: int, field: int, value: int) -> None:
    """Set a field of replica ``r``."""
    s[r * REPLICA + field] = value


@rule
def size_of(replicas: int) -> int:
    """Return the number of replicas in a mask."""
    size = 0
    for r in range(MAX_REPLICAS):
        size += replicas >> r & 1
    return size


@rule
def set_offset(s: State, r: int) -> int:
    """Return the offset of the last voter set in a log, or -1."""
    for offset in range(get(s, r, LEO) - 1, -1, -1):
        if get(s, r, VALUES + offset) >= SET:
            return offset
    return -1


@rule
def voters_of(s: State, r: int) -> int:
    """Return the voter set in which a replica believes: the last set in its log, committed or not.

    (``KRaftControlRecordStateMachine.lastVoterSet``)
    """
    offset = set_offset(s, r)
    return get(s, r, FORMATTED) if offset < 0 else get(s, r, VALUES + offset) - SET


@rule
def last_epoch(s: State, r: int) -> int:
    """Return the epoch of the last entry in a log; 0 for an empty log."""
    leo = get(s, r, LEO)
    return get(s, r, EPOCHS + leo - 1) if leo else 0


@rule
def is_behind(s: State, a: int, b: int) -> bool:
    """Return whether the log of ``a`` is older than ``b``'s (``OffsetAndEpoch.compareTo``)."""
    epoch, other = last_epoch(s, a), last_epoch(s, b)
    return epoch < other or (epoch == other and get(s, a, LEO) < get(s, b, LEO))

"""The layout of the state vector: replicas, the controller, clients.

A state is ``WIDTH`` signed bytes. The controller's part comes first, then one block for each
broker. A log entry is one byte, ``epoch * 8 + record + 1``. The byte 0 means no entry. The byte
``epoch * 8`` below the LEO is a gap: an offset without a record. Sets of brokers are bit masks.
Records are numbered in the order in which they are sent.
"""

from enum import IntEnum
from typing import Final

from highwater.checkers.model.protocol.compiled import State, rule

MAX_BROKERS: Final = 3
MAX_RECORDS: Final = 6
MAX_DECISIONS: Final = 12

NO_LEADER: Final = 3
"""The number that stands for "no leader" in a controller's decision."""

# The controller: its decisions so far (leader, ISR and epoch), and the brokers with a session.
DECISION: Final = 0
EPOCH: Final = DECISION + MAX_DECISIONS
DECISIONS: Final = EPOCH + MAX_DECISIONS
LIVE: Final = DECISIONS + 1
ELR: Final = LIVE + 1
LAST_LEADER: Final = ELR + 1  # broker + 1, while there is no leader (KIP-966)
# brokers that lost their session and will get only the newest decision
LATE_JOINERS: Final = LAST_LEADER + 1

# Clients: number of records sent, response for each record, and record read at each offset.
SENT: Final = LATE_JOINERS + 1
STATUS: Final = SENT + 1
READ: Final = STATUS + MAX_RECORDS

# Counters against the search bounds, and anomalies that the logs no longer show.
FAILURES: Final = READ + MAX_RECORDS
MOVES: Final = FAILURES + 1
LATES: Final = MOVES + 1
FLAGS: Final = LATES + 1
SPENT: Final = FLAGS + 1  # failovers, replaced disks, late joins, reassignments: two bits each

# Batches, a dead controller, and an ISR request in flight; 0 in searches without these events.
BATCHED: Final = SPENT + 1  # a mask: the record is in one batch with the record before it
DELIVERS: Final = BATCHED + 1  # the first decision that the present controller still sends
JOIN: Final = DELIVERS + 1  # 0, or IN_FLIGHT with the leader, the follower, and STALE

# A reassignment in progress: masks of removed and of added replicas, and the preferred replica.
REASSIGNED: Final = JOIN + 1

BLOCKS: Final = REASSIGNED + 1

# A broker and its replica, relative to its block.
LOG: Final = 0
LEO: Final = LOG + MAX_RECORDS
HW: Final = LEO + 1
DISK: Final = HW + 1  # replication-offset-checkpoint
PROCESS: Final = DISK + 1
APPLIED_DECISION: Final = PROCESS + 1  # index of the last decision it has applied, -1 after a start
FETCHER: Final = APPLIED_DECISION + 1
VIEW: Final = FETCHER + 1  # in a leader: the ISR that it knows
PENDING: Final = VIEW + 1  # in a leader: the smaller ISR in its open request, or 0
ELECTED: Final = PENDING + 1  # epoch + 1 of the newest epoch if it has no record yet, or 0
AWAITED: Final = ELECTED + 1  # in a leader: mask of the records whose producers wait for a response
REMOTE: Final = AWAITED + 1  # in a leader: each replica's LEO at its last fetch, -1 if unknown
ANSWER: Final = REMOTE + MAX_BROKERS  # kind of the fetch response in flight to this broker
ANSWER_FROM: Final = ANSWER + 1  # the leader that sent the response
ANSWER_KNOWN: Final = ANSWER_FROM + 1  # the follower's leader epoch when it fetched
ANSWER_HW: Final = ANSWER_KNOWN + 1
ANSWER_OFFSET: Final = ANSWER_HW + 1  # fetch offset, or end offset of the diverging epoch
ANSWER_COUNT: Final = ANSWER_OFFSET + 1  # number of entries, or the diverging epoch
ANSWER_LOG: Final = ANSWER_COUNT + 1
BLOCK: Final = ANSWER_LOG + MAX_RECORDS

WIDTH: Final = -(-(BLOCKS + MAX_BROKERS * BLOCK) // 8) * 8
"""The size of a state in bytes, a multiple of eight."""


class ProcessState(IntEnum):
    """The state of a broker's process."""

    UP = 0
    PAUSED = 1
    DEAD = 2
    STOPPED = 3


class Fetcher(IntEnum):
    """The state of a follower's fetcher.

    TRUNCATING requests the offset to truncate to; ENDED is permanent.
    """

    NONE = 0
    TRUNCATING = 1
    FETCHING = 2
    ENDED = 3


class ProducerStatus(IntEnum):
    """The response to the producer of a record."""

    UNSENT = 0
    UNKNOWN = 1
    ACKNOWLEDGED = 2


class AnswerKind(IntEnum):
    """The kind of a fetch response in flight."""

    NONE = 0
    RECORDS = 1
    DIVERGING = 2


IN_FLIGHT: Final = 1
STALE: Final = 32
"""A bit of the field JOIN: the follower has restarted since the leader asked to add it to the
ISR."""
ARMED: Final = 64
"""A temporary value of the field JOIN: the leader's next request for a larger ISR is late."""

FLAG_REREAD: Final = 1
"""A flag of a state: a consumer has read two different records at one offset."""

FLAG_OVERFLOW: Final = 2
"""A flag of a state without space for another decision of the controller: the search bounds are too
large."""


@rule
def signed(value: int) -> int:
    """Return the signed number with the same eight bits."""
    return value - 256 if value > 127 else value  # noqa: PLR2004 - the largest signed byte


@rule
def spend(s: State, shift: int, most: int) -> bool:
    """Increase one of four counters; return False if it has already reached ``most``.

    ``shift`` is 0 for failovers, 2 for replaced disks, 4 for ISR requests, 6 for reassignments.
    """
    if (int(s[SPENT]) >> shift) & 3 >= most:
        return False
    s[SPENT] = signed((int(s[SPENT]) & 255) + (1 << shift))
    return True


@rule
def block(b: int) -> int:
    """Return the index at which the block of broker ``b`` begins."""
    return BLOCKS + b * BLOCK


@rule
def get(s: State, b: int, field: int) -> int:
    """Return a field of broker ``b``.

    Adding 0 turns the byte into a machine word. Otherwise Numba would compile a rule a second time
    for byte arguments.
    """
    return int(s[BLOCKS + b * BLOCK + field]) + 0


@rule
def put(s: State, b: int, field: int, value: int) -> None:
    """Set a field of broker ``b``."""
    s[BLOCKS + b * BLOCK + field] = value


@rule
def newest(s: State) -> int:
    """Return the index of the controller's last decision."""
    return int(s[DECISIONS]) - 1


@rule
def leader_of(s: State, decision: int) -> int:
    """Return the leader that a decision names, -1 for none."""
    kind = int(s[DECISION + decision]) & 3
    return -1 if kind == NO_LEADER else kind


@rule
def isr_of(s: State, decision: int) -> int:
    """Return the ISR that a decision names, as a mask."""
    return (int(s[DECISION + decision]) >> 2) & 7


@rule
def set_isr(s: State, decision: int, isr: int) -> None:
    """Change the ISR of a decision, as a leader does without a new decision."""
    s[DECISION + decision] = (int(s[DECISION + decision]) & ~28) | (isr << 2)


@rule
def replicas_of(s: State, decision: int) -> int:
    """Return the replicas of a decision, as a mask; the state stores the mask's complement."""
    return ~(int(s[DECISION + decision]) >> 5) & 7


@rule
def set_replicas(s: State, decision: int, replicas: int) -> None:
    """Change the replicas of a decision."""
    s[DECISION + decision] = signed((int(s[DECISION + decision]) & 31) | (~replicas & 7) << 5)


@rule
def removing(s: State) -> int:
    """Return the replicas that the reassignment in progress removes, as a mask."""
    return int(s[REASSIGNED]) & 7


@rule
def adding(s: State) -> int:
    """Return the replicas that the reassignment in progress adds, as a mask."""
    return (int(s[REASSIGNED]) >> 3) & 7


@rule
def has_replica(s: State, b: int) -> bool:
    """Return whether ``b`` has a replica according to the decision that ``b`` has applied."""
    applied = get(s, b, APPLIED_DECISION)
    return applied >= 0 and (replicas_of(s, applied) >> b) & 1 == 1


@rule
def follows(s: State, b: int) -> int:
    """Return the leader that ``b`` knows, -1 for none or before its first decision."""
    applied = get(s, b, APPLIED_DECISION)
    return -1 if applied < 0 else leader_of(s, applied)


@rule
def epoch_of(s: State, b: int) -> int:
    """Return the leader epoch that ``b`` knows, -1 before its first decision."""
    applied = get(s, b, APPLIED_DECISION)
    return -1 if applied < 0 else int(s[EPOCH + applied])


@rule
def is_up(s: State, b: int) -> bool:
    """Return whether the process of ``b`` runs."""
    return get(s, b, PROCESS) == 0


@rule
def presumes(s: State, b: int) -> bool:
    """Return whether ``b`` runs and believes that it leads."""
    return get(s, b, PROCESS) == 0 and follows(s, b) == b


@rule
def is_live(s: State, b: int) -> bool:
    """Return whether ``b`` has a session with the controller."""
    return (int(s[LIVE]) >> b) & 1 == 1


@rule
def joiner(s: State, leader: int) -> int:
    """Return the follower that ``leader`` has asked the controller to add to the ISR, as a mask."""
    join = int(s[JOIN])
    return 1 << ((join >> 3) & 3) if join & IN_FLIGHT and (join >> 1) & 3 == leader else 0


@rule
def size(mask: int) -> int:
    """Return the number of brokers in a mask."""
    return (mask & 1) + ((mask >> 1) & 1) + ((mask >> 2) & 1)

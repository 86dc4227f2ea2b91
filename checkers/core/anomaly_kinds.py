"""Kinds of anomaly. ``checkers.catalogue`` has all of them."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from typing import Any, Final, TypeAlias

from highwater.harness.runs.plan import Plan
from highwater.harness.runs.verdict import Witness

LOST: Final = "lost-write"
UNSEEN: Final = "unseen"
DUPLICATE: Final = "duplicate"
DIVERGENCE: Final = "divergence"
CORRUPT: Final = "corrupt"
METADATA_DIVERGENCE: Final = "metadata-divergence"
LOST_DECISION: Final = "lost-decision"
COORDINATOR_DIVERGENCE: Final = "coordinator-divergence"
HANGING: Final = "hanging-transaction"
REMOTE_DIVERGENCE: Final = "remote-divergence"
UNDELIVERED: Final = "undelivered"
TORN: Final = "torn-transaction"
PROCESSED_TWICE: Final = "processed-twice"
UNPROCESSED: Final = "unprocessed"
RESURRECTED: Final = "resurrected-value"
STALE_REPLICA: Final = "stale-replica"
LOST_INPUT: Final = "lost-input"
DOUBLED_INPUT: Final = "doubled-input"
HALF_INPUT: Final = "half-input"
UNREACHED_INPUT: Final = "unreached-input"
"""Kinds for which verdicts and ``checkers.lineage`` have special sentences."""

STRANGE_OUTPUT: Final = "strange-output"
OVERTAKEN_INPUT: Final = "overtaken-input"
LOST_OUTPUT: Final = "lost-output"
DOUBLED_OUTPUT: Final = "doubled-output"
ABORTED_INPUT: Final = "aborted-input"
UNFINISHED_TRANSACTION: Final = "unfinished-transaction"
OF_PROGRAMS: Final = frozenset(
    (
        *(LOST_INPUT, HALF_INPUT, DOUBLED_INPUT, UNREACHED_INPUT, STRANGE_OUTPUT),
        *(OVERTAKEN_INPUT, ABORTED_INPUT, UNFINISHED_TRANSACTION),
        *(LOST_OUTPUT, DOUBLED_OUTPUT),
    )
)
"""Kinds about the program under test, of which the rules of Kafka say nothing."""

MISTAKE: Final = "mistake"
"""The word of the witness that says who did it, of a kind about a program."""

BELOW: Final = "below its HW "
ABOVE: Final = "above its HW "
"""The beginning of the note of a divergent copy; its broker's last checkpointed HW follows."""

Breaks: TypeAlias = Callable[[Plan, int], bool]
"""A function of a plan and the number of injected faults: whether an anomaly breaks a promise."""


class Severity(StrEnum):
    """The severity of an anomaly where it breaks a promise."""

    CRITICAL = "critical"  # data is gone, or is not what it was
    SERIOUS = "serious"  # data is there, and clients that do everything right are misled
    MINOR = "minor"  # order is lost, which many clients do not need
    EXPECTED = "expected"  # Kafka promises nothing against it
    UNDECIDED = "undecided"  # it is not known


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of anomaly. Those of clients have the names that Jepsen's Kafka workload gives them.

    Attributes:
        name: such as ``lost-write``.
        guarantee: what holds when none is found, a sentence.
        singular: what one of them is, the end of a sentence that begins with 1.
        plural: what several are.
        promise: what it breaks, and who promised it.
        breaks: whether a run had that promise; ``checkers.core.promises`` has the usual answers.
        says: what one anomaly is, a sentence, of its row in columns of ``anomaly.SCHEMA``; None:
            ``checkers.lineage`` knows.
        evidence: what shows one anomaly, in order of time, of its row; None: ``checkers.lineage``
            knows.
        absence: it rests on rows that are *not* in a history. A run that ended early lacks its last
            rows, so it shows none of these.
    """

    name: str
    _: KW_ONLY
    guarantee: str
    singular: str
    plural: str
    severity: Severity
    promise: str
    breaks: Breaks
    says: Callable[[dict[str, Any]], str] | None = None
    evidence: Callable[[dict[str, Any]], tuple[Witness, ...]] | None = None
    absence: bool = False

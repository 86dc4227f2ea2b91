"""The kinds of anomaly, as data. ``checkers.catalogue`` lists all kinds."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from typing import Any, Final, TypeAlias

from highwater.harness.runs.plan import Plan
from highwater.harness.runs.verdict import Witness

LOST: Final = "lost-write"
UNSEEN: Final = "unseen"
VANISHED: Final = "vanished"
DUPLICATE: Final = "duplicate"
DIVERGENCE: Final = "divergence"
CORRUPT: Final = "corrupt"
METADATA_DIVERGENCE: Final = "metadata-divergence"
LOST_DECISION: Final = "lost-decision"
COORDINATOR_DIVERGENCE: Final = "coordinator-divergence"
COORDINATOR_CONTRADICTION: Final = "coordinator-contradiction"
HANGING: Final = "hanging-transaction"
WRONG_LOOKUP: Final = "wrong-lookup"
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
"""Kinds of anomaly about which verdicts and ``checkers.lineage`` write special sentences."""

STRANGE_OUTPUT: Final = "strange-output"
REPEATED_INPUT: Final = "repeated-input"
OVERTAKEN_INPUT: Final = "overtaken-input"
LOST_OUTPUT: Final = "lost-output"
DOUBLED_OUTPUT: Final = "doubled-output"
ABORTED_INPUT: Final = "aborted-input"
UNFINISHED_TRANSACTION: Final = "unfinished-transaction"
OF_PROGRAMS: Final = frozenset(
    (
        *(LOST_INPUT, HALF_INPUT, DOUBLED_INPUT, UNREACHED_INPUT, STRANGE_OUTPUT),
        *(REPEATED_INPUT, OVERTAKEN_INPUT, ABORTED_INPUT, UNFINISHED_TRANSACTION),
        *(LOST_OUTPUT, DOUBLED_OUTPUT),
    )
)
"""Kinds of anomaly in the program under test. Kafka's rules do not apply to them."""

MISTAKE: Final = "mistake"
"""The name (``what``) of the piece of evidence that states the program's mistake."""

BELOW: Final = "below its HW "
ABOVE: Final = "above its HW "
"""The first words of a note about a divergent copy. The last HW in its broker's checkpoint
follows."""

Breaks: TypeAlias = Callable[[Plan, int], bool]
"""A function of a run's plan and its number of faults. It returns whether an anomaly breaks a
guarantee."""


class Severity(StrEnum):
    """The severity of an anomaly."""

    CRITICAL = "critical"  # data is lost or changed
    SERIOUS = "serious"  # data is complete, but correct clients get wrong results
    MINOR = "minor"  # order is lost, which many clients do not need
    EXPECTED = "expected"  # Kafka does not promise to prevent this anomaly
    UNDECIDED = "undecided"  # the severity is not known


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of anomaly. Kinds in clients' histories have the names of Jepsen's Kafka workload.

    Attributes:
        name: the kind's name, such as ``lost-write``.
        guarantee: a sentence that is true if no such anomaly is found.
        singular: the words after the number 1, such as ``acknowledged record was lost``.
        plural: the words after a greater number.
        promise: the guarantee that the anomaly breaks, and where Kafka states it.
        breaks: a function that returns whether a run had that guarantee; ``checkers.core.promises``
            has the usual functions.
        says: a function that returns a sentence about an anomaly from its row (``anomaly.SCHEMA``).
            If it is None, ``checkers.lineage`` writes the sentence.
        evidence: a function that returns the evidence of an anomaly from its row, in order of time.
            If it is None, ``checkers.lineage`` collects the evidence.
        absence: whether *missing* rows of a history show the anomaly. A run that ended early lacks
            its last rows, so it cannot prove such an anomaly.
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

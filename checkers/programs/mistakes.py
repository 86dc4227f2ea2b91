"""The mistakes of programs: each with the evidence that shows it, and its fix.

They are tried in order, and the first one that the disks and the lives of instances show is told.
If none is shown, it is not known who did it. Brokers that had a fault may have lost an output that
was acknowledged, so nothing is told of a missing output after the first of these.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from highwater.checkers.programs import doubled_proofs, lost_proofs
from highwater.checkers.programs.evidence import InputEvidence
from highwater.checkers.programs.outcomes import DOUBLED, HALF, LOST

ABORTED: Final = "aborted"
UNFINISHED: Final = "unfinished"
"""Outcomes that are no input's of ``outcomes``: those of an input that was aborted, and of a
transaction of the program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """A kind of mistake.

    Attributes:
        outcome: of the inputs that it explains.
        evidence: what shows it, for the documentation.
        fix: what to do instead, a sentence.
        proof: returns the sentence that shows it; empty where nothing does.
        by: who made it.
    """

    name: str
    outcome: str
    evidence: str
    fix: str
    proof: Callable[[InputEvidence], str] = lambda _: ""
    by: str = "The program"


def mistake_of(evidence: InputEvidence) -> tuple[Mistake, str] | None:
    """Return the first mistake that is shown, and the sentence that shows it."""
    for mistake in MISTAKES:
        if mistake.outcome == evidence.outcome and (says := mistake.proof(evidence)):
            return mistake, says
    return None


_POSITION_OUTSIDE: Final = Mistake(
    name="position outside of the transaction",
    outcome=LOST,
    evidence="outputs are in transactions, positions are not",
    fix="Use sendOffsetsToTransaction.",
    proof=lost_proofs.position_outside,
)
SHARED_ID: Final = Mistake(
    name="transactional id shared by instances",
    outcome=LOST,
    evidence="fenced, and all instances alive",
    fix="One for each instance, the same at each start.",
    proof=lost_proofs.shared_id,
)
_NOT_WAITED_FOR: Final = Mistake(
    name="rebalance that was not waited for",
    outcome=LOST,
    evidence="the member lived on, its work in hand did not",
    fix="At a revocation finish it.",
    proof=lost_proofs.handed_over,
)
_AUTOMATIC: Final = Mistake(
    name="automatic commit while records were in work",
    outcome=LOST,
    evidence="commits come on a timer, amid outputs",
    fix="Turn it off; commit after acknowledgements.",
    proof=lost_proofs.commits_automatically,
)
_COMMITTED_FIRST: Final = Mistake(
    name="position committed before the output was acknowledged",
    outcome=LOST,
    evidence="an end between commit and output",
    fix="Flush, look at delivery reports, and then commit.",
    proof=lost_proofs.committed_first,
)
MISTAKES: Final = (
    Mistake(
        name="offset that brokers gave twice",
        outcome=LOST,
        evidence="another input was acknowledged at it before",
        fix="See highwater inspect.",
        proof=lost_proofs.given_twice,
        by="Kafka",
    ),
    Mistake(
        name="output that brokers have lost",
        outcome=LOST,
        evidence="a disk has it, readers do not",
        fix="See highwater inspect.",
        proof=lost_proofs.left_on_a_disk,
        by="Kafka",
    ),
    Mistake(
        name="acknowledged output that brokers have lost",
        outcome=LOST,
        evidence="acknowledged on the wire with acks=all, in no log",
        fix="See highwater inspect.",
        proof=lost_proofs.acknowledged_and_lost,
        by="Kafka",
    ),
    Mistake(
        name="output that its leader alone had",
        outcome=LOST,
        evidence="the same with acks=1",
        fix="Set acks=all.",
        proof=lost_proofs.leader_alone,
    ),
    _POSITION_OUTSIDE,
    SHARED_ID,
    Mistake(
        name="no way back after an aborted transaction",
        outcome=LOST,
        evidence="output aborted, position in another transaction",
        fix="Go back to these positions, or end.",
        proof=lost_proofs.no_way_back,
    ),
    Mistake(
        name="auto.offset.reset=latest without a position",
        outcome=LOST,
        evidence="no position; assigned after the input",
        fix="Begin at earliest; let positions outlive records.",
        proof=lost_proofs.begins_at_latest,
    ),
    _NOT_WAITED_FOR,
    _AUTOMATIC,
    _COMMITTED_FIRST,
    replace(_AUTOMATIC, outcome=HALF),
    replace(_COMMITTED_FIRST, outcome=HALF),
    Mistake(
        name="delivery error ignored",
        outcome=LOST,
        evidence="a fault meanwhile; commits come after outputs",
        fix="At an error go back, or end.",
        proof=lost_proofs.error_ignored,
    ),
    Mistake(
        name="input passed without an output",
        outcome=LOST,
        evidence="a later input has one, nothing ended",
        fix="Look at errors first.",
        proof=lost_proofs.passed_over,
    ),
    Mistake(
        name="output outside of the transaction",
        outcome=DOUBLED,
        evidence="exactly-once is declared",
        fix="Use one transaction for both.",
        proof=doubled_proofs.output_outside,
    ),
    replace(_POSITION_OUTSIDE, outcome=DOUBLED, proof=doubled_proofs.position_outside),
    Mistake(
        name="paused instance went on with what was no longer its own",
        outcome=DOUBLED,
        evidence="meanwhile another wrote the output",
        fix="Use transactions with the group's metadata.",
        proof=doubled_proofs.zombie,
    ),
    replace(_NOT_WAITED_FOR, outcome=DOUBLED, proof=doubled_proofs.handed_over),
    Mistake(
        name="position not committed when an instance ended",
        outcome=DOUBLED,
        evidence="an end between output and commit",
        fix="Expect it, or use transactions.",
        proof=doubled_proofs.not_committed,
    ),
    Mistake(
        name="read_uncommitted behind transactions",
        outcome=ABORTED,
        evidence="nearly all aborted inputs have an output",
        fix="Set isolation.level to read_committed.",
    ),
    Mistake(
        name="transactional id new at each start",
        outcome=UNFINISHED,
        evidence="one timed out, no later start had it",
        fix="Give each instance its own, the same at each start.",
    ),
)
READ_UNCOMMITTED, NEW_ID = MISTAKES[-2:]

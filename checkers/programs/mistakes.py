"""The mistakes of programs, each with the evidence that shows it, and its fix.

Mistakes are tried in order. A finding names the first mistake that the disks and the events of
instances show. If they show no mistake, it is not known who did it. Brokers that had a fault may
have lost an output that was acknowledged. So an output that is missing after the first fault of a
broker proves no mistake.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from highwater.checkers.programs import doubled_proofs, lost_proofs
from highwater.checkers.programs.evidence import InputEvidence
from highwater.checkers.programs.outcomes import DOUBLED, HALF, LOST

ABORTED: Final = "aborted"
UNFINISHED: Final = "unfinished"
"""Outcomes that ``outcomes`` does not have: that of an aborted input, and that of a transaction of
the program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """A kind of mistake.

    Attributes:
        outcome: the outcome of the inputs that the mistake explains.
        evidence: what shows the mistake, for the documentation.
        fix: what to do instead, a sentence.
        proof: returns the sentence that shows the mistake; empty if nothing shows it.
        by: who made the mistake.
    """

    name: str
    outcome: str
    evidence: str
    fix: str
    proof: Callable[[InputEvidence], str] = lambda _: ""
    by: str = "The program"


def mistake_of(evidence: InputEvidence) -> tuple[Mistake, str] | None:
    """Return the first mistake that the evidence shows, and the sentence that shows it."""
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
    fix="Give each instance its own, the same at each start.",
    proof=lost_proofs.shared_id,
)
_NOT_WAITED_FOR: Final = Mistake(
    name="rebalance that was not waited for",
    outcome=LOST,
    evidence="the member stayed, its unfinished work was lost",
    fix="Finish work at a revocation.",
    proof=lost_proofs.handed_over,
)
_AUTOMATIC: Final = Mistake(
    name="automatic commit while records were in work",
    outcome=LOST,
    evidence="commits come on a timer, amid outputs",
    fix="Disable auto-commit; commit after acknowledgements.",
    proof=lost_proofs.commits_automatically,
)
_COMMITTED_FIRST: Final = Mistake(
    name="position committed before the output was acknowledged",
    outcome=LOST,
    evidence="an instance ended between commit and output",
    fix="Flush, look at delivery reports, and then commit.",
    proof=lost_proofs.committed_first,
)
MISTAKES: Final = (
    Mistake(
        name="offset that brokers gave twice",
        outcome=LOST,
        evidence="another input was acknowledged there before",
        fix="See highwater inspect.",
        proof=lost_proofs.given_twice,
        by="Kafka",
    ),
    Mistake(
        name="output that brokers have lost",
        outcome=LOST,
        evidence="a disk has it, readers do not get it",
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
        evidence="acknowledged with acks=1, in no log",
        fix="Set acks=all.",
        proof=lost_proofs.leader_alone,
    ),
    Mistake(
        name="position past the end of the log",
        outcome=LOST,
        evidence="the input was sent after the commit that passed it",
        fix="Commit the last record's offset plus one; update the client.",
        proof=lost_proofs.past_the_end,
    ),
    _POSITION_OUTSIDE,
    SHARED_ID,
    Mistake(
        name="no way back after an aborted transaction",
        outcome=LOST,
        evidence="output aborted, position in another transaction",
        fix="Seek to the committed positions, or exit.",
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
        fix="At an error seek back, or exit.",
        proof=lost_proofs.error_ignored,
    ),
    Mistake(
        name="input passed without an output",
        outcome=LOST,
        evidence="a later input has an output, no instance ended",
        fix="Check errors first; update the client.",
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
        evidence="meanwhile another instance wrote the output",
        fix="Use transactions with the group's metadata.",
        proof=doubled_proofs.zombie,
    ),
    replace(_NOT_WAITED_FOR, outcome=DOUBLED, proof=doubled_proofs.handed_over),
    Mistake(
        name="position not committed when an instance ended",
        outcome=DOUBLED,
        evidence="an instance ended between output and commit",
        fix="Expect duplicates, or use transactions.",
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
        evidence="an id timed out, no later start had it",
        fix="Give each instance its own, the same at each start.",
    ),
)
READ_UNCOMMITTED, NEW_ID = MISTAKES[-2:]

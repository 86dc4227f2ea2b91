"""The mistakes of programs: for each mistake, the evidence that shows it, and the fix.

A finding names the first mistake in this list that the disks and the instances' events prove. If
they prove none, the cause is unknown. After the first fault of a broker, a missing output proves no
mistake of the program: the broker may have lost an acknowledged output.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from highwater.checkers.programs import doubled_proofs, lost_proofs
from highwater.checkers.programs.evidence import InputEvidence
from highwater.checkers.programs.outcomes import DOUBLED, HALF, LOST

ABORTED: Final = "aborted"
UNFINISHED: Final = "unfinished"
OUT_OF_ORDER: Final = "out of order"
ACKNOWLEDGED: Final = "acknowledged"
"""Outcomes in addition to those of ``outcomes``: an aborted input that was processed, a transaction
that was left open, an input that a later input has overtaken, and an acknowledged record that is
lost. """


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """A kind of mistake.

    Attributes:
        outcome: the outcome of the inputs that the mistake explains.
        fault: the fault that reveals the mistake, for ``--nemesis``; empty if none is needed.
        evidence: the facts that show the mistake, for the documentation.
        fix: a sentence that says how to fix the program.
        proof: returns the sentence that shows the mistake; empty if nothing shows it.
        by: the party that made the mistake: the program or Kafka.
    """

    name: str
    outcome: str
    evidence: str
    fix: str
    proof: Callable[[InputEvidence], str] = lambda _: ""
    by: str = "The program"
    fault: str = ""


def mistake_of(evidence: InputEvidence) -> tuple[Mistake, str] | None:
    """Return the first mistake that the evidence shows, and the sentence that shows it."""
    for mistake in MISTAKES:
        if mistake.outcome == evidence.outcome and (says := mistake.proof(evidence)):
            return mistake, says
    return None


_POSITION_OUTSIDE: Final = Mistake(
    name="position outside of the transaction",
    fault="app-kill",
    outcome=LOST,
    evidence="outputs are in transactions, positions are not",
    fix="Use sendOffsetsToTransaction.",
    proof=lost_proofs.position_outside,
)
SHARED_ID: Final = Mistake(
    name="transactional id shared by instances",
    outcome=LOST,
    evidence="fenced, and all instances alive",
    fix="Give each instance its own id, the same at each start.",
    proof=lost_proofs.shared_id,
)
_NOT_WAITED_FOR: Final = Mistake(
    name="rebalance that was not waited for",
    fault="app-stop",
    outcome=LOST,
    evidence="the member stayed, its unfinished work was lost",
    fix="Finish the work before a revocation.",
    proof=lost_proofs.handed_over,
)
_NEWEST: Final = Mistake(
    name="position of the newest finished input committed",
    fault="app-kill",
    outcome=LOST,
    evidence="commits follow their last input's output alone",
    fix="Commit up to the first input that is not finished.",
    proof=lost_proofs.newest_committed,
)
_TWICE: Final = Mistake(
    name="automatic commit beside the program's own",
    fault="app-kill",
    outcome=LOST,
    evidence="positions often go back",
    fix="Set enable.auto.commit=false.",
    proof=lost_proofs.committed_twice,
)
_AUTOMATIC: Final = Mistake(
    name="automatic commit while records were being processed",
    fault="app-kill",
    outcome=LOST,
    evidence="commits come on a timer, between outputs",
    fix="Disable auto-commit; commit after acknowledgements.",
    proof=lost_proofs.commits_automatically,
)
_COMMITTED_FIRST: Final = Mistake(
    name="position committed before the output was acknowledged",
    fault="app-kill",
    outcome=LOST,
    evidence="an instance ended between commit and output",
    fix="Flush, look at delivery reports, and then commit.",
    proof=lost_proofs.committed_first,
)
MISTAKES: Final = (
    Mistake(
        name="offset that brokers assigned twice",
        outcome=LOST,
        evidence="another input was acknowledged there before",
        fix="See highwater inspect.",
        proof=lost_proofs.given_twice,
        by="Kafka",
    ),
    Mistake(
        name="output that brokers have lost",
        outcome=LOST,
        evidence="a disk has the output, readers do not get it",
        fix="See highwater inspect.",
        proof=lost_proofs.left_on_a_disk,
        by="Kafka",
    ),
    Mistake(
        name="acknowledged output that brokers have lost",
        outcome=LOST,
        evidence="acknowledged with acks=all, in no log",
        fix="See highwater inspect.",
        proof=lost_proofs.acknowledged_and_lost,
        by="Kafka",
    ),
    Mistake(
        name="output that its leader alone had",
        fault="isolate",
        outcome=LOST,
        evidence="acknowledged with acks=1, in no log",
        fix="Set acks=all.",
        proof=lost_proofs.leader_alone,
    ),
    Mistake(
        name="position past the end of the log",
        fault="app-stop",
        outcome=LOST,
        evidence="the input was sent after the commit that passed it",
        fix="Commit the last record's offset plus one; update the client.",
        proof=lost_proofs.past_the_end,
    ),
    _POSITION_OUTSIDE,
    SHARED_ID,
    Mistake(
        name="no seek back after an aborted transaction",
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
    _NEWEST,
    _TWICE,
    _AUTOMATIC,
    _COMMITTED_FIRST,
    replace(_AUTOMATIC, outcome=HALF),
    replace(_COMMITTED_FIRST, outcome=HALF),
    Mistake(
        name="delivery error ignored",
        fault="app-refuse-outputs",
        outcome=LOST,
        evidence="its Produce was refused or never answered",
        fix="At an error seek back, or exit.",
        proof=lost_proofs.error_ignored,
    ),
    Mistake(
        name="delivery error ignored, or input skipped",
        fault="app-cut",
        outcome=LOST,
        evidence="passed during a fault, and never without one",
        fix="At an error seek back, or exit.",
        proof=lost_proofs.passed_in_trouble,
    ),
    Mistake(
        name="no seek back after an aborted transaction, or input skipped",
        outcome=LOST,
        evidence="passed by a transaction without its output",
        fix="Seek to the committed positions, or exit.",
        proof=lost_proofs.passed_by_transaction,
    ),
    Mistake(
        name="auto.offset.reset=latest without a position, or input skipped",
        outcome=LOST,
        evidence="no position; no disk has the assignments",
        fix="Begin at earliest.",
        proof=lost_proofs.passed_at_first,
    ),
    Mistake(
        name="input passed without an output",
        outcome=LOST,
        evidence="a later input has an output, no instance ended",
        fix="Seek back or retry, before a later commit. Or update the client.",
        proof=lost_proofs.passed_over,
    ),
    Mistake(
        name="output outside of the transaction",
        fault="app-kill",
        outcome=DOUBLED,
        evidence="exactly-once is declared, positions are in transactions",
        fix="Use one transaction for both.",
        proof=doubled_proofs.output_outside,
    ),
    replace(_POSITION_OUTSIDE, outcome=DOUBLED, proof=doubled_proofs.position_outside),
    Mistake(
        name="paused instance continued with inputs of a lost partition",
        fault="app-pause",
        outcome=DOUBLED,
        evidence="meanwhile another instance wrote the output",
        fix="Use transactions with the group's metadata.",
        proof=doubled_proofs.zombie,
    ),
    replace(_NOT_WAITED_FOR, outcome=DOUBLED, proof=doubled_proofs.handed_over),
    replace(_NOT_WAITED_FOR, outcome=DOUBLED, proof=doubled_proofs.both_worked),
    replace(_NOT_WAITED_FOR, outcome=DOUBLED, proof=doubled_proofs.read_before),
    replace(_NOT_WAITED_FOR, outcome=DOUBLED, proof=doubled_proofs.no_longer_its_own),
    Mistake(
        name="older position committed over a newer one",
        fault="app-stop",
        outcome=DOUBLED,
        evidence="the committed offset went back between the outputs",
        fix="Forget positions at a rebalance.",
        proof=doubled_proofs.older_position,
    ),
    Mistake(
        name="poll or heartbeat later than the group's timeout",
        outcome=DOUBLED,
        evidence="its member left, and nothing had a fault",
        fix="Use smaller batches, or a higher max.poll.interval.ms.",
        proof=doubled_proofs.put_out,
    ),
    Mistake(
        name="output sent again by the program, or input read again",
        fault="app-slow",
        outcome=DOUBLED,
        evidence="idempotent producer, no end, no rebalance",
        fix="Await the outcome of a send.",
        proof=doubled_proofs.sent_again,
    ),
    Mistake(
        name="retry without idempotence, or output sent again by the program",
        fault="app-lose-answers",
        outcome=DOUBLED,
        evidence="no producer id, no end, no rebalance",
        fix="Set enable.idempotence; await the outcome.",
        proof=doubled_proofs.retried,
    ),
    Mistake(
        name="no position committed by the group",
        fault="app-kill",
        outcome=DOUBLED,
        evidence="the group never had a position",
        fix="Commit after the outputs are acknowledged.",
        proof=doubled_proofs.never_committed,
    ),
    Mistake(
        name="position stopped before an offset without a record",
        fault="app-kill",
        outcome=DOUBLED,
        evidence="later inputs had outputs, the position never moved",
        fix="Move the position past offsets without a record.",
        proof=doubled_proofs.before_a_gap,
    ),
    Mistake(
        name="positions of some partitions not committed",
        fault="app-kill",
        outcome=DOUBLED,
        evidence="the member committed another partition meanwhile",
        fix="Commit the highest offset of each partition.",
        proof=doubled_proofs.some_partitions,
    ),
    Mistake(
        name="position not committed when an instance ended",
        fault="app-stop",
        outcome=DOUBLED,
        evidence="an instance ended between output and commit",
        fix="Expect duplicates, or use transactions.",
        proof=doubled_proofs.not_committed,
    ),
    Mistake(
        name="position not committed when the group revoked the partition",
        fault="app-cut",
        outcome=DOUBLED,
        evidence="the member was not in the next generation",
        fix="Expect duplicates, or use transactions.",
        proof=doubled_proofs.taken_over,
    ),
    Mistake(
        name="no transactions, and exactly-once is declared",
        fault="app-kill",
        outcome=DOUBLED,
        evidence="an output is in no transaction",
        fix="Use one transaction for both.",
        proof=doubled_proofs.no_transaction,
    ),
    Mistake(
        name="outputs sent in another order than their inputs",
        outcome=OUT_OF_ORDER,
        evidence="one instance sent both, none failed before",
        fix="Send later inputs of a key only after the key's retries.",
    ),
    Mistake(
        name="failed send repeated behind later outputs",
        fault="app-refuse-outputs",
        outcome=OUT_OF_ORDER,
        evidence="an earlier Produce was refused or not answered",
        fix="Set enable.idempotence; await the outcome.",
    ),
    Mistake(
        name="read_uncommitted behind transactions",
        outcome=ABORTED,
        evidence="nearly all aborted inputs have an output",
        fix="Set isolation.level to read_committed.",
    ),
    Mistake(
        name="transactional id new at each start",
        fault="app-kill",
        outcome=UNFINISHED,
        evidence="an id timed out, no later start had it",
        fix="Give each instance its own id, the same at each start.",
    ),
    Mistake(
        name="sequence number of another record",
        outcome=ACKNOWLEDGED,
        evidence="the offset has another record of that number",
        fix="Update the client.",
    ),
)
SENT_OUT_OF_ORDER, REPEATED_LATE, READ_UNCOMMITTED, NEW_ID, TAKEN_FOR_ANOTHER = MISTAKES[-5:]

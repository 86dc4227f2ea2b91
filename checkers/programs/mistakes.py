"""The mistakes of programs: each with the evidence that shows it, and its fix.

They are tried in order, and the first one that the disks and the lives of instances show is told.
If none is shown, it is not known who did it. Brokers that had a fault may have lost an output that
was acknowledged, so nothing is told of a missing output after the first of these.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from highwater.checkers.groups.events import FOREVER
from highwater.checkers.groups.generations import Generation
from highwater.checkers.programs.evidence import ENDS, InputEvidence, interrupted, seconds
from highwater.checkers.programs.facts import position_at
from highwater.checkers.programs.outcomes import DOUBLED, LOST

_IN_FLIGHT_NS: Final = 10_000_000_000
_ASKS_NS: Final = 1_000_000_000
"""A member asks for the log's end within this after it was assigned a partition."""

_CLOCKS_NS: Final = 100_000_000

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


def _kafkas(evidence: InputEvidence) -> str:
    stray = evidence.stray
    if stray is None:
        return ""
    return (
        f"the disk of broker {stray.broker} has its output at offset {stray.offset} of partition"
        f" {stray.partition}, and readers are not given it"
    )


def _position_outside(evidence: InputEvidence) -> str:
    passed = evidence.passed
    if passed is None or passed.transactional:
        return ""
    committed = f"position {passed.offset} was committed outside of it at {seconds(passed.time_ns)}"
    if evidence.withdrawn:
        return f"its output is in the log, in a transaction that was not committed; {committed}"
    if not evidence.habits.in_transactions or not (ended := _ended_before_its_output(evidence)):
        return ""
    return f"all outputs are in transactions, and positions are not: {ended}"


def _shared_id(evidence: InputEvidence) -> str:
    """Show that instances fence each other, and that one went on behind its aborted transaction."""
    passed = evidence.passed
    fenced = evidence.habits.fenced
    if passed is None or not passed.transactional or not fenced:
        return ""
    if passed.time_ns >= evidence.undisturbed_ns:
        return ""
    return (
        f"{len(fenced)} transactions of {fenced[0].name} were ended by another producer of that"
        " name while all instances were alive; it was passed by the transaction of position"
        f" {passed.offset}, at {seconds(passed.time_ns)}, which has no output of it"
    )


def _no_way_back(evidence: InputEvidence) -> str:
    """Show that a transaction was aborted, and that its inputs were not read again."""
    passed = evidence.passed
    if passed is None or not passed.transactional or not evidence.withdrawn:
        return ""
    if passed.time_ns >= evidence.undisturbed_ns:  # Kafka may have torn one transaction
        return ""
    return (
        "its output is in the log, in a transaction that was not committed; another one committed"
        f" position {passed.offset} at {seconds(passed.time_ns)}"
    )


def _latest(evidence: InputEvidence) -> str:
    """Show that a group without a position began at the log's end.

    The input was there before a member was assigned its partition, the next one with an output came
    after that, and in between no instance ended or was paused.
    """
    passed, following, sent_ns = evidence.passed, evidence.following, evidence.sent_ns
    if passed is None or following is None or sent_ns is None or evidence.before:
        return ""
    if following.output_ns >= evidence.undisturbed_ns:
        return ""
    for at, generation in evidence.habits.generations:
        assigned = generation.owner(evidence.partition) is not None
        begins_there = sent_ns <= at + _ASKS_NS and following.sent_ns >= at - _CLOCKS_NS
        if assigned and begins_there and not evidence.interruption(at, following.output_ns):
            return (
                f"its partition had no committed position when a member was assigned it at"
                f" {seconds(at)}; the input was sent before that, and the first one with an output"
                f" ({following.offset}) was sent at {seconds(following.sent_ns)}"
            )
    return ""


def _handed_over(evidence: InputEvidence) -> str:
    """Show that a member lived through a rebalance, and its input in work did not."""
    passed = evidence.passed
    owned = passed and evidence.owner(passed.time_ns)
    if passed is None or owned is None or passed.transactional:
        return ""
    member, before = owned
    for at, after in _later_generations(evidence, before, passed.time_ns):
        end = next((e for e in evidence.events if e.event in ENDS and e.time_ns >= at), None)
        until_ns = FOREVER if end is None else end.time_ns
        goes_on = (evidence.overdue_ns(evidence.before, passed, until_ns) or 0) > at
        if member not in after.members or goes_on:
            return ""
        if at >= min(evidence.later_ns, evidence.undisturbed_ns):
            return ""
        return (
            f"position {passed.offset} was committed at {seconds(passed.time_ns)}, in generation"
            f" {before.number} of the group, when neither its output nor one of a later input of"
            f" its partition was written; generation {after.number} began at {seconds(at)}, its"
            f" member {member} stayed, and its output was not written"
        )
    return ""


def _later_generations(
    evidence: InputEvidence, before: Generation, since_ns: int
) -> Iterator[tuple[int, Generation]]:
    return (
        (at, after)
        for at, after in evidence.habits.generations
        if at >= since_ns and after.number > before.number
    )


def _automatic(evidence: InputEvidence) -> str:
    habits, passed = evidence.habits, evidence.passed
    if not habits.automatic or passed is None or passed.transactional:
        return ""
    ended = _ended_before_its_output(evidence)
    return ended and (
        f"positions were committed every {habits.interval_s:.1f} s, whatever was in work: {ended}"
    )


def _committed_first(evidence: InputEvidence) -> str:
    """Show that a position was committed before its output; not of a program that never does."""
    return "" if evidence.habits.never_ahead else _ended_before_its_output(evidence)


def _ended_before_its_output(evidence: InputEvidence) -> str:
    """Show that an instance ended between a commit and the outputs of inputs that it passed.

    Either no later input of the partition had an output before that end; or outputs that the commit
    had passed were still written, and the position did not move on meanwhile.
    """
    passed = evidence.passed
    if passed is None:
        return ""
    end = next(
        (e for e in evidence.events if e.event in ENDS and e.time_ns >= passed.time_ns), None
    )
    if end is None or end.time_ns >= evidence.undisturbed_ns:
        return ""
    committed = f"position {passed.offset} was committed at {seconds(passed.time_ns)}"
    if evidence.later_ns > end.time_ns:
        return (
            f"{committed}, when neither its output nor one of a later input of its partition was"
            f" written; {interrupted(end)}, and none was written since"
        )
    late_ns = evidence.overdue_ns(evidence.before, passed, end.time_ns)
    if late_ns is None or position_at(evidence.commits or (), end.time_ns) != passed.offset:
        return ""
    return (
        f"{committed}, and outputs of inputs before it were still written at {seconds(late_ns)};"
        f" {interrupted(end)}, and its own was not written"
    )


def _ignored(evidence: InputEvidence) -> str:
    """Show that an input was passed while outputs could not be delivered."""
    passed = evidence.passed
    if passed is None or not evidence.habits.never_ahead or not (says := _passed_over(evidence)):
        return ""
    since_ns = _time_of(evidence, evidence.before)
    trouble = next(
        (
            trouble
            for trouble in evidence.troubles
            if trouble.time_ns <= passed.time_ns and trouble.until_ns >= since_ns
        ),
        None,
    )
    return f"{trouble.says} at {seconds(trouble.time_ns)}; {says}" if trouble else ""


def _passed_over(evidence: InputEvidence) -> str:
    """Show that an instance went on to later inputs without an output of this one.

    An instance that ended soon after may have had the output in flight, unless the program never
    commits a position before the outputs.
    """
    passed = evidence.passed
    if passed is None or evidence.later_ns == FOREVER:
        return ""
    end = max(evidence.later_ns, passed.time_ns)
    passed_over = (
        f"a later input of its partition had its output at {seconds(evidence.later_ns)} and"
        f" position {passed.offset} was committed at {seconds(passed.time_ns)}"
    )
    if evidence.habits.never_ahead and end < evidence.undisturbed_ns:
        return f"{passed_over}; this program commits a position when the outputs are there"
    until = end + _IN_FLIGHT_NS
    since = _time_of(evidence, evidence.before)
    if until >= evidence.undisturbed_ns or evidence.interruption(since, until) is not None:
        return ""
    return f"{passed_over}, and no instance ended or was paused meanwhile, or soon after"


def _time_of(evidence: InputEvidence, position: int) -> int:
    """Return when a position was committed first; 0 where it was not."""
    return next((c.time_ns for c in evidence.commits or () if c.offset == position), 0)


def _output_outside(evidence: InputEvidence) -> str:
    if evidence.guarantee != "exactly-once" or evidence.transactional is not False:
        return ""
    return "not all of its outputs are part of a transaction"


def _position_outside_later(evidence: InputEvidence) -> str:
    commits = evidence.commits or ()
    if not evidence.habits.in_transactions or any(commit.transactional for commit in commits):
        return ""
    ended = _not_committed(evidence)
    return ended and f"all outputs are in transactions, and positions are not: {ended}"


def _zombie(evidence: InputEvidence) -> str:
    """Show that an instance was paused while another wrote the output, and then wrote its own."""
    first, last = evidence.outputs[0].time_ns, evidence.outputs[-1].time_ns
    for pause in (event for event in evidence.events if event.event == "paused"):
        resumed_ns = next(
            (
                event.time_ns
                for event in evidence.events
                if event.event == "resumed"
                and event.instance == pause.instance
                and event.time_ns >= pause.time_ns
            ),
            FOREVER,
        )
        if pause.time_ns < first < resumed_ns < last:
            return (
                f"{interrupted(pause)}; the output was written meanwhile, and again after the"
                f" instance went on at {seconds(resumed_ns)}"
            )
    return ""


def _handed_over_uncommitted(evidence: InputEvidence) -> str:
    """Show that a member lived through a rebalance after the output and before the commit."""
    first, last = evidence.outputs[0].time_ns, evidence.outputs[-1].time_ns
    owned = evidence.owner(first)
    if owned is None or evidence.commits is None:
        return ""
    member, before = owned
    at, after = next(_later_generations(evidence, before, first), (FOREVER, before))
    position = position_at(evidence.commits, at)
    if at >= last or member not in after.members or position > evidence.offset:
        return ""
    return (
        f"its output was written at {seconds(first)} in generation {before.number} of the group;"
        f" generation {after.number} began at {seconds(at)}, when the committed position was"
        f" {position}, although member {member} stayed; it was written again at {seconds(last)}"
    )


def _not_committed(evidence: InputEvidence) -> str:
    """Show that an instance ended, or was paused, after the output and before the commit."""
    first, last = evidence.outputs[0].time_ns, evidence.outputs[-1].time_ns
    event = evidence.interruption(first, last)
    if event is None or evidence.commits is None:
        return ""
    position = position_at(evidence.commits, event.time_ns)
    if position > evidence.offset:
        return ""
    return (
        f"its output was written at {seconds(first)}; {interrupted(event)}, when the committed"
        f" position was {position}; it was written again at {seconds(last)}"
    )


_POSITION_OUTSIDE: Final = Mistake(
    name="position outside of the transaction",
    outcome=LOST,
    evidence="outputs are in transactions, positions are not",
    fix="Commit it in the transaction (sendOffsetsToTransaction).",
    proof=_position_outside,
)
_NOT_WAITED_FOR: Final = Mistake(
    name="rebalance that was not waited for",
    outcome=LOST,
    evidence="the member lived on, its work in hand did not",
    fix="When partitions are revoked, finish the work and commit just that.",
    proof=_handed_over,
)
MISTAKES: Final = (
    Mistake(
        name="output that brokers have lost",
        outcome=LOST,
        evidence="a disk has the output, readers are not given it",
        fix="Compare the replicas: highwater inspect.",
        proof=_kafkas,
        by="Kafka",
    ),
    _POSITION_OUTSIDE,
    Mistake(
        name="transactional id shared by instances",
        outcome=LOST,
        evidence="transactions were fenced, and all instances alive",
        fix="Give each instance an id of its own, the same at each start.",
        proof=_shared_id,
    ),
    Mistake(
        name="no way back after an aborted transaction",
        outcome=LOST,
        evidence="output in an aborted transaction, position in a committed one",
        fix="After an abort go back to the committed positions, or end.",
        proof=_no_way_back,
    ),
    Mistake(
        name="auto.offset.reset=latest without a position",
        outcome=LOST,
        evidence="no position; the assignment came later than the input",
        fix="Begin at earliest; let positions outlive records.",
        proof=_latest,
    ),
    _NOT_WAITED_FOR,
    Mistake(
        name="automatic commit while records were in work",
        outcome=LOST,
        evidence="commits come on a timer, amid outputs",
        fix="Turn it off, and commit when outputs are acknowledged.",
        proof=_automatic,
    ),
    Mistake(
        name="position committed before the output was acknowledged",
        outcome=LOST,
        evidence="an instance ended between commit and output",
        fix="Flush, look at every delivery report, and then commit.",
        proof=_committed_first,
    ),
    Mistake(
        name="delivery error ignored",
        outcome=LOST,
        evidence="a fault of brokers or connections; commits come after outputs",
        fix="At an error go back, or end.",
        proof=_ignored,
    ),
    Mistake(
        name="input passed without an output",
        outcome=LOST,
        evidence="a later input has one, and no instance ended",
        fix="Look at every error before the position is committed.",
        proof=_passed_over,
    ),
    Mistake(
        name="output outside of the transaction",
        outcome=DOUBLED,
        evidence="exactly-once is declared, and it is in none",
        fix="Write outputs and position in one transaction.",
        proof=_output_outside,
    ),
    replace(_POSITION_OUTSIDE, outcome=DOUBLED, proof=_position_outside_later),
    Mistake(
        name="paused instance went on with what was no longer its own",
        outcome=DOUBLED,
        evidence="meanwhile another wrote the output",
        fix="Write in transactions with the group's metadata.",
        proof=_zombie,
    ),
    replace(_NOT_WAITED_FOR, outcome=DOUBLED, proof=_handed_over_uncommitted),
    Mistake(
        name="position not committed when an instance ended",
        outcome=DOUBLED,
        evidence="an instance ended between output and commit",
        fix="Expect it under at least once; else use transactions.",
        proof=_not_committed,
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
        evidence="a transaction timed out, and no later start had its id",
        fix="Give each instance an id of its own, the same at each start.",
    ),
)
READ_UNCOMMITTED, NEW_ID = MISTAKES[-2:]
SHARED_ID: Final = MISTAKES[2]

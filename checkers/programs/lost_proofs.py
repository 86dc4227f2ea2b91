"""Proofs of mistakes that lose an input or half of it.

Each function returns the proof as a sentence; empty without proof. A commit *passes* an input if
the committed position is after the input.
"""

from collections.abc import Collection
from typing import Final

from highwater.checkers.groups.events import FOREVER
from highwater.checkers.programs.evidence import (
    CLOCKS_NS,
    ENDS,
    InputEvidence,
    interrupted,
    seconds,
)
from highwater.checkers.programs.facts import Position, Trouble, position_at
from highwater.checkers.programs.outcomes import HALF
from highwater.checkers.programs.output_times import MS_NS

_IN_FLIGHT_NS: Final = 10_000_000_000
_ASKS_NS: Final = 1_000_000_000
"""The time after an assignment within which a member may request the log's end."""

_SEVERAL: Final = 3
_ALL_ACKS: Final = frozenset((-1,))
_ONE_ACK: Final = frozenset((1,))


def given_twice(evidence: InputEvidence) -> str:
    """Show that another input had this input's offset before. Later readers may miss this input."""
    if evidence.rival is None:
        return ""
    return (
        f"the input's offset was acknowledged for {evidence.rival} before, and a reader that had "
        f"passed "
        "this offset does not receive the new record"
    )


def left_on_a_disk(evidence: InputEvidence) -> str:
    """Show that a disk has an output that readers do not receive."""
    stray = evidence.stray
    if stray is None:
        return ""
    return (
        f"the disk of broker {stray.broker} has the input's output at offset {stray.offset} of "
        f"partition"
        f" {stray.partition}, and readers do not receive it"
    )


def _acknowledged_and_gone(evidence: InputEvidence, acks: Collection[int]) -> str:
    """Show that brokers lost outputs that they had acknowledged before the inputs were committed.

    The program always commits after acknowledgements, so this input's output was acknowledged, too.
    """
    passed = evidence.passed
    if passed is None or not evidence.habits.never_ahead:
        return ""
    since_ns = max(evidence.sent_ns or 0, _time_of(evidence, evidence.before))
    for gone in evidence.gone:
        if since_ns <= gone.answered_ns <= passed.time_ns + CLOCKS_NS and gone.acks in acks:
            return (
                f"outputs from offset {gone.offset} of partition {gone.partition} on were"
                f" acknowledged at {seconds(gone.answered_ns)}, but no log has them. Position"
                f" {passed.offset} was committed at {seconds(passed.time_ns)}, and this program "
                f"always"
                " commits after its outputs are acknowledged"
            )
    return ""


def acknowledged_and_lost(evidence: InputEvidence) -> str:
    """Show that brokers lost an output that was written with acks=all."""
    return _acknowledged_and_gone(evidence, _ALL_ACKS)


def leader_alone(evidence: InputEvidence) -> str:
    """Show that brokers lost an output that was written with acks=1."""
    return _acknowledged_and_gone(evidence, _ONE_ACK)


def position_outside(evidence: InputEvidence) -> str:
    """Show that a position was committed outside of transactions, before the input's output."""
    passed = evidence.passed
    if passed is None or passed.transactional:
        return ""
    committed = (
        f"position {passed.offset} was committed outside of transactions, at "
        f"{seconds(passed.time_ns)}"
    )
    if evidence.withdrawn:
        return (
            f"the input's output is in the log, in a transaction that was not committed, "
            f"but {committed}"
        )
    if not evidence.habits.in_transactions or not (ended := _ended_before_its_output(evidence)):
        return ""
    return f"all outputs are in transactions, and positions are not: {ended}"


def shared_id(evidence: InputEvidence) -> str:
    """Show that instances fence each other, and continue after their transactions were aborted."""
    passed = evidence.passed
    fenced = evidence.habits.fenced
    if passed is None or not passed.transactional or not fenced:
        return ""
    if passed.time_ns >= evidence.undisturbed_ns:
        return ""
    return (
        f"{len(fenced)} transactions of {fenced[0].name} were ended by another producer with that"
        " id while all instances were alive. The input was passed by the transaction of position"
        f" {passed.offset}, at {seconds(passed.time_ns)}, which has no output of the input"
    )


def no_way_back(evidence: InputEvidence) -> str:
    """Show that a transaction was aborted, and that its inputs were not read again.

    The log need not have the output: the program may not have sent it before the abort.
    """
    passed = evidence.passed
    if passed is None or not passed.transactional:
        return ""
    # Kafka may have committed a transaction only in part
    if passed.time_ns >= evidence.undisturbed_ns:
        return ""
    committed = f"committed position {passed.offset} at {seconds(passed.time_ns)}"
    if evidence.withdrawn:
        return (
            "the input's output is in the log, in a transaction that was not committed. Another"
            f" transaction {committed}"
        )
    since = _time_of(evidence, evidence.before)
    aborted = [at for at in evidence.habits.aborted if since <= at < passed.time_ns]
    if not aborted:
        return ""
    return (
        f"a transaction was aborted at {seconds(aborted[-1])}, after position {evidence.before}"
        f" was committed. The next transaction {committed}, without an output of the input"
    )


def past_the_end(evidence: InputEvidence) -> str:
    """Show that the program committed a position after an input that was not sent yet.

    The time of the commit is that of its request; without a recorded request, it is the broker's
    time. After a broker's fault nothing is proved, because the broker may have lost another record
    at the offset.
    """
    passed, invoked_ns = evidence.passed, evidence.invoked_ns
    if passed is None or invoked_ns is None:
        return ""
    of_brokers = (fault for fault in evidence.troubles if not fault.fault.startswith("app-"))
    if any(fault.time_ns <= invoked_ns for fault in of_brokers):
        return ""
    request = evidence.committed_by(passed)
    known_ns = passed.time_ns + CLOCKS_NS if request is None else request.time_ns
    committed = f"position {passed.offset} was committed at {seconds(passed.time_ns)}"
    if invoked_ns > known_ns:
        return (
            f"{committed}, and the input was not sent until {seconds(invoked_ns)}: the log ended "
            "before that position"
        )
    early = evidence.habits.past_the_end
    since_ns = _time_of(evidence, evidence.before)
    if len(early) < _SEVERAL or passed.offset != evidence.offset + 1 or invoked_ns <= since_ns:
        return ""
    at, other = seconds(early[0].time_ns), early[0]
    return (
        f"{committed}, soon after the input was sent, at {seconds(invoked_ns)}. This program"
        f" committed {len(early)} positions before their inputs were sent, such as {other.offset}"
        f" of partition {other.partition} at {at}, whose input was sent at"
        f" {seconds(other.invoked_ns)}"
    )


def begins_at_latest(evidence: InputEvidence) -> str:
    """Show that a group without a committed position began at the log's end.

    The input was sent before the partition was assigned, and the next input with an output was sent
    after the assignment. Between the two, no instance ended or was paused, and no earlier input was
    processed. A program that skips inputs elsewhere may have skipped this input, too.
    """
    passed, following = evidence.passed, evidence.following
    sent_ns = evidence.sent_ns if evidence.invoked_ns is None else evidence.invoked_ns
    if passed is None or following is None or sent_ns is None:
        return ""
    if evidence.before or evidence.calm:
        return ""
    if following.output_ns >= evidence.undisturbed_ns:
        return ""
    for at, generation in evidence.habits.generations:
        assigned = generation.owner(evidence.partition) is not None
        begins_there = sent_ns <= at + _ASKS_NS and following.sent_ns >= at - CLOCKS_NS
        here = Position(at, evidence.offset, transactional=False)
        if evidence.overdue_ns(0, here, following.output_ns) is not None:
            continue  # the member had begun before the input
        if assigned and begins_there and not evidence.interruption(at, following.output_ns):
            return (
                f"the input's partition had no committed position when the group assigned it at"
                f" {seconds(at)}. The input was sent before that, and the first input with an"
                f" output ({following.offset}) was sent at {seconds(following.sent_ns)}"
            )
    return ""


def handed_over(evidence: InputEvidence) -> str:
    """Show that a member stayed in its group at a rebalance, but never wrote the input's output."""
    passed = evidence.passed
    owned = passed and evidence.owner(passed.time_ns)
    if passed is None or owned is None or passed.transactional:
        return ""
    member, before = owned
    at, after = evidence.generation_after(before, passed.time_ns) or (FOREVER, before)
    end = next((e for e in evidence.events if e.event in ENDS and e.time_ns >= at), None)
    until_ns = FOREVER if end is None else end.time_ns
    goes_on = (evidence.overdue_ns(evidence.before, passed, until_ns) or 0) > at
    if member not in after.members or goes_on:
        return ""
    if at >= min(evidence.later_ns, evidence.undisturbed_ns):
        return ""
    return (
        f"position {passed.offset} was committed at {seconds(passed.time_ns)}, in generation"
        f" {before.number} of the group, when neither the input nor a later input of its"
        f" partition had an output. Generation {after.number} began at {seconds(at)}, its"
        f" member {member} stayed, and the input's output was never written"
    )


def commits_automatically(evidence: InputEvidence) -> str:
    """Show that a timer committed a position before the input's output."""
    habits, passed = evidence.habits, evidence.passed
    if not habits.automatic or passed is None or passed.transactional:
        return ""
    ahead = _ahead_of_its_output(evidence)
    return ahead and (
        f"positions were committed every {habits.interval_s:.1f} s, also before inputs were "
        "finished:"
        f" {ahead}"
    )


def newest_committed(evidence: InputEvidence) -> str:
    """Show that the program commits the newest output's position before older inputs' outputs."""
    passed, habits = evidence.passed, evidence.habits
    if passed is None or passed.transactional or not habits.commits_newest:
        return ""
    end = next(
        (e for e in evidence.events if e.event in ENDS and e.time_ns >= passed.time_ns), None
    )
    if end is None or end.time_ns >= evidence.undisturbed_ns:
        return ""
    if end.time_ns > passed.time_ns + habits.late_ns:
        return ""
    return (
        f"position {passed.offset} was committed at {seconds(passed.time_ns)}. This program"
        f" commits after the output of the last input that a commit passes, and"
        f" {habits.newest} of its commits came before outputs of earlier inputs, by up to"
        f" {seconds(habits.late_ns)}. Then {interrupted(end)}, and this output was not written"
    )


def committed_twice(evidence: InputEvidence) -> str:
    """Show that two parts of a program commit positions, one of them before the output."""
    passed, habits = evidence.passed, evidence.habits
    if passed is None or passed.transactional or not habits.commits_in_two_places:
        return ""
    ended = _ended_before_its_output(evidence)
    return ended and (
        f"older positions replaced newer positions {habits.reversals} times, without a rebalance:"
        f" {ended}"
    )


def committed_first(evidence: InputEvidence) -> str:
    """Show that a position was committed before the output; empty if the program usually waits."""
    return "" if evidence.habits.awaits_outputs else _ahead_of_its_output(evidence)


def _ahead_of_its_output(evidence: InputEvidence) -> str:
    """Show by an instance's end, or by requests, that a commit came before the output."""
    ended = _ended_before_its_output(evidence)
    by_wire = evidence.habits.ahead and evidence.outcome != HALF  # half: which output is not known
    return ended or (_unanswered(evidence) if by_wire else "")


def _unanswered(evidence: InputEvidence) -> str:
    """Show by requests that a position was committed, but the output was never acknowledged."""
    passed = evidence.passed
    if passed is None or not evidence.unwritten or evidence.gone:
        return ""
    request = evidence.unwritten[-1]
    return (
        f"position {passed.offset} was committed at {seconds(passed.time_ns)}, and the Produce with"
        f" the input's output, by {request.sender} at {seconds(request.time_ns)}, {request.answer}"
    )


def _ended_before_its_output(evidence: InputEvidence) -> str:
    """Show that an instance ended after a commit, before the passed inputs had their outputs.

    One of two facts must hold. No later input of the partition had an output before the instance
    ended. Or outputs of passed inputs were still written after the commit. All existing outputs of
    a half processed input were written between the commit and the instance's end.
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
    if evidence.outcome == HALF:
        first, last = evidence.written_ns
        between = passed.time_ns + MS_NS < first and last <= end.time_ns < evidence.later_ns
        return (
            f"{committed}, before the input's first output, at {seconds(first)}, and before the"
            f" outputs of later inputs of its partition. Then {interrupted(end)}, and the other "
            f"outputs were "
            "not written"
            if between
            else ""
        )
    if evidence.later_ns > end.time_ns:
        return (
            f"{committed}, when neither the input nor a later input of its partition had an output."
            f" Then {interrupted(end)}, and the input's output was never written"
        )
    late_ns = evidence.overdue_ns(evidence.before, passed, end.time_ns)
    if late_ns is None or position_at(evidence.commits or (), end.time_ns) != passed.offset:
        return ""
    return (
        f"{committed}, and outputs of inputs before this position were still written at "
        f"{seconds(late_ns)}."
        f" Then {interrupted(end)}, and this input's output was not written"
    )


def error_ignored(evidence: InputEvidence) -> str:
    """Show by requests that a commit passed an input whose output could not be delivered."""
    says = _unanswered(evidence) if evidence.habits.awaits_outputs else ""
    return says and (
        f"{says}. This program otherwise commits a position after the outputs of all "
        f"inputs before it"
    )


def passed_in_trouble(evidence: InputEvidence) -> str:
    """Show that a commit passed an input during a fault that may have prevented the input's output.

    If the program also passes inputs when there is no fault, nothing is proved.
    """
    passed = evidence.passed
    if passed is None or not evidence.habits.awaits_outputs or evidence.calm:
        return ""
    trouble = trouble_meanwhile(evidence)
    says = passed_over(evidence) if trouble else ""
    return f"{trouble.says} at {seconds(trouble.time_ns)}; {says}" if trouble and says else ""


def passed_by_transaction(evidence: InputEvidence) -> str:
    """Show that a transaction committed a position after an input, but not the input's output.

    Brokers record nothing about an aborted transaction without records.
    """
    passed = evidence.passed
    return passed_over(evidence) if passed and passed.transactional else ""


def passed_calmly(evidence: InputEvidence) -> bool:
    """Return whether a commit passed an input without an output, at a time without faults.

    A partition without a committed position is ignored: the group may have begun after its first
    inputs.
    """
    skipped = evidence.before > 0 and passed_over(evidence)
    return bool(skipped) and trouble_meanwhile(evidence) is None


def trouble_meanwhile(evidence: InputEvidence) -> Trouble | None:
    """Return the first fault between the commit that passed an input and the previous commit."""
    passed = evidence.passed
    if passed is None:
        return None
    since_ns = _time_of(evidence, evidence.before)
    return next(
        (
            trouble
            for trouble in evidence.troubles
            if trouble.time_ns <= passed.time_ns and trouble.until_ns >= since_ns
        ),
        None,
    )


def passed_at_first(evidence: InputEvidence) -> str:
    """Show that the group passed a partition's first inputs, if the assignments are unknown.

    For groups of KIP-848, no disk has the assignments. So the member may have begun after the
    input, or it may have skipped the input.
    """
    commits = evidence.commits
    if evidence.habits.generations or not commits or evidence.before or evidence.calm:
        return ""
    says = passed_over(evidence) if commits[0].offset > evidence.offset else ""
    return says and (
        f"{says}. The partition had no committed position before {seconds(commits[0].time_ns)}"
    )


def passed_over(evidence: InputEvidence) -> str:
    """Show that an instance continued with later inputs, but never wrote this input's output.

    If an instance ended soon after, nothing is proved: it may have sent the output. If the program
    never commits a position before the outputs, an instance's end does not matter.
    """
    passed = evidence.passed
    if passed is None or evidence.later_ns == FOREVER:
        return ""
    end = max(evidence.later_ns, passed.time_ns)
    passed_over = (
        f"a later input of the same partition had an output at {seconds(evidence.later_ns)}, and"
        f" position {passed.offset} was committed at {seconds(passed.time_ns)}"
    )
    if evidence.habits.never_ahead and end < evidence.undisturbed_ns:
        return f"{passed_over}. This program commits a position after the outputs are written"
    until = end + _IN_FLIGHT_NS
    since = _time_of(evidence, evidence.before)
    if until >= evidence.undisturbed_ns or evidence.interruption(since, until) is not None:
        return ""
    return f"{passed_over}. No instance ended or was paused in this time, or soon after"


def _time_of(evidence: InputEvidence, position: int) -> int:
    """Return the time of a position's first commit; 0 without such a commit."""
    return next((c.time_ns for c in evidence.commits or () if c.offset == position), 0)

"""Proofs of mistakes by which an input is lost, or half: each returns a sentence, or nothing."""

from collections.abc import Collection
from typing import Final

from highwater.checkers.groups.events import FOREVER
from highwater.checkers.programs.evidence import ENDS, InputEvidence, interrupted, seconds
from highwater.checkers.programs.facts import Position, position_at
from highwater.checkers.programs.outcomes import HALF
from highwater.checkers.programs.output_times import MS_NS

_IN_FLIGHT_NS: Final = 10_000_000_000
_ASKS_NS: Final = 1_000_000_000
"""A member asks for the log's end within this after it was assigned a partition."""

_CLOCKS_NS: Final = 100_000_000
_ALL_ACKS: Final = frozenset((-1,))
_ONE_ACK: Final = frozenset((1,))


def given_twice(evidence: InputEvidence) -> str:
    """Show that its offset was another input's before: who had read that one is not given it."""
    if evidence.rival is None:
        return ""
    return (
        f"its offset was acknowledged for {evidence.rival} before, and a reader that had come past"
        " it is not given what replaced that"
    )


def left_on_a_disk(evidence: InputEvidence) -> str:
    """Show that a disk has an output that readers are not given."""
    stray = evidence.stray
    if stray is None:
        return ""
    return (
        f"the disk of broker {stray.broker} has its output at offset {stray.offset} of partition"
        f" {stray.partition}, and readers are not given it"
    )


def _acknowledged_and_gone(evidence: InputEvidence, acks: Collection[int]) -> str:
    """Show that acknowledged outputs are gone, of the inputs that a commit has passed after that.

    The program commits positions when outputs are acknowledged, so this one's was.
    """
    passed = evidence.passed
    if passed is None or not evidence.habits.never_ahead:
        return ""
    since_ns = max(evidence.sent_ns or 0, _time_of(evidence, evidence.before))
    for gone in evidence.gone:
        if since_ns <= gone.answered_ns <= passed.time_ns + _CLOCKS_NS and gone.acks in acks:
            return (
                f"outputs from offset {gone.offset} of partition {gone.partition} on were"
                f" acknowledged at {seconds(gone.answered_ns)}, and are in no log; position"
                f" {passed.offset} was committed at {seconds(passed.time_ns)}, as always after the"
                " outputs"
            )
    return ""


def acknowledged_and_lost(evidence: InputEvidence) -> str:
    """Show that an output is gone that all replicas in sync had."""
    return _acknowledged_and_gone(evidence, _ALL_ACKS)


def leader_alone(evidence: InputEvidence) -> str:
    """Show that an output is gone that was written with acks=1."""
    return _acknowledged_and_gone(evidence, _ONE_ACK)


def position_outside(evidence: InputEvidence) -> str:
    """Show that a position is in no transaction, and was committed before its output."""
    passed = evidence.passed
    if passed is None or passed.transactional:
        return ""
    committed = f"position {passed.offset} was committed outside of it at {seconds(passed.time_ns)}"
    if evidence.withdrawn:
        return f"its output is in the log, in a transaction that was not committed; {committed}"
    if not evidence.habits.in_transactions or not (ended := _ended_before_its_output(evidence)):
        return ""
    return f"all outputs are in transactions, and positions are not: {ended}"


def shared_id(evidence: InputEvidence) -> str:
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


def no_way_back(evidence: InputEvidence) -> str:
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


def begins_at_latest(evidence: InputEvidence) -> str:
    """Show that a group without a position began at the log's end.

    The input was there before a member was assigned its partition, the next one with an output came
    after that, and in between no instance ended or was paused, and nothing before it was processed.
    """
    passed, following, sent_ns = evidence.passed, evidence.following, evidence.sent_ns
    if passed is None or following is None or sent_ns is None or evidence.before:
        return ""
    if following.output_ns >= evidence.undisturbed_ns:
        return ""
    for at, generation in evidence.habits.generations:
        assigned = generation.owner(evidence.partition) is not None
        begins_there = sent_ns <= at + _ASKS_NS and following.sent_ns >= at - _CLOCKS_NS
        here = Position(at, evidence.offset, transactional=False)
        if evidence.overdue_ns(0, here, following.output_ns) is not None:
            continue  # it had begun before the input
        if assigned and begins_there and not evidence.interruption(at, following.output_ns):
            return (
                f"its partition had no committed position when a member was assigned it at"
                f" {seconds(at)}; the input was sent before that, and the first one with an output"
                f" ({following.offset}) was sent at {seconds(following.sent_ns)}"
            )
    return ""


def handed_over(evidence: InputEvidence) -> str:
    """Show that a member lived through a rebalance, and its input in work did not."""
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
        f" {before.number} of the group, when neither its output nor one of a later input of"
        f" its partition was written; generation {after.number} began at {seconds(at)}, its"
        f" member {member} stayed, and its output was not written"
    )


def commits_automatically(evidence: InputEvidence) -> str:
    """Show that a timer committed a position before its output."""
    habits, passed = evidence.habits, evidence.passed
    if not habits.automatic or passed is None or passed.transactional:
        return ""
    ended = _ended_before_its_output(evidence)
    return ended and (
        f"positions were committed every {habits.interval_s:.1f} s, whatever was in work: {ended}"
    )


def committed_first(evidence: InputEvidence) -> str:
    """Show that a position was committed before its output; not of a program that never does."""
    if evidence.habits.awaits_outputs:
        return ""
    ended = _ended_before_its_output(evidence)
    by_wire = evidence.habits.ahead and evidence.outcome != HALF  # of which output it is not known
    return ended or (_unanswered(evidence) if by_wire else "")


def _unanswered(evidence: InputEvidence) -> str:
    """Show by the wire that a position was committed, and its output was never acknowledged."""
    passed = evidence.passed
    if passed is None or not evidence.unwritten or evidence.gone:
        return ""
    request = evidence.unwritten[-1]
    return (
        f"position {passed.offset} was committed at {seconds(passed.time_ns)}, and the Produce with"
        f" its output, by {request.sender} at {seconds(request.time_ns)}, {request.answer}"
    )


def _ended_before_its_output(evidence: InputEvidence) -> str:
    """Show that an instance ended between a commit and the outputs of inputs that it passed.

    Either no later input of the partition had an output before that end; or outputs that the commit
    had passed were still written, and the position did not move on meanwhile. Of a half input all
    outputs that are there were written in between.
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
        first, last = evidence.outputs[0].time_ns, evidence.outputs[-1].time_ns
        between = passed.time_ns + MS_NS < first and last <= end.time_ns < evidence.later_ns
        return (
            f"{committed}, before the first of its outputs, at {seconds(first)}, and any of a later"
            f" input of its partition; {interrupted(end)}, and its others were not written"
            if between
            else ""
        )
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


def error_ignored(evidence: InputEvidence) -> str:
    """Show that an input was passed while outputs could not be delivered."""
    passed = evidence.passed
    if passed is None or not evidence.habits.awaits_outputs:
        return ""
    if says := _unanswered(evidence):
        return f"{says}; this program commits a position when it is done with the outputs"
    if not (says := passed_over(evidence)):
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


def passed_over(evidence: InputEvidence) -> str:
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

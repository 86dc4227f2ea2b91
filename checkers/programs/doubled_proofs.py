"""Proofs of mistakes that double an input. A function returns a sentence; empty without proof."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from highwater.checkers.groups.events import FOREVER
from highwater.checkers.groups.generations import Generation
from highwater.checkers.programs.evidence import (
    CLOCKS_NS,
    ENDS,
    InputEvidence,
    interrupted,
    seconds,
)
from highwater.checkers.programs.facts import InstanceEvent, Position, passed_by, position_at

_OFTEN: Final = 3
_WORKS_ON_NS: Final = 10_000_000_000
"""The time for which a member, after its removal from its group, may process records that it has
already read."""


def output_outside(evidence: InputEvidence) -> str:
    """Show that an output was outside of transactions, but that positions were in transactions."""
    says = no_transaction(evidence)
    in_transactions = any(commit.transactional for commit in evidence.commits or ())
    return f"positions are in transactions, and {says}" if says and in_transactions else ""


def no_transaction(evidence: InputEvidence) -> str:
    """Show that an output was outside of transactions, although exactly-once is declared."""
    if evidence.guarantee != "exactly-once" or evidence.transactional is not False:
        return ""
    return "not all outputs of this input are part of a transaction"


def position_outside(evidence: InputEvidence) -> str:
    """Show that only outputs were in transactions, and that a commit came too late."""
    commits = evidence.commits or ()
    if not evidence.habits.in_transactions or any(commit.transactional for commit in commits):
        return ""
    ended = not_committed(evidence)
    return ended and f"all outputs are in transactions, and positions are not: {ended}"


def zombie(evidence: InputEvidence) -> str:
    """Show that an instance wrote the output after a pause, and another one during the pause."""
    first, last = evidence.written_ns
    for pause, resumed_ns in _pauses(evidence):
        if pause.time_ns < first < resumed_ns < last + CLOCKS_NS:
            return (
                f"{interrupted(pause)}. The output was written during the pause, and again after "
                f"the "
                f"instance continued at {seconds(resumed_ns)}"
            )
    return ""


def _pauses(evidence: InputEvidence) -> Iterator[tuple[InstanceEvent, int]]:
    """Yield each pause of an instance, with the time when the instance resumed."""
    for pause in (event for event in evidence.events if event.event == "paused"):
        resumed = (
            event.time_ns
            for event in evidence.events
            if event.event == "resumed"
            and event.instance == pause.instance
            and event.time_ns >= pause.time_ns
        )
        yield pause, next(resumed, FOREVER)


def handed_over(evidence: InputEvidence) -> str:
    """Show that a rebalance came between output and commit, and the member stayed in the group."""
    first, last = evidence.written_ns
    owned = evidence.owner(first)
    if owned is None or evidence.commits is None:
        return ""
    member, before = owned
    at, after = evidence.generation_after(before, first) or (FOREVER, before)
    position = position_at(evidence.commits, at)
    if at >= last or member not in after.members or position > evidence.offset:
        return ""
    if any(c.offset > evidence.offset and first <= c.time_ns <= at for c in evidence.commits):
        return ""  # the input was committed in time, and the position went back later
    began_ns = max(begin for begin, _ in evidence.habits.generations if begin <= first)
    if any(
        pause.time_ns < began_ns < on_ns <= first + CLOCKS_NS for pause, on_ns in _pauses(evidence)
    ):
        return ""  # a paused instance may have continued with the member's inputs
    return (
        f"the input's output was written at {seconds(first)} in generation {before.number} of "
        f"the group."
        f" Generation {after.number} began at {seconds(at)}, when the committed position was"
        f" {position}, and member {member} stayed. The output was written again at {seconds(last)}"
    )


def not_committed(evidence: InputEvidence) -> str:
    """Show that an instance ended, or was paused, after the output and before the commit."""
    first, last = evidence.written_ns
    event = _interruption(evidence)
    if event is None or evidence.commits is None:
        return ""
    position = position_at(evidence.commits, event.time_ns)
    if position > evidence.offset:
        return ""
    return (
        f"the input's output was written at {seconds(first)}. Then {interrupted(event)}, when the "
        f"committed"
        f" position was {position}. The output was written again at {seconds(last)}"
    )


def older_position(evidence: InputEvidence) -> str:
    """Show that an older position replaced a newer position, and the input was then read again.

    A member fetches the committed position when it starts, and in each new generation of the group.
    """
    first, last = evidence.written_ns
    starts = [event.time_ns for event in _of_writers(evidence) if event.event == "started"]
    reads_ns = [*starts, *(at for at, _ in evidence.habits.generations)]
    for before, after in pairwise(evidence.commits or ()):
        back = 0 < after.offset <= evidence.offset < before.offset
        if back and first <= after.time_ns and any(after.time_ns <= at <= last for at in reads_ns):
            return (
                f"position {before.offset} was committed at {seconds(before.time_ns)}, and then"
                f" position {after.offset} at {seconds(after.time_ns)}{_by(evidence, after)}. The"
                f" output was written again at {seconds(last)}"
            )
    return ""


def _by(evidence: InputEvidence, position: Position) -> str:
    request = evidence.committed_by(position)
    return f" by {request.sender}" if request else ""


def some_partitions(evidence: InputEvidence) -> str:
    """Show that a member often committed positions of another partition, but none of this one.

    All inputs from the committed position to this input already had their outputs.
    """
    event, owned = _interruption(evidence), evidence.owner(evidence.written_ns[0])
    if event is None or owned is None or evidence.commits is None:
        return ""
    position = position_at(evidence.commits, event.time_ns)
    whole_ns = evidence.whole_ns(position)
    if position > evidence.offset or whole_ns >= event.time_ns:
        return ""
    member, generation = owned
    for partition in generation.members[member] - {evidence.partition}:
        times = [
            commit.time_ns
            for commit in evidence.group.get(partition, ())
            if whole_ns < commit.time_ns < event.time_ns and not commit.transactional
        ]
        if len(times) >= _OFTEN:
            return (
                f"inputs {position} to {evidence.offset} had outputs at {seconds(whole_ns)}. Before"
                f" {interrupted(event)}, their member committed {len(times)} positions of partition"
                f" {partition}, and none of this partition, whose position was {position}"
            )
    return ""


def never_committed(evidence: InputEvidence) -> str:
    """Show that an instance ended, or was paused, while its group had no committed position."""
    event = _interruption(evidence)
    if event is None or evidence.commits is None:
        return ""
    habits = evidence.habits
    if evidence.commits or any(evidence.group.values()) or not habits.works_long:
        return ""
    return (
        f"the group has no committed position after {habits.busy_s:.0f} s of work."
        f" Then {interrupted(event)}"
    )


def before_a_gap(evidence: InputEvidence) -> str:
    """Show that the committed position stayed at an offset without a record, and inputs followed.

    Such an offset has a transaction marker, an aborted record, or a record that compaction removed.
    """
    event = _interruption(evidence)
    if event is None or not evidence.commits:
        return ""
    position = position_at(evidence.commits, event.time_ns)
    times = [commit.time_ns for commit in evidence.commits if commit.offset == position]
    if not times or position > evidence.offset or not evidence.gap(position):
        return ""
    if any(c.offset != position for c in evidence.commits if c.time_ns >= times[0]):
        return ""
    return (
        f"position {position} was committed at {seconds(times[0])}, where the log has no record"
        f" of the input, and no higher position was ever committed. Then {interrupted(event)}"
    )


def sent_twice(evidence: InputEvidence) -> str:
    """Show that one instance wrote the output twice, but cannot have read the input twice.

    From the first output to the last, no instance ended and no rebalance happened.
    """
    if not _by_one_life(evidence) or _read_before(evidence):
        return ""
    first, last = evidence.written_ns
    return (
        f"the input's output was written at {seconds(first)} and again at {seconds(last)}. "
        f"Between these "
        f"times no"
        " instance ended, and there was no rebalance"
    )


def read_before(evidence: InputEvidence) -> str:
    """Show that a member read the input before and after a rebalance, and processed it twice.

    The member committed the position after the input, and then an older position. Or it committed
    the position after the input twice in this generation. A program that only sends an output again
    commits no position twice.
    """
    again = _read_before(evidence) if _by_one_life(evidence) else None
    if again is None or evidence.sent_ns is None:
        return ""
    first, last = evidence.written_ns
    for before, after in pairwise(evidence.commits or ()):
        behind = first <= before.time_ns <= last and before.offset > evidence.offset
        back = after.offset <= evidence.offset or after.time_ns >= last
        twice = before.offset == after.offset == evidence.offset + 1
        since = again[0] - CLOCKS_NS <= before.time_ns <= last and after.time_ns >= first
        if (behind and back and after.offset < before.offset) or (twice and since):
            return (
                f"the input's output was written at {seconds(first)} and again at "
                f"{seconds(last)}. Its"
                f" member owned the partition before generation {again[1].number} of the group"
                f" began at {seconds(again[0])}, too, and committed position {before.offset} at"
                f" {seconds(before.time_ns)} and {after.offset} at {seconds(after.time_ns)}"
            )
    return ""


def no_longer_its_own(evidence: InputEvidence) -> str:
    """Show that an instance wrote an output long after another instance had committed its input.

    The late instance had started before this commit. No other instance moved the position back,
    which would explain a second read of the input. This proof is for groups of KIP-848, which have
    no generations on the disks.
    """
    first, last = evidence.outputs[0], evidence.outputs[-1]
    if evidence.habits.generations or first.by is None or last.by is None:
        return ""
    passed = passed_by(evidence.commits or (), evidence.offset)
    if passed is None or evidence.commits is None or first.by.instance == last.by.instance:
        return ""
    since, until = passed.time_ns, last.time_ns - CLOCKS_NS
    older = (
        position
        for position in evidence.commits
        if since <= position.time_ns <= until and position.offset <= evidence.offset
    )
    back = next(older, None)  # only the late instance itself may move the position back
    by = back and evidence.committed_by(back)
    disturbed = any(
        event.instance == last.by.instance and since <= event.time_ns <= last.time_ns
        for event in evidence.events
    )
    if until <= since or disturbed or (back and (by is None or by.instance != last.by.instance)):
        return ""
    if _had_fault(evidence, since - _WORKS_ON_NS, last.time_ns):
        return ""
    return (
        f"{first.by.sender} wrote its output at {seconds(first.time_ns)}, and position"
        f" {passed.offset} was committed at {seconds(since)}{_by(evidence, passed)}."
        f" {last.by.sender}, which had started before, wrote the output again at"
        f" {seconds(last.time_ns)}"
    )


def _by_one_life(evidence: InputEvidence) -> bool:
    """Return whether one instance wrote all outputs in one generation, without a restart."""
    senders = {output.by.instance for output in evidence.outputs if output.by is not None}
    of_one = len({event.instance for event in evidence.events}) == 1 or (
        len(senders) == 1 and all(output.by is not None for output in evidence.outputs)
    )
    return of_one and _in_one_generation(evidence) and not _ended(evidence)


def _read_before(evidence: InputEvidence) -> tuple[int, Generation] | None:
    """Return the outputs' generation, if its member may have read the input before it began."""
    begun = [of for of in evidence.habits.generations if of[0] <= evidence.written_ns[0]]
    if not begun:
        return None
    at, generation = begun[-1]
    member = generation.owner(evidence.partition)
    owned = any(of.owner(evidence.partition) == member for _, of in begun[:-1])
    there = evidence.sent_ns is None or evidence.sent_ns <= at + CLOCKS_NS
    return begun[-1] if member is not None and owned and there else None


def sent_again(evidence: InputEvidence) -> str:
    """Show that a program sent an output twice: its producer was idempotent, so no retry did."""
    says = sent_twice(evidence) if evidence.idempotent else ""
    return says and f"{says}. The producer was idempotent, so its retries wrote nothing twice"


def retried(evidence: InputEvidence) -> str:
    """Show that an output was written twice by a producer that is not idempotent."""
    says = sent_twice(evidence) if evidence.idempotent is False else ""
    return says and f"{says}. The producer was not idempotent"


def _in_one_generation(evidence: InputEvidence) -> bool:
    first, last = evidence.written_ns
    begun = [at for at, _ in evidence.habits.generations]
    return any(at <= first for at in begun) and not any(first < at <= last for at in begun)


def _ended(evidence: InputEvidence) -> bool:
    since, last = _on_the_way_ns(evidence), evidence.written_ns[1]
    return any(e.event in ENDS and since <= e.time_ns <= last for e in _of_writers(evidence))


def _interruption(evidence: InputEvidence) -> InstanceEvent | None:
    of_writers = replace(evidence, events=_of_writers(evidence))
    return of_writers.interruption(_on_the_way_ns(evidence), evidence.written_ns[1])


def _on_the_way_ns(evidence: InputEvidence) -> int:
    """Return the first output's time, or the end of its instance if that is earlier."""
    first = evidence.written_ns[0]
    events = [event for event in _of_writers(evidence) if event.time_ns <= first]
    lives = [event for event in events if event.event in ENDS or event.event == "started"]
    alone = len({event.instance for event in evidence.events}) == 1
    return lives[-1].time_ns if alone and lives and lives[-1].event in ENDS else first


def _of_writers(evidence: InputEvidence) -> Sequence[InstanceEvent]:
    """Return the events of the outputs' instances; all events if an instance is unknown."""
    writers = {output.by and output.by.instance for output in evidence.outputs}
    if None in writers:
        return evidence.events
    return [event for event in evidence.events if event.instance in writers]


def both_worked(evidence: InputEvidence) -> str:
    """Show that two instances wrote the output in one generation with one owner of its input."""
    first, last = evidence.outputs[0], evidence.outputs[-1]
    if first.by is None or last.by is None or first.by.instance == last.by.instance:
        return ""
    if not _in_one_generation(evidence) or evidence.interruption(first.time_ns, last.time_ns):
        return ""
    owned = evidence.owner(first.time_ns)
    began_ns = max((at for at, _ in evidence.habits.generations if at <= first.time_ns), default=0)
    if owned is None or _had_fault(evidence, began_ns - _WORKS_ON_NS, last.time_ns):
        return ""
    return (
        f"{first.by.sender} wrote its output at {seconds(first.time_ns)}, and {last.by.sender} at"
        f" {seconds(last.time_ns)}, both in generation {owned[1].number} of the group, in which one"
        " member owned the partition"
    )


def _had_fault(evidence: InputEvidence, since_ns: int, until_ns: int) -> bool:
    """Return whether brokers or connections had a fault between two times."""
    return any(
        trouble.time_ns <= until_ns and trouble.until_ns >= since_ns
        for trouble in evidence.troubles
    )


def put_out(evidence: InputEvidence) -> str:
    """Show that the group removed a member, although there was no fault.

    Then the member's last poll was longer ago than max.poll.interval.ms, or its last heartbeat was
    longer ago than session.timeout.ms.
    """
    change = _change_of_owner(evidence)
    if change is None:
        return ""
    before, began_ns, at = change
    disturbed = evidence.interruption(began_ns, at) or _had_fault(evidence, began_ns, at)
    return "" if disturbed else _out_of_group(evidence, before, at)


def taken_over(evidence: InputEvidence) -> str:
    """Show that a member left the group before it committed the position after the input."""
    change = _change_of_owner(evidence)
    return _out_of_group(evidence, change[0], change[2]) if change else ""


def _out_of_group(evidence: InputEvidence, before: Generation, at: int) -> str:
    first, last = evidence.written_ns
    return (
        f"the partition belonged to a member of generation {before.number} of the group. It"
        f" was not in the next generation, begun at {seconds(at)}, when the committed position was"
        f" {position_at(evidence.commits or (), at)}. The output was written at {seconds(first)}"
        f" and {seconds(last)}"
    )


def _change_of_owner(evidence: InputEvidence) -> tuple[Generation, int, int] | None:
    """Return a generation whose owner of the partition left, its begin, and the next begin.

    The first output was written in this generation, whose last commit does not include the input.
    The last output was written later.
    """
    first, last = evidence.written_ns
    if evidence.commits is None:
        return None
    for (began_ns, before), (at, after) in pairwise(evidence.habits.generations):
        owner = before.owner(evidence.partition)
        near = began_ns <= first <= at <= last
        lost = owner is not None and owner not in after.members and after.number > before.number
        if near and lost and position_at(evidence.commits, at) <= evidence.offset:
            return before, began_ns, at
    return None

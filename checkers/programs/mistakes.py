"""The mistakes of programs: each with the evidence that shows it, and its fix.

They are tried in order, and the first one that the disks and the lives of instances show is told.
If none is shown, it is not known who did it. Brokers that had a fault may have lost an output that
was acknowledged, so nothing is told of a missing output after the first of these.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from highwater.checkers.groups.events import FOREVER
from highwater.checkers.programs.facts import InstanceEvent, Output, Position, position_at
from highwater.checkers.programs.outcomes import DOUBLED, LOST
from highwater.harness.runs.plan import Guarantee

_INTERRUPTIONS: Final = {
    "killed": "was killed",
    "stopped": "was stopped",
    "ended": "ended by itself",
    "paused": "was paused",
    "closed": "was ended with the run",
}
_IN_FLIGHT_NS: Final = 10_000_000_000
_ENDS: Final = frozenset(("killed", "stopped", "ended", "closed"))


@dataclass(frozen=True, slots=True, kw_only=True)
class InputEvidence:
    """An input that was lost or doubled, and what the run shows about it.

    Attributes:
        outcome: of ``outcomes``.
        outputs: that name it and were committed, in order of time.
        withdrawn: whether the log has an output of it in a transaction that was not committed.
        transactional: whether each of its outputs in the log is part of a transaction; None if the
            run has no copy of the log.
        later_ns: when the first output of a later input of its partition was written.
        overdue_ns: function from the committed offset before, a commit, and a time, to when an
            output of an input that the commit had passed was last written after it.
        commits: the committed offsets of its partition, in order; None if no disk has them.
        events: of instances, in order of time.
        undisturbed_ns: until when nothing but the program had a fault.
    """

    name: str
    offset: int
    outcome: str
    guarantee: Guarantee
    outputs: Sequence[Output] = ()
    withdrawn: bool = False
    transactional: bool | None = None
    later_ns: int = FOREVER
    overdue_ns: Callable[[int, Position, int], int | None] = lambda *_: None
    commits: Sequence[Position] | None = None
    events: Sequence[InstanceEvent] = ()
    undisturbed_ns: int = FOREVER

    @property
    def passed(self) -> Position | None:
        """The first commit behind it."""
        return next((commit for commit in self.commits or () if commit.offset > self.offset), None)

    def interruption(self, since_ns: int, until_ns: int) -> InstanceEvent | None:
        """Return the first end or pause of an instance within a time."""
        events = (event for event in self.events if event.event in _INTERRUPTIONS)
        return next((event for event in events if since_ns <= event.time_ns <= until_ns), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """A kind of mistake.

    Attributes:
        outcome: of the inputs that it explains.
        proof: returns the sentence that shows it; empty where nothing does.
        fix: what to do instead, a sentence.
    """

    name: str
    outcome: str
    proof: Callable[[InputEvidence], str]
    fix: str


def mistake_of(evidence: InputEvidence) -> tuple[Mistake, str] | None:
    """Return the first mistake that is shown, and the sentence that shows it."""
    for mistake in MISTAKES:
        if mistake.outcome == evidence.outcome and (says := mistake.proof(evidence)):
            return mistake, says
    return None


def interrupted(event: InstanceEvent) -> str:
    """Return what happened to an instance, such as ``instance 1 was killed at 4.312 s``."""
    return f"instance {event.instance} {_INTERRUPTIONS[event.event]} at {seconds(event.time_ns)}"


def seconds(time_ns: int) -> str:
    """Return a time as ``4.312 s``."""
    return f"{time_ns / 1e9:.3f} s"


def _position_outside(evidence: InputEvidence) -> str:
    passed = evidence.passed
    if not evidence.withdrawn or passed is None or passed.transactional:
        return ""
    return (
        f"its output is in the log, in a transaction that was not committed; position"
        f" {passed.offset} was committed outside of it at {seconds(passed.time_ns)}"
    )


def _committed_first(evidence: InputEvidence) -> str:
    """Show that an instance ended between a commit and the outputs of inputs that it passed.

    Either no later input of the partition had an output before that end; or outputs that the commit
    had passed were still written, and the position did not move on meanwhile.
    """
    passed = evidence.passed
    if passed is None:
        return ""
    end = next(
        (e for e in evidence.events if e.event in _ENDS and e.time_ns >= passed.time_ns), None
    )
    if end is None or end.time_ns >= evidence.undisturbed_ns:
        return ""
    committed = f"position {passed.offset} was committed at {seconds(passed.time_ns)}"
    if evidence.later_ns > end.time_ns:
        return (
            f"{committed}, when neither its output nor one of a later input of its partition was"
            f" written; {interrupted(end)}, and none was written since"
        )
    before = position_at(evidence.commits or (), passed.time_ns - 1)
    late_ns = evidence.overdue_ns(before, passed, end.time_ns)
    if late_ns is None or position_at(evidence.commits or (), end.time_ns) != passed.offset:
        return ""
    return (
        f"{committed}, and outputs of inputs before it were still written at {seconds(late_ns)};"
        f" {interrupted(end)}, and its own was not written"
    )


def _passed_over(evidence: InputEvidence) -> str:
    """Show that an instance went on to later inputs without an output of this one.

    An instance that ended soon after may have had the output in flight.
    """
    passed = evidence.passed
    if passed is None or evidence.later_ns == FOREVER:
        return ""
    end = max(evidence.later_ns, passed.time_ns)
    before = position_at(evidence.commits or (), passed.time_ns - 1)
    since = next((c.time_ns for c in evidence.commits or () if c.offset == before), 0)
    until = end + _IN_FLIGHT_NS
    if until >= evidence.undisturbed_ns or evidence.interruption(since, until) is not None:
        return ""
    return (
        f"a later input of its partition had its output at {seconds(evidence.later_ns)} and"
        f" position {passed.offset} was committed at {seconds(passed.time_ns)}, and no instance"
        " ended or was paused meanwhile, or soon after"
    )


def _output_outside(evidence: InputEvidence) -> str:
    if evidence.guarantee != "exactly-once" or evidence.transactional is not False:
        return ""
    return "not all of its outputs are part of a transaction"


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


MISTAKES: Final = (
    Mistake(
        name="position outside of the transaction",
        outcome=LOST,
        proof=_position_outside,
        fix="Commit the position in the transaction (sendOffsetsToTransaction).",
    ),
    Mistake(
        name="position committed before the output was acknowledged",
        outcome=LOST,
        proof=_committed_first,
        fix="Flush, look at every delivery report, and commit after that.",
    ),
    Mistake(
        name="input passed without an output",
        outcome=LOST,
        proof=_passed_over,
        fix="Look at every error and delivery report before the position is committed.",
    ),
    Mistake(
        name="output outside of a transaction",
        outcome=DOUBLED,
        proof=_output_outside,
        fix="Write outputs and position in one transaction, and read with read_committed.",
    ),
    Mistake(
        name="paused instance went on with what was no longer its own",
        outcome=DOUBLED,
        proof=_zombie,
        fix="Write in transactions with the group's metadata, so that brokers refuse it.",
    ),
    Mistake(
        name="position not committed when an instance ended",
        outcome=DOUBLED,
        proof=_not_committed,
        fix="Expect it under at least once, or write outputs and position in one transaction.",
    ),
)

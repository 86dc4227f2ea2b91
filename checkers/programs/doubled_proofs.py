"""Proofs of mistakes that double an input. Each returns a sentence, or nothing."""

from highwater.checkers.groups.events import FOREVER
from highwater.checkers.programs.evidence import InputEvidence, interrupted, seconds
from highwater.checkers.programs.facts import position_at


def output_outside(evidence: InputEvidence) -> str:
    """Show that an output is in no transaction, where exactly-once is declared."""
    if evidence.guarantee != "exactly-once" or evidence.transactional is not False:
        return ""
    return "not all outputs of this input are part of a transaction"


def position_outside(evidence: InputEvidence) -> str:
    """Show that positions are in no transaction, and a position was not committed in time."""
    commits = evidence.commits or ()
    if not evidence.habits.in_transactions or any(commit.transactional for commit in commits):
        return ""
    ended = not_committed(evidence)
    return ended and f"all outputs are in transactions, and positions are not: {ended}"


def zombie(evidence: InputEvidence) -> str:
    """Show that an instance was paused while another wrote the output, and then wrote it again."""
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


def handed_over(evidence: InputEvidence) -> str:
    """Show that a member stayed in a rebalance that came after the output and before the commit."""
    first, last = evidence.outputs[0].time_ns, evidence.outputs[-1].time_ns
    owned = evidence.owner(first)
    if owned is None or evidence.commits is None:
        return ""
    member, before = owned
    at, after = evidence.generation_after(before, first) or (FOREVER, before)
    position = position_at(evidence.commits, at)
    if at >= last or member not in after.members or position > evidence.offset:
        return ""
    return (
        f"its output was written at {seconds(first)} in generation {before.number} of the group;"
        f" generation {after.number} began at {seconds(at)}, when the committed position was"
        f" {position}, and member {member} stayed; the output was written again at {seconds(last)}"
    )


def not_committed(evidence: InputEvidence) -> str:
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
        f" position was {position}; the output was written again at {seconds(last)}"
    )

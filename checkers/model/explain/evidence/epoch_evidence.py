"""Evidence of losses in which a broker acts in one epoch on state or answers of another epoch."""

from itertools import pairwise

from highwater.checkers.model.explain.evidence.evidence_links import (
    Links,
    Row,
    cut_link,
    event_link,
)
from highwater.checkers.model.explain.evidence.loss_evidence import (
    LostRecord,
    election,
    first_cut,
    present,
)
from highwater.checkers.model.explain.tolerances import WITHIN
from highwater.checkers.model.explain.trace import BrokerLogLine, Trace
from highwater.checkers.model.report_types import ExplanationLink
from highwater.harness.runs.partition_trace import Leadership


def committed_by_old_state(case: LostRecord) -> Links:
    """Return the events of a leader that began an epoch without knowing of the leader before it.

    Between two lines about its own leaderships, its log has no line about following another broker.
    """
    assert case.start is not None
    trace, until_ns = case.trace, case.ended_ns + WITHIN.look
    cut = first_cut(case, case.start)
    if cut is None or cut.time_ns > until_ns:
        return ()
    # The leader that acknowledged the record may have been observed one look too late.
    leaders = [trace.leadership(time_ns) for time_ns in (case.ended_ns, until_ns)]
    for leader in {row.leader: None for row in leaders if row is not None}:
        if not case.observed.software.may_lack("elected_again_is_new", until_ns, leader):
            continue
        if link := _missed(case, leader, cut, until_ns):
            return present(cut_link(cut), link, case.ack, election(case))
    return ()


def _missed(
    case: LostRecord, leader: int, cut: BrokerLogLine, until_ns: int
) -> ExplanationLink | None:
    """Return the epoch that a leader began, by its log, right after an epoch of its own."""
    roles = [
        line
        for line in case.trace.of_kind(leader, "leader", "follower", "fetcher")
        if line.time_ns <= until_ns
    ]
    for before, again in pairwise(roles):
        between = [
            now
            for now in case.trace.leaderships
            if before.time_ns <= now.time_ns <= again.time_ns + WITHIN.look
            and now.leader not in (leader, -1)
        ]
        if {before.kind, again.kind} == {"leader"} and between and cut.time_ns <= again.time_ns:
            return _missed_leader(case, before, again, between[0])
    return None


def _missed_leader(
    case: LostRecord, before: BrokerLogLine, again: BrokerLogLine, missed: Leadership
) -> ExplanationLink:
    assert case.start is not None
    says = (
        f"Broker {again.broker} began to lead in epoch {again.epoch}, and had led in epoch"
        f" {before.epoch} before; it never knew that broker {missed.leader} led between, in epoch"
        f" {missed.epoch}. So it kept its old state of its followers: that broker"
        f" {case.start.broker} had {case.send['value']}."
    )
    return event_link("elected_again_is_new", says, again, again.broker)


def cut_by_late_answer(case: LostRecord) -> Links:
    """Return the late answer of an older epoch because of which the new leader had truncated.

    KAFKA-18991. Only an answer that the wire held back is known to be so late.
    """
    assert case.start is not None
    broker, trace = case.start.broker, case.trace
    for row in case.observed.late_answers:
        if not case.observed.software.may_lack("late_fenced", row["time_ns"], broker):
            continue
        here = row["topic"] == case.observed.topic and row["partition"] == trace.partition
        to_follower = row["api"] == "Fetch" and row["target"] == f"broker-{broker}"
        now = trace.leadership(row["time_ns"])
        if not (here and to_follower) or now is None or now.epoch <= row["epoch"]:
            continue
        since_ns = max(row["time_ns"] - WITHIN.look, case.ended_ns)
        cut = _cut_since(case, since_ns)
        if cut is not None and cut.time_ns < since_ns + WITHIN.log:
            return present(case.ack, _late_answer(trace, row, now), cut_link(cut), election(case))
    return ()


def _cut_since(case: LostRecord, since_ns: int) -> BrokerLogLine | None:
    assert case.start is not None
    cuts = case.trace.of_kind(case.start.broker, "truncation")
    later = (line for line in cuts if line.time_ns >= since_ns)
    return next((line for line in later if line.offset <= case.send["offset"]), None)


def _late_answer(trace: Trace, row: Row, now: Leadership) -> ExplanationLink:
    epoch = row["epoch"]
    sender, follower = (row[end].removeprefix("broker-") for end in ("source", "target"))
    between = [seen for seen in trace.leaderships if epoch < seen.epoch < now.epoch]
    epochs = {seen.leader: seen.epoch for seen in reversed(between) if seen.leader != now.leader}
    others = "".join(f" Then broker {leader} led in epoch {n}." for leader, n in epochs.items())
    return ExplanationLink(
        rule="late_fenced",
        says=f"Broker {sender} had answered a fetch of broker {follower} in epoch {epoch}, and the"
        f" wire held back the answer.{others} It arrived when broker {now.leader} led in epoch"
        f" {now.epoch}. Broker {follower} fetched from the same offset as in epoch {epoch}, and"
        " took the late answer for the answer to its last fetch.",
        event=f"Fetch.answer {row['event']}: epoch {epoch}, message {row['message']}",
        broker=int(follower),
        time_ns=row["time_ns"],
    )

"""Lost records: which broker acknowledged, which led without it, and how it was elected."""

from itertools import takewhile
from typing import Final

from highwater.checkers.model.explain.evidence_links import (
    Chain,
    Row,
    acknowledged,
    cut_link,
    disturbed,
    fault_link,
    hung_up,
    led_without,
    refuse,
    unanswered,
    unknown,
)
from highwater.checkers.model.explain.trace import (
    LOOK,
    SECOND,
    FaultOnBroker,
    LeadershipStart,
    RunTraces,
    Trace,
)
from highwater.checkers.model.report_types import ExplanationLink
from highwater.harness.runs.history import OK

_ZOMBIE: Final = 2 * SECOND
"""Time within which a running leader may not know that it is deposed; longer if it was seen
to follow only then, as on a busy machine."""


def lost(observed: RunTraces, anomaly: Row) -> Chain:
    """Explain why an acknowledged record is lost."""
    trace = observed.traces.get(anomaly["partition"])
    send = observed.suspects.get(anomaly["value"])
    if send is None or send["outcome"] != OK:
        return refuse("The history does not show that it was acknowledged.")
    if trace is None:
        return refuse("Nobody knows which partition it was sent to.")
    ack_link = acknowledged(observed, trace, send)
    if holder := _held_after_all(trace, anomaly):
        return refuse(holder, ack_link)
    if anomaly["offset"] is None:
        return _lost_unanswered(observed, trace, send, ack_link)
    return _lost_at(observed, trace, send, ack_link)


def _held_after_all(trace: Trace, anomaly: Row) -> str:
    """Return the contradiction that a log of the last ISR holds the lost record."""
    last = trace.leaderships[-1] if trace.leaderships else None
    if last is None:
        return "Nobody was ever seen to lead."
    disk = trace.disks.get(last.leader)
    if disk is None:
        return "The disk of the last leader is missing."
    if anomaly["value"] in disk.records:
        return f"The disk of broker {last.leader}, the last leader, holds it."
    return ""


def _lost_unanswered(
    observed: RunTraces, trace: Trace, send: Row, ack_link: ExplanationLink
) -> Chain:
    """Explain a loss with acks=0: no broker acknowledged the write, but the loss needs a reason."""
    since_ns = send["invoke_ns"]
    until_ns = send["complete_ns"] or since_ns
    # A broker that refuses one record of acks=0 hangs up, and what was under way with it is gone.
    link = disturbed(observed, trace, since_ns, until_ns)
    link = link or unanswered(observed, send, until_ns + SECOND) or _left(observed, send, until_ns)
    link = link or _not_to_the_leader(observed, trace, send) or _went_with_its_log(trace, send)
    link = link or hung_up(observed, trace, since_ns, until_ns)
    if link is None:
        return refuse("Its leader ran undisturbed when it was sent.", ack_link)
    return Chain(links=(ack_link, link))


def _not_to_the_leader(observed: RunTraces, trace: Trace, send: Row) -> ExplanationLink | None:
    """Explain a send with acks=0 to a deposed leader, of which its producer does not learn."""
    now = trace.leader_at(send["invoke_ns"])
    starts = (start for start in trace.starts if now is not None and start.epoch == now.epoch)
    return next(filter(None, (_deposed(observed, trace, start, send) for start in starts)), None)


def _went_with_its_log(trace: Trace, send: Row) -> ExplanationLink | None:
    """Explain a record that was beyond the end of the log of a later leader.

    It was written at the last observed LEO of its leader, or behind it, and the next observation
    shows records behind it.
    """
    invoked_ns = send["invoke_ns"]
    if (then := trace.leader_at(invoked_ns)) is None:
        return None
    before = trace.mark_at(then.leader, invoked_ns)
    after = trace.mark_at(then.leader, (send["complete_ns"] or invoked_ns) + LOOK)
    at_most = max((before.leo if before else -1), (after.leo - 1 if after else -1))
    later = (start for start in trace.starts if start.epoch > then.epoch)
    shorter = (start for start in later if 0 <= start.offset <= at_most)
    return next((led_without(start, send) for start in shorter), None)


def _left(observed: RunTraces, send: Row, until_ns: int) -> ExplanationLink | None:
    """Explain a send whose client left right after it: a closed connection loses it."""
    left_ns = observed.left_ns.get(send["process"])
    if left_ns is None or left_ns > until_ns + LOOK:
        return None
    return ExplanationLink(
        rule="acks=0",
        says=f"{send['process']} left right after it, and nobody waits for what is under way.",
        event=f"{send['process']}: its last answer",
        time_ns=left_ns,
    )


def _lost_at(observed: RunTraces, trace: Trace, send: Row, link: ExplanationLink) -> Chain:
    """Explain a record at a known offset: a later leader started at or below it without it."""
    chains = [_lost_to(observed, trace, send, start, link) for start in _successors(trace, send)]
    chains += _lost_at_once(observed, trace, send, link)
    chains += _lost_from_disk(observed, trace, send, link)
    none = unknown("Nobody was seen to begin to lead without it.", link)
    return next((chain for chain in chains if not chain.why_not), chains[0] if chains else none)


def _lost_from_disk(
    observed: RunTraces, trace: Trace, send: Row, ack_link: ExplanationLink
) -> list[Chain]:
    """Explain a record that a fault removed from the front of the leader's log."""
    chains = []
    for fault in observed.faults:
        if fault.fault != "segment-deleted":
            continue
        gone = any(send["offset"] in removed for removed in _ranges(observed, trace, fault))
        rows = [row for row in trace.leaderships if row.time_ns > fault.since_ns]
        later = next((row for row in rows if row.leader == fault.broker), None)
        if gone and later and fault.since_ns >= send["invoke_ns"]:
            says = f"Broker {fault.broker} led then, in epoch {later.epoch}."
            link = ExplanationLink(
                rule="elections",
                says=says,
                event=later.event,
                broker=fault.broker,
                time_ns=later.time_ns,
            )
            chains.append(Chain(links=(ack_link, fault_link(fault), link)))
    return chains


def _lost_to(
    observed: RunTraces, trace: Trace, send: Row, start: LeadershipStart, ack_link: ExplanationLink
) -> Chain:
    """Explain how a broker without the record could be elected."""
    cut, led_link = _cut(trace, start.broker, send), led_without(start, send)
    if start.unclean:
        if not observed.plan.topic.unclean_leader_election:
            return refuse(
                "It was elected from outside the ISR, which is not allowed.", ack_link, led_link
            )
        return Chain(links=(ack_link, led_link))
    if observed.plan.workload.acks != "all":
        fell = _fell(observed, ack_link.broker, send, start)
        return Chain(links=tuple(link for link in (ack_link, fell, cut, led_link) if link))
    return _lost_though_committed(observed, trace, send, start, (ack_link, cut, led_link))


def _successors(trace: Trace, send: Row) -> list[LeadershipStart]:
    """Return the leaders after the append that started at or below it, likeliest first.

    Or with an older record there: an uncleanly elected leader may have a fork. The broker that
    appended it does not lack it, even if an observed LEO says so, unless it has since followed
    another leader and truncated its log.
    """
    offset, since_ns, until_ns = send["offset"], send["invoke_ns"], send["complete_ns"]
    before = trace.leader_at(since_ns - LOOK) or trace.leaderships[0]
    wrote = trace.leader_at(until_ns) or before
    starts = [
        start
        for start in trace.starts
        if start.epoch > before.epoch
        and (
            trace.older(start.broker, offset, min(wrote.epoch, start.epoch))
            or (
                0 <= start.offset <= offset
                and (start.logged or start.broker != before.leader or _gave_up(trace, start, send))
                and _took_its_place(trace, start, offset)
            )
        )
    ]
    return sorted(starts, key=lambda start: start.time_ns < until_ns - LOOK)


def _lost_at_once(
    observed: RunTraces, trace: Trace, send: Row, link: ExplanationLink
) -> list[Chain]:
    """Explain a record appended by a deposed leader that did not know its successor."""
    if observed.plan.workload.acks == "all":
        return []
    now = trace.leader_at(send["invoke_ns"] - LOOK) or trace.leaderships[0]
    chains = []
    for start in trace.starts:
        lacks = start.epoch == now.epoch and 0 <= start.offset <= send["offset"]
        if not (lacks and _took_its_place(trace, start, send["offset"])):
            continue
        if deposed := _deposed(observed, trace, start, send):
            chains.append(Chain(links=(led_without(start, send), deposed, link)))
    return chains


def _deposed(
    observed: RunTraces, trace: Trace, start: LeadershipStart, send: Row
) -> ExplanationLink | None:
    """Return the leader before an election that may have answered after it was deposed.

    A broker may have been elected twice in a row: what counts is its first election.
    """
    earlier = [row for row in trace.leaderships if row.time_ns < start.time_ns and row.leader >= 0]
    reign = [*takewhile(lambda row: row.leader == start.broker, reversed(earlier))]
    others = earlier[: len(earlier) - len(reign)]
    if not others:
        return None
    deposed_ns = reign[-1].time_ns if reign else start.time_ns
    leader, acked_ns = others[-1].leader, send["complete_ns"]
    says = f"Broker {leader} led before, and had not heard that it led no more."
    follows = trace.of_kind(leader, "truncation", "fetcher")
    heard_ns = next((follower.time_ns for follower in follows if follower.time_ns > deposed_ns), 0)
    for fault in observed.faults:
        slept = (
            fault.fault in {"pause", "zombie"}
            and fault.broker == leader
            and fault.since_ns < deposed_ns
        )
        if slept and -_ZOMBIE < acked_ns - fault.until_ns < max(_ZOMBIE, heard_ns - fault.until_ns):
            woken = f"{fault.says}; woken again {fault.until_ns / SECOND:.3f} s"
            return ExplanationLink(
                rule="zombie", says=says, event=woken, broker=leader, time_ns=fault.until_ns
            )
    if deposed_ns <= acked_ns < max(heard_ns + LOOK, deposed_ns + _ZOMBIE):  # its last answers
        event = others[-1].event
        return ExplanationLink(
            rule="zombie", says=says, event=event, broker=leader, time_ns=others[-1].time_ns
        )
    return None


def _took_its_place(trace: Trace, start: LeadershipStart, offset: int) -> bool:
    """Return whether the record there in the end is of that epoch or later, if known."""
    disk = trace.disks.get(trace.leaderships[-1].leader)
    epoch = -1 if disk is None else disk.epoch(offset)
    return epoch < 0 or epoch >= start.epoch


def _fell(
    observed: RunTraces, leader: int | None, send: Row, start: LeadershipStart
) -> ExplanationLink | None:
    """Return what happened to the broker that acknowledged it: a fault, or a planned move."""
    for fault in observed.faults:
        overlaps = fault.since_ns - SECOND <= start.time_ns and send["invoke_ns"] <= fault.until_ns
        if fault.broker == leader and overlaps:
            return fault_link(fault)
    return None


def _gave_up(trace: Trace, start: LeadershipStart, send: Row) -> bool:
    """Return whether the new leader had truncated the offset before it began to lead."""
    cut = _cut(trace, start.broker, send)
    return cut is not None and cut.time_ns is not None and cut.time_ns <= start.time_ns


def _cut(trace: Trace, broker: int, send: Row) -> ExplanationLink | None:
    """Return the truncation by which a replica removed an offset that it may have held."""
    for line in trace.of_kind(broker, "truncation"):
        if line.offset <= send["offset"] and line.time_ns >= send["invoke_ns"] - LOOK:
            return cut_link(line, "cut")
    return None


def _lost_though_committed(
    observed: RunTraces,
    trace: Trace,
    send: Row,
    start: LeadershipStart,
    links: tuple[ExplanationLink, ExplanationLink | None, ExplanationLink],
) -> Chain:
    """Explain a loss with acks=all and a leader from the ISR: only a bug of the release can."""
    ack_link, cut, led_link = links
    rules, present = observed.rules, tuple(link for link in links if link)
    if gone := _removed_by(observed, trace, start, send):
        return Chain(links=(ack_link, gone, led_link))
    if cut is not None and cut.time_ns is not None and cut.time_ns <= start.time_ns + SECOND:
        if not rules.epochs:
            because = ExplanationLink(
                rule="epochs",
                says=f"{cut.says[:-1]}, its own HW, to which {send['value']} was not committed.",
                event=cut.event,
                broker=cut.broker,
                time_ns=cut.time_ns,
            )
            return Chain(links=(ack_link, because, led_link))
        if not rules.epoch_on_election and _was_unknown(trace, cut):
            because = ExplanationLink(
                rule="epoch_on_election",
                says=f"{cut.says[:-1]}, its own HW, because its leader knew no such epoch.",
                event=cut.event,
                broker=cut.broker,
                time_ns=cut.time_ns,
            )
            return Chain(links=(ack_link, because, led_link))
    if not rules.join_from_epoch_start and (joined := _joined(trace, start, send)):
        return Chain(links=(ack_link, joined, led_link))
    return unknown("A member of the ISR should have had it.", *present)


def _removed_by(
    observed: RunTraces, trace: Trace, start: LeadershipStart, send: Row
) -> ExplanationLink | None:
    """Return the fault that removed the record from the new leader's disk before."""
    for fault in observed.faults:
        before = (
            fault.broker == start.broker and send["invoke_ns"] <= fault.since_ns <= start.time_ns
        )
        if before and any(send["offset"] in gone for gone in _ranges(observed, trace, fault)):
            return fault_link(fault)
    return None


def _ranges(observed: RunTraces, trace: Trace, broker: FaultOnBroker) -> list[range]:
    """Return the offsets that a fault took from its broker's replica."""
    return list(broker.removed_from(observed.topic, trace.partition))


def _was_unknown(trace: Trace, cut: ExplanationLink) -> bool:
    """Return whether the leader had answered that it does not know the follower's epoch."""
    return any(
        "unknown offset" in line.text and 0 <= (cut.time_ns or 0) - line.time_ns < SECOND
        for line in trace.of_kind(cut.broker if cut.broker is not None else -1, "answer")
    )


def _joined(trace: Trace, start: LeadershipStart, send: Row) -> ExplanationLink | None:
    """Return a change that let a replica without the record into the ISR (KAFKA-7128)."""
    isr: tuple[int, ...] | None = None
    for row in trace.leaderships:
        joins = isr is not None and start.broker in row.isr and start.broker not in isr
        mark = trace.mark_at(start.broker, row.time_ns)
        if joins and mark and mark.leo <= send["offset"] and row.time_ns >= send["invoke_ns"]:
            return ExplanationLink(
                rule="join_from_epoch_start",
                says=f"Broker {start.broker} joined the ISR with LEO {mark.leo}, without"
                f" {send['value']}.",
                event=row.event,
                broker=start.broker,
                time_ns=row.time_ns,
            )
        isr = row.isr
    return None

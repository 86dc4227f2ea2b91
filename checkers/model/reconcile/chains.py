"""Why an anomaly came to be: a chain of links, each an observed event that a rule allows.

A chain that lacks a link is none. Every function here gives the links, or the reason why there is
no explanation; nothing is explained by default.
"""

from dataclasses import dataclass
from typing import Any, Final

from checkers.model.reconcile.trace import (
    LOOK,
    NEVER,
    SECOND,
    Line,
    Observed,
    Start,
    Struck,
    Trace,
)
from checkers.model.reconciliation import Because
from harness.history import OK

Row = dict[str, Any]
_ZOMBIE: Final = 2 * SECOND
"""For so long a leader that runs may not have heard that it is one no more."""

_CLIENT: Final = 6 * SECOND
"""For so long after a change a client may still send to where the leader was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """Links in order; ``why_not`` is empty when they explain the anomaly.

    ``open``: nothing contradicts it, and yet no rule that is looked for here leads to it.
    """

    links: tuple[Because, ...] = ()
    why_not: str = ""
    open: bool = False


def refuse(why_not: str, *links: Because) -> Chain:
    """No explanation, because something contradicts it."""
    return Chain(links=links, why_not=why_not)


def unknown(why_not: str, *links: Because) -> Chain:
    """No explanation, because no rule is known here that leads to it."""
    return Chain(links=links, why_not=why_not, open=True)


def lost(observed: Observed, anomaly: Row) -> Chain:
    """Why an acknowledged record is gone."""
    trace = observed.traces.get(anomaly["partition"])
    send = observed.suspects.get(anomaly["value"])
    if send is None or send["outcome"] != OK:
        return refuse("The history does not show that it was acknowledged.")
    if trace is None:
        return refuse("Nobody knows which partition it was sent to.")
    told = _acknowledged(observed, trace, send)
    if held := _held_after_all(trace, anomaly):
        return refuse(held, told)
    if anomaly["offset"] is None:
        return _lost_unanswered(observed, trace, send, told)
    return _lost_at(observed, trace, send, told)


def _acknowledged(observed: Observed, trace: Trace, send: Row) -> Because:
    leader = trace.leader_at(send["complete_ns"] or send["invoke_ns"])
    by = f" by broker {leader.leader}, the leader" if leader and leader.leader >= 0 else ""
    at = "" if send["offset"] is None else f" at offset {send['offset']}"
    acks = observed.plan.workload.acks
    return Because(
        rule=f"acks={acks}",
        says=f"{send['value']} was acknowledged{at}{by}, with acks={acks}.",
        event=f"{send['process']}: {send['outcome']}{at}",
        broker=leader.leader if leader and leader.leader >= 0 else None,
        time_ns=send["complete_ns"],
    )


def _held_after_all(trace: Trace, anomaly: Row) -> str:
    """A log of the last ISR that holds the record contradicts that it is lost."""
    last = trace.leaderships[-1] if trace.leaderships else None
    if last is None:
        return "Nobody was ever seen to lead."
    disk = trace.disks.get(last.leader)
    if disk is None:
        return "The disk of the last leader is missing."
    if anomaly["value"] in disk.ids:
        return f"The disk of broker {last.leader}, the last leader, holds it."
    return ""


def _lost_unanswered(observed: Observed, trace: Trace, send: Row, told: Because) -> Chain:
    """acks=0: nobody said that it was written. Something must have been in its way all the same."""
    since_ns = send["invoke_ns"]
    link = _disturbed(observed, trace, since_ns, send["complete_ns"] or since_ns)
    if link is None:
        return refuse("Its leader ran undisturbed when it was sent.", told)
    return Chain(links=(told, link))


def _disturbed(observed: Observed, trace: Trace, since_ns: int, until_ns: int) -> Because | None:
    """What kept a leader from answering, around a time: its fault, or a change of leader.

    With acks=all it waits for everybody in the ISR, so that their faults keep it as well.
    """
    rows = _around(trace, since_ns, until_ns)
    waited = observed.plan.workload.acks == "all"
    leaders = {row.leader for row in rows} | {b for row in rows if waited for b in row.isr}
    for one in observed.faults:
        ends = one.until_ns + _CLIENT
        if one.broker in leaders and one.since_ns - _CLIENT <= until_ns and since_ns <= ends:
            return _struck(one)
    changed = [
        row for row in trace.leaderships if since_ns - _CLIENT <= row.time_ns <= until_ns + _CLIENT
    ]
    before = trace.leader_at(since_ns - _CLIENT)
    for row in changed:
        if before is not None and (row.leader, row.epoch) != (before.leader, before.epoch):
            who = "nobody" if row.leader < 0 else f"broker {row.leader}"
            return Because(
                rule="elections",
                says=f"Then {who} led, in epoch {row.epoch}.",
                event=row.event,
                broker=row.leader if row.leader >= 0 else None,
                time_ns=row.time_ns,
            )
    return None


def _around(trace: Trace, since_ns: int, until_ns: int) -> list[Any]:
    first = trace.leader_at(since_ns - _CLIENT)
    rows = [row for row in trace.leaderships if since_ns - _CLIENT <= row.time_ns <= until_ns]
    return [first, *rows] if first else rows


def _struck(one: Struck) -> Because:
    return Because(
        rule=one.fault,
        says=f"{one.says[:1].upper()}{one.says[1:]}.",
        event=one.says,
        broker=one.broker,
        time_ns=one.since_ns,
    )


def _lost_at(observed: Observed, trace: Trace, send: Row, told: Because) -> Chain:
    """It stood at an offset, and somebody led from there or before without it."""
    chains = [_lost_to(observed, trace, send, start, told) for start in _successors(trace, send)]
    chains += _lost_at_once(observed, trace, send, told)
    none = unknown("Nobody was seen to begin to lead without it.", told)
    return next((chain for chain in chains if not chain.why_not), chains[0] if chains else none)


def _lost_to(observed: Observed, trace: Trace, send: Row, start: Start, told: Because) -> Chain:
    """Why one who led without it could be the leader."""
    cut, led = _cut(trace, start.broker, send), _led(start, send)
    if start.unclean:
        if not observed.plan.topic.unclean_leader_election:
            return refuse("It was elected from outside the ISR, which is not allowed.", told, led)
        return Chain(links=(told, led))
    if observed.plan.workload.acks != "all":
        fell = _fell(observed, told.broker, send, start)
        return Chain(links=tuple(link for link in (told, fell, cut, led) if link))
    return _lost_though_committed(observed, trace, send, start, (told, cut, led))


def _successors(trace: Trace, send: Row) -> list[Start]:
    """Who led, after the record was appended, from its offset or from before it; likeliest first.

    Whoever appended it does not lack it, whatever the observer saw of its LEO.
    """
    offset, since_ns, until_ns = send["offset"], send["invoke_ns"], send["complete_ns"]
    before = trace.leader_at(since_ns - LOOK) or trace.leaderships[0]
    found = [
        start
        for start in trace.starts
        if start.epoch > before.epoch
        and 0 <= start.offset <= offset
        and (start.told or start.broker != before.leader)
        and _took_its_place(trace, start, offset)
    ]
    return sorted(found, key=lambda start: start.time_ns < until_ns - LOOK)


def _lost_at_once(observed: Observed, trace: Trace, send: Row, told: Because) -> list[Chain]:
    """It was appended by one who led no more, and had not heard of it: nobody else ever had it."""
    if observed.plan.workload.acks == "all":
        return []
    now = trace.leader_at(send["invoke_ns"] - LOOK) or trace.leaderships[0]
    found = []
    for start in trace.starts:
        deposed = _deposed(observed, trace, start, send)
        lacks = start.epoch == now.epoch and 0 <= start.offset <= send["offset"]
        if lacks and deposed and _took_its_place(trace, start, send["offset"]):
            found.append(Chain(links=(_led(start, send), deposed, told)))
    return found


def _deposed(observed: Observed, trace: Trace, start: Start, send: Row) -> Because | None:
    """Who led before an election, if it may have answered as the leader that it no longer was."""
    earlier = [row for row in trace.leaderships if row.time_ns < start.time_ns and row.leader >= 0]
    if not earlier or earlier[-1].leader == start.broker:
        return None
    leader = earlier[-1].leader
    says = f"Broker {leader} led before, and had not heard that it led no more."
    for one in observed.faults:
        slept = one.fault == "pause" and one.broker == leader and one.since_ns < start.time_ns
        if slept and abs(one.until_ns - send["complete_ns"]) < _ZOMBIE:
            woken = f"{one.says}; woken again {one.until_ns / SECOND:.3f} s"
            return Because(
                rule="zombie", says=says, event=woken, broker=leader, time_ns=one.until_ns
            )
    if 0 <= send["complete_ns"] - start.time_ns < _ZOMBIE:
        event = earlier[-1].event
        return Because(
            rule="zombie", says=says, event=event, broker=leader, time_ns=earlier[-1].time_ns
        )
    return None


def _took_its_place(trace: Trace, start: Start, offset: int) -> bool:
    """Whether what stands there in the end is of that epoch or a later one, as far as one knows."""
    disk = trace.disks.get(trace.leaderships[-1].leader)
    epoch = -1 if disk is None else disk.epoch(offset)
    return epoch < 0 or epoch >= start.epoch


def _led(start: Start, send: Row) -> Because:
    """The beginning of a leadership without a record."""
    how = " from outside the ISR" if start.unclean else ""
    return Because(
        rule="unclean" if start.unclean else "elections",
        says=f"Broker {start.broker} was elected{how} in epoch {start.epoch} and led from offset"
        f" {start.offset}, without {send['value']} at {send['offset']}.",
        event=start.unclean or start.event,
        broker=start.broker,
        time_ns=start.time_ns,
    )


def _fell(observed: Observed, leader: int | None, send: Row, start: Start) -> Because | None:
    """What befell who acknowledged it, if anything did: a planned move does it too."""
    for one in observed.faults:
        overlaps = one.since_ns - SECOND <= start.time_ns and send["invoke_ns"] <= one.until_ns
        if one.broker == leader and overlaps:
            return _struck(one)
    return None


def _cut(trace: Trace, broker: int, send: Row) -> Because | None:
    """The cut by which a replica gave up an offset that it may have held."""
    for line in trace.of_kind(broker, "truncation"):
        if line.offset <= send["offset"] and line.time_ns >= send["invoke_ns"] - LOOK:
            return cut_link(line, "cut")
    return None


def cut_link(line: Line, rule: str) -> Because:
    """A cut as a link."""
    return Because(
        rule=rule,
        says=f"Broker {line.broker} cut its log to {line.offset}.",
        event=line.text,
        broker=line.broker,
        time_ns=line.time_ns,
    )


def _lost_though_committed(
    observed: Observed,
    trace: Trace,
    send: Row,
    start: Start,
    links: tuple[Because, Because | None, Because],
) -> Chain:
    """acks=all and a leader from the ISR: only a release's own faults explain that."""
    told, cut, led = links
    rules, known = observed.rules, tuple(link for link in links if link)
    if cut is not None and cut.time_ns is not None and cut.time_ns <= start.time_ns + SECOND:
        if not rules.epochs:
            because = Because(
                rule="epochs",
                says=f"{cut.says[:-1]}, its own HW, to which {send['value']} was not committed.",
                event=cut.event,
                broker=cut.broker,
                time_ns=cut.time_ns,
            )
            return Chain(links=(told, because, led))
        if not rules.epoch_on_election and _was_unknown(trace, cut):
            because = Because(
                rule="epoch_on_election",
                says=f"{cut.says[:-1]}, its own HW, because its leader knew no such epoch.",
                event=cut.event,
                broker=cut.broker,
                time_ns=cut.time_ns,
            )
            return Chain(links=(told, because, led))
    if not rules.join_from_epoch_start and (joined := _joined(trace, start, send)):
        return Chain(links=(told, joined, led))
    return unknown("A member of the ISR should have had it.", *known)


def _was_unknown(trace: Trace, cut: Because) -> bool:
    """Whether the leader had said that it does not know the follower's epoch."""
    return any(
        "unknown offset" in line.text and 0 <= (cut.time_ns or 0) - line.time_ns < SECOND
        for line in trace.of_kind(cut.broker if cut.broker is not None else -1, "answer")
    )


def _joined(trace: Trace, start: Start, send: Row) -> Because | None:
    """A change of the ISR that let a replica in which was seen to lack the record (KAFKA-7128)."""
    isr: tuple[int, ...] | None = None
    for row in trace.leaderships:
        joins = isr is not None and start.broker in row.isr and start.broker not in isr
        mark = trace.mark_at(start.broker, row.time_ns)
        if joins and mark and mark.leo <= send["offset"] and row.time_ns >= send["invoke_ns"]:
            return Because(
                rule="join_from_epoch_start",
                says=f"Broker {start.broker} joined the ISR with LEO {mark.leo}, without"
                f" {send['value']}.",
                event=row.event,
                broker=start.broker,
                time_ns=row.time_ns,
            )
        isr = row.isr
    return None


def duplicate(observed: Observed, anomaly: Row) -> Chain:
    """Why a record stands twice: its producer heard nothing, and sent it again."""
    send = observed.suspects.get(anomaly["value"])
    if send is None:
        return refuse("The history does not show that it was sent.")
    if observed.plan.workload.idempotence:
        return refuse("Its producer is idempotent: the broker should have known it again.")
    trace = observed.traces.get(anomaly["partition"])
    if trace is None:
        return refuse("Nobody knows which partition it was sent to.")
    until_ns = send["complete_ns"] or send["invoke_ns"] + 60 * SECOND
    twice = Because(
        rule="retry",
        says=f"{send['value']} was sent again, because no answer to the first attempt came.",
        event=f"{send['process']}: {send['outcome']} after"
        f" {(until_ns - send['invoke_ns']) / SECOND:.3f} s",
        time_ns=send["complete_ns"],
    )
    unanswered = _unanswered(observed, send, until_ns)
    link = unanswered or _disturbed(observed, trace, send["invoke_ns"], until_ns)
    if link is None:
        return refuse("Every request of its producer had its answer.", twice)
    return Chain(links=(link, twice))


def _unanswered(observed: Observed, send: Row, until_ns: int) -> Because | None:
    """What the client itself logged of a request without an answer, while this one was sent."""
    for said in observed.clients.get(send["process"], ()):
        if send["invoke_ns"] <= said.time_ns <= until_ns:
            return Because(
                rule="retry",
                says=f"A request of {send['process']} had no answer.",
                event=said.text,
                time_ns=said.time_ns,
            )
    return None


def unseen(observed: Observed, anomaly: Row) -> Chain:  # noqa: ARG001 - all are called alike
    """Why nobody looked: the harness must have said that the final read ended early."""
    if not observed.status.problems:
        return refuse("The final read ended without a problem, and yet not with the fence.")
    says = observed.status.problems[0]
    link = Because(rule="final-read", says="The final read ended early.", event=says)
    return Chain(links=(link,))


def fork(observed: Observed, anomaly: Row) -> Chain:
    """Why replicas differ at an offset: one came back with what a new leader never had."""
    trace = observed.traces.get(anomaly["partition"])
    offset = anomaly["offset"]
    if trace is None or offset is None or not trace.leaderships:
        return refuse("Nobody knows where.")
    held = {
        broker: disk.record(offset) for broker, disk in trace.disks.items() if offset in disk.at
    }
    final = trace.disks.get(trace.leaderships[-1].leader)
    current = None if final is None else final.record(offset)
    others = {b: value for b, value in held.items() if value != current}
    if current is None or not others:
        return refuse("The replicas hold the same record there, or one of them none.")
    links: list[Because] = []
    for broker, value in others.items():
        chain = _strayed(observed, trace, broker, offset, value)
        if chain.why_not:
            return chain
        links += [link for link in chain.links if link not in links]
    return Chain(links=tuple(links))


def _strayed(
    observed: Observed, trace: Trace, broker: int, offset: int, value: str | None
) -> Chain:
    """Why one replica kept its own record."""
    send = observed.suspects.get(value or "")
    if send is None:
        return refuse(f"{value}, which broker {broker} holds, was never sent.")
    before = trace.leader_at(send["invoke_ns"])
    starts = [
        start
        for start in trace.starts
        if 0 <= start.offset <= offset and before is not None and start.epoch > before.epoch
    ]
    for start in starts:
        kept = _kept(trace, broker, start, offset)
        ended_ns = send["complete_ns"] or NEVER
        again = send["invoke_ns"] <= start.time_ns <= ended_ns
        if kept is None or (send["offset"] not in {None, offset} and not again):
            continue
        appended = _acknowledged(observed, trace, send)
        led = _led(start, {"value": value, "offset": offset})
        if not observed.rules.epochs:
            return Chain(links=(appended, led, _kept_link(kept, offset, "epochs", "its own HW")))
        if not observed.rules.exact_epochs and not _same_epoch(trace, broker, start, offset):
            says = "where its leader's answer was"
            return Chain(links=(appended, led, _kept_link(kept, offset, "exact_epochs", says)))
    return unknown(f"No rule lets broker {broker} keep {value} at offset {offset}.")


def _same_epoch(trace: Trace, broker: int, start: Start, offset: int) -> bool:
    """Whether a replica's own record is of the new leader's epoch: then it is no older fork."""
    return trace.disks[broker].epoch(offset) >= start.epoch


def _kept(trace: Trace, broker: int, start: Start, offset: int) -> Line | None:
    """The cut, or the fetcher, by which a replica kept an offset though another led from below it.

    None, when it was cut to that offset or below afterwards: then it fetched what others have.
    """
    lines = [
        line
        for line in trace.of_kind(broker, "truncation", "fetcher")
        if line.time_ns >= start.time_ns - LOOK
    ]
    if not lines or any(line.offset <= offset for line in lines):
        return None
    return lines[0]


def _kept_link(line: Line, offset: int, rule: str, where: str) -> Because:
    return Because(
        rule=rule,
        says=f"Broker {line.broker} cut its log to {line.offset}, {where}, and so kept its own"
        f" record at {offset}.",
        event=line.text,
        broker=line.broker,
        time_ns=line.time_ns,
    )


def corrupt(observed: Observed, anomaly: Row) -> Chain:  # noqa: ARG001 - all are called alike
    """No rule of replication damages a disk."""
    return refuse("No rule of replication damages a disk.")


EXPLAINED_BY: Final = {
    "lost-write": lost,
    "divergence": fork,
    "duplicate": duplicate,
    "unseen": unseen,
    "corrupt": corrupt,
}
"""The kind of an anomaly, and who knows why."""

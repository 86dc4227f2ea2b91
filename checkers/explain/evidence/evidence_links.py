"""The links of an explanation. Each link has an observed event, a sentence and a rule."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeAlias

from highwater.checkers.explain.observations import Observation, listed
from highwater.checkers.explain.tolerances import SECOND, WITHIN
from highwater.checkers.explain.trace import (
    BrokerLogLine,
    ClientLogLine,
    LeadershipStart,
    RunTraces,
    Trace,
)
from highwater.checkers.model.report_types import ExplanationLink
from highwater.harness.runs.faults.facts import facts_of
from highwater.harness.runs.faults.intervals import FaultInterval
from highwater.harness.runs.partition_trace import Leadership

Row: TypeAlias = dict[str, Any]
Links: TypeAlias = tuple[ExplanationLink, ...]
"""The links of an explanation; empty without evidence for the explanation."""

_LONGEST_NS = 60 * SECOND
"""The assumed duration of a send with an unknown outcome."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnomalyCase:
    """An anomaly of a run, and the run's observations.

    Attributes:
        anomaly: the anomaly's row; empty without an anomaly.
    """

    observed: RunTraces
    anomaly: Row = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordCase(AnomalyCase):
    """An anomaly about a record whose send is in the history.

    Attributes:
        send: the row of the record's send.
        trace: the trace of the record's partition; None if the partition is not known.
    """

    send: Row
    trace: Trace | None

    @property
    def begun_ns(self) -> int:
        """The time at which the record was sent."""
        return int(self.send["invoke_ns"])

    @property
    def until_ns(self) -> int:
        """The time of the response; for a send with unknown outcome, a minute after the send."""
        return int(self.send["complete_ns"] or self.begun_ns + _LONGEST_NS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """The links of an explanation; ``why_not`` is empty if they explain the anomaly.

    ``open`` is true if no known rule leads to the anomaly, but no evidence contradicts it either.
    ``unobserved`` names the missing observations that could show the cause.
    """

    links: tuple[ExplanationLink, ...] = ()
    why_not: str = ""
    open: bool = False
    unobserved: frozenset[Observation] = frozenset()


def refuse(why_not: str, *links: ExplanationLink) -> Chain:
    """Return a chain without an explanation, because the evidence contradicts every explanation."""
    return Chain(links=links, why_not=why_not)


def unknown(why_not: str, *links: ExplanationLink) -> Chain:
    """Return a chain without an explanation, because no known rule leads to the anomaly."""
    return Chain(links=links, why_not=why_not, open=True)


def not_known(missing: Iterable[Observation], *links: ExplanationLink) -> Chain:
    """Return a chain without an explanation, because observations are missing."""
    says = f"The run lacks the observations that could explain this: {listed(missing)}."
    return Chain(links=links, why_not=says, unobserved=frozenset(missing))


def acknowledged(observed: RunTraces, trace: Trace, send: Row) -> ExplanationLink:
    """Return a link for the response that acknowledged a record, with the broker if it is known.

    If the send failed, but its transaction was committed, the link is for the commit.
    """
    if send.get("error"):
        return ExplanationLink(
            rule="commit",
            says=f"The transaction of {send['value']} was committed.",
            event=f"{send['process']}: {send['outcome']}",
            time_ns=send["complete_ns"],
        )
    at_offset = [
        (disk.epoch(send["offset"]), disk.record(send["offset"])) for disk in trace.disks.values()
    ]
    others = {epoch for epoch, record in at_offset if record not in (None, send["value"])}
    answered_ns = send["complete_ns"] or send["invoke_ns"]
    leader = trace.answering(send["invoke_ns"], answered_ns, others)
    by = f" by broker {leader.leader}, the leader" if leader else ""
    at = "" if send["offset"] is None else f" at offset {send['offset']}"
    acks = observed.plan.workload.acks
    return ExplanationLink(
        rule=f"acks={acks}",
        says=f"{send['value']} was acknowledged{at}{by}, with acks={acks}.",
        event=f"{send['process']}: {send['outcome']}{at}",
        broker=leader.leader if leader else None,
        time_ns=send["complete_ns"],
    )


def disturbed(
    observed: RunTraces, trace: Trace, since_ns: int, until_ns: int
) -> ExplanationLink | None:
    """Return a link for a fault or an election that may have prevented a leader's response.

    The fault or election was between the two times. With acks=all, faults of ISR members count,
    because the leader waits for the whole ISR. With KIP-497 it also waits for brokers that it has
    asked the controller to add (the maximal ISR).
    """
    first = trace.leadership(since_ns - WITHIN.client)
    later = [row for row in trace.leaderships if since_ns - WITHIN.client <= row.time_ns]
    rows = [row for row in (first, *later) if row is not None and row.time_ns <= until_ns]
    waited = observed.plan.workload.acks == "all"
    leaders = {row.leader for row in rows} | {b for row in rows if waited for b in row.isr}
    if waited and observed.software.may_have("async_isr", until_ns):
        leaders |= {b for row in trace.leaderships for b in row.isr}
    for fault in observed.faults:
        begins, ends = fault.start_ns - WITHIN.client, fault.until_ns + WITHIN.client
        if target_of(fault) in leaders and begins <= until_ns and since_ns <= ends:
            return fault_link(fault)
    changed = [row for row in later if row.time_ns <= until_ns + WITHIN.client]
    before = first or next(iter(changed), None)  # the run begins without an earlier leadership
    for row in changed:
        if before is not None and (row.leader, row.epoch) != (before.leader, before.epoch):
            says = f"Then {leader_of(row)} led, in epoch {row.epoch}."
            return event_link("elections", says, row, row.leader if row.leader >= 0 else None)
    return None


def hung_up(
    observed: RunTraces, trace: Trace, since_ns: int, until_ns: int
) -> ExplanationLink | None:
    """Return a link for another partition's change of leader that closed the connection.

    A broker does not respond to acks=0. If it no longer leads a partition, it closes the connection
    (``KafkaApis.handleProduceRequest``). All requests in flight on the connection are lost, also
    those for other partitions.
    """
    then = trace.leadership(since_ns)
    if then is None or observed.plan.workload.acks != "0":
        return None
    for partition, before, now in leader_changes(observed, since_ns, until_ns):
        if before.leader == then.leader:
            says = (
                f"Broker {then.leader} no longer led partition {partition}, and closed"
                " the connections of clients that sent records for it with acks=0."
            )
            return event_link("acks=0", says, now, then.leader)
    return None


def leader_changes(
    observed: RunTraces, since_ns: int, until_ns: int
) -> Iterator[tuple[int, Leadership, Leadership]]:
    """Yield partitions whose leader changed while a request was in flight, with both leaders."""
    for trace in observed.traces.values():
        for before, now in pairwise(trace.leaderships):
            about = since_ns - WITHIN.client <= now.time_ns <= until_ns + WITHIN.log
            if before.leader != now.leader and about:
                yield trace.partition, before, now


def leader_of(row: Leadership) -> str:
    """Return ``broker 1``, or ``no broker``."""
    return "no broker" if row.leader < 0 else f"broker {row.leader}"


def event_link(
    rule: str, says: str, seen: BrokerLogLine | ClientLogLine | Leadership, broker: int | None
) -> ExplanationLink:
    """Return a log line or an observed leadership as a link."""
    event = seen.event if isinstance(seen, Leadership) else seen.text
    return ExplanationLink(rule=rule, says=says, event=event, broker=broker, time_ns=seen.time_ns)


def fault_link(fault: FaultInterval) -> ExplanationLink:
    """Return a fault as a link."""
    return ExplanationLink(
        rule=fault.name,
        says=f"{fault.says[:1].upper()}{fault.says[1:]}.",
        event=fault.says,
        broker=fault.broker,
        time_ns=fault.start_ns,
    )


def target_of(fault: FaultInterval) -> int:
    """Return a fault's broker; -1, which is no broker's id, for a fault without a broker."""
    return -1 if fault.broker is None else fault.broker


def led_without(start: LeadershipStart, send: Row) -> ExplanationLink:
    """Return a link for the election of a leader whose log lacked the sent record."""
    how = " from outside the ISR" if start.unclean else ""
    if start.unclean and start.unlogged_election:
        how = " from outside the last observed ISR"
    if start.last_leader:
        how = ", as the last known leader,"
    at = "" if send["offset"] is None else f" at {send['offset']}"
    return ExplanationLink(
        rule="unclean" if start.unclean else "elr" if start.last_leader else "elections",
        says=f"Broker {start.broker} was elected{how} in epoch {start.epoch} and led from offset"
        f" {start.offset}, without {send['value']}{at}.",
        event=start.unclean or start.last_leader or start.event,
        broker=start.broker,
        time_ns=start.time_ns,
    )


def cut_link(line: BrokerLogLine) -> ExplanationLink:
    """Return a truncation as a link."""
    says = f"Broker {line.broker} truncated its log to {line.offset}."
    return event_link("cut", says, line, line.broker)


def failed_send(send: Row) -> ExplanationLink:
    """Return a link for the failed send of a record whose transaction was committed later."""
    says = f"The send of {send['value']} had failed before: {send['error']}."
    event = f"{send['process']}: {send['error']}"
    return ExplanationLink(rule="partial-commit", says=says, event=event)


def refusals_by_wire(observed: RunTraces, send: Row, until_ns: int, api: str) -> Iterator[Row]:
    """Yield the relay's errors to a producer's ``api`` requests, from the send to ``until_ns``."""
    client = f"client:{send['process']}"
    for row in observed.refusals:
        is_its = row["target" if row["side"] == "answer" else "source"] == client
        if is_its and row["api"] == api and send["invoke_ns"] <= row["time_ns"] <= until_ns:
            yield row


def refused_by_wire(
    observed: RunTraces, send: Row, until_ns: int, *, acted: bool
) -> ExplanationLink | None:
    """Return a link for a Produce of the record's producer that got an error from the relay.

    Args:
        acted: True if the broker must have written the Produce's records before.
    """
    for row in refusals_by_wire(observed, send, until_ns, "Produce"):
        after = row["side"] == "answer"
        if after or not acted:
            says = (
                f"The relay answered a Produce of {send['process']} with {row['cause']},"
                f" {'after' if after else 'before'} the broker had written its records."
            )
            return ExplanationLink(
                rule="retry", says=says, event=row["cause"], time_ns=row["time_ns"]
            )
    return None


def unanswered(observed: RunTraces, send: Row, until_ns: int) -> ExplanationLink | None:
    """Return a link for a request of the record's producer that had no response.

    The link is the client's first log line about such a request, or a fault that withholds
    responses from this client. Not every library logs.
    """
    process, since_ns = send["process"], send["invoke_ns"]
    for line in observed.clients.get(process, ()):
        if since_ns <= line.time_ns <= until_ns:
            return event_link("retry", f"A request of {process} had no answer.", line, None)
    for fault in observed.faults:
        hits = facts_of(fault.name).withholds and process in fault.says.split()
        if hits and fault.start_ns <= until_ns and since_ns <= fault.until_ns:
            return fault_link(fault)
    return None

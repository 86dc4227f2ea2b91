"""Explains duplicates, records out of order, hanging transactions, and damaged disks."""

from typing import Final

import pyarrow.compute as pc

from highwater.checkers.core.promises import CONTROLLER_DISK_LOSS
from highwater.checkers.model.explain.evidence.cut_markers import cut_marker, written_later
from highwater.checkers.model.explain.evidence.evidence_links import (
    Chain,
    Row,
    cut_link,
    disturbed,
    fault_link,
    hung_up,
    refuse,
    unanswered,
)
from highwater.checkers.model.explain.evidence.late_markers import late_marker
from highwater.checkers.model.explain.evidence.reused_buffers import expired_sends
from highwater.checkers.model.explain.tolerances import MS, SECOND, WITHIN
from highwater.checkers.model.explain.trace import BrokerLogLine, RunTraces
from highwater.checkers.model.report_types import ExplanationLink
from highwater.harness.runs.history import FAIL, SEND

_FORGETS: Final = "producer.id.expiration.ms"
_FORGETS_USUALLY_MS: Final = 86_400_000

_TWO_AT_ONCE: Final = ((0, 10, 2), (0, 11, 0, 1))
"""The first release whose broker takes two requests of a closed connection at once (KAFKA-3703),
and the first that does not any more (KAFKA-5587)."""


def duplicate(observed: RunTraces, anomaly: Row) -> Chain:
    """Explain a duplicate: its producer got no answer, and sent the record again.

    A broker knows a record of an idempotent producer again by producer id, epoch and sequence
    (KIP-98). A client that takes a new epoch after requests without an answer, as librdkafka does,
    and sends their records again, is not recognised.
    """
    send = observed.suspects.get(anomaly["value"])
    if send is None:
        return refuse("The history does not show that it was sent.")
    how = "because no answer to the first attempt came"
    if observed.plan.workload.idempotence:
        trace = observed.traces.get(anomaly["partition"])
        disks = trace.disks.values() if trace else ()
        if not any(len(disk.writers(anomaly["value"])) > 1 for disk in disks):
            return refuse("Its producer is idempotent: the broker should have known it again.")
        how = f"{how}, in a new epoch of its producer, in which no broker knows it again"
    return _sent_again(observed, anomaly, send, how)


def reordered(observed: RunTraces, anomaly: Row) -> Chain:
    """Explain a record before one that was sent earlier: the earlier one was sent again, behind it.

    A producer has several requests in flight; without idempotence (KIP-98) the leader does not know
    that an earlier one was refused (``max.in.flight.requests.per.connection`` in Kafka's docs). In
    a few old releases, the leader itself swaps the last requests of a client that leaves.
    """
    if observed.plan.workload.idempotence:
        return refuse("Its producer is idempotent: the broker should have kept the order.")
    [earlier, later] = anomaly["steps"]
    chain = _sent_again(observed, anomaly, earlier, f"behind {anomaly['value']}")
    if chain.why_not:
        link = _taken_at_once(observed, anomaly, earlier) or _overtaken(observed, earlier, later)
        return chain if link is None else Chain(links=(link,))
    return chain


def _overtaken(observed: RunTraces, earlier: Row, later: Row) -> ExplanationLink | None:
    """Return the end of the connection on which the earlier request waited at a busy broker.

    With acks=0 a request is acknowledged when the client's socket has it. The requests of two
    connections are handled in any order.
    """
    sent_ns, next_ns = earlier["complete_ns"], later["complete_ns"]
    if observed.plan.workload.acks != "0" or sent_ns is None or next_ns is None:
        return None
    for line in observed.clients.get(earlier["process"], ()):
        if sent_ns <= line.time_ns <= next_ns <= sent_ns + WITHIN.backlog:
            says = (
                f"{earlier['value']} waited at its broker when {earlier['process']} gave the"
                f" connection up, and {later['value']} came on the next one."
            )
            return ExplanationLink(
                rule="connection-end", says=says, event=line.text, time_ns=line.time_ns
            )
    return None


def _taken_at_once(observed: RunTraces, anomaly: Row, send: Row) -> ExplanationLink | None:
    """Return the end of a client two of whose requests its broker handled at the same time.

    From 0.10.2.0 to 0.11.0.0 a broker that reads requests and the end of their connection in one
    poll completes two of them in it: ``Selector.close`` one, ``addToCompletedReceives`` another.
    Two threads then append their records, in either order.
    """
    ops, process = observed.ops, send["process"]
    sends = pc.and_(pc.equal(ops["kind"], SEND), pc.equal(ops["process"], process))
    left_ns = pc.max(ops["invoke_ns"].filter(sends)).as_py()
    if left_ns is None or left_ns > send["invoke_ns"] + WITHIN.unread:
        return None
    first, fixed = _TWO_AT_ONCE
    trace = observed.traces.get(anomaly["partition"])
    leadership = trace.leadership(left_ns) if trace else None
    leader = leadership.leader if leadership and leadership.leader >= 0 else None
    if not all(
        first <= software.number < fixed for software in observed.software.at(left_ns, leader)
    ):
        return None
    says = (
        f"{process} left, and the broker took {send['value']} and {anomaly['value']}, which it had"
        " not read before, at once (KAFKA-5587)."
    )
    return ExplanationLink(
        rule="connection-end", says=says, event=f"{process}: its last send", time_ns=left_ns
    )


def _sent_again(observed: RunTraces, anomaly: Row, send: Row, how: str) -> Chain:
    """Return a send whose first attempt got no answer, and why."""
    trace = observed.traces.get(anomaly["partition"])
    if trace is None:
        return refuse("Nobody knows which partition it was sent to.")
    until_ns = send["complete_ns"] or send["invoke_ns"] + 60 * SECOND
    again = ExplanationLink(
        rule="retry",
        says=f"{send['value']} was sent again, {how}.",
        event=f"{send['process']}: {send['outcome']} after"
        f" {(until_ns - send['invoke_ns']) / SECOND:.3f} s",
        time_ns=send["complete_ns"],
    )
    # With acks=0 it is told that all is well when its request has left.
    later_ns = WITHIN.log if observed.plan.workload.acks == "0" else 0
    unanswered_link = unanswered(observed, send, until_ns + later_ns)
    link = unanswered_link or disturbed(observed, trace, send["invoke_ns"], until_ns)
    link = link or hung_up(observed, trace, send["invoke_ns"], until_ns)
    if link is None:
        return refuse("Every request of its producer had its answer.", again)
    return Chain(links=(link, again))


def aborted_read(observed: RunTraces, anomaly: Row) -> Chain:
    """Explain a record of an aborted transaction that was read: a request came late.

    Before KIP-890 an EndTxn bears its producer's id and epoch, and these are the same in every
    transaction of that producer. One that the wire kept ends the transaction that is open by then
    (KAFKA-17754). A Produce that the wire kept, too, is of the transaction that is open then, if
    the leader does not know its record. So is a marker that the wire kept.
    """
    send = observed.suspects.get(anomaly["value"])
    if send is None:
        return refuse("The history does not show that it was sent.")
    client = f"client:{send['process']}"
    until_ns = send["complete_ns"] or send["invoke_ns"] + 60 * SECOND
    for row in observed.messages:
        within = send["invoke_ns"] <= row["time_ns"] <= until_ns
        if not (row["api"] == "EndTxn" and row["source"] == client and within):
            continue
        says = (
            f"An EndTxn of {send['process']} that the wire had kept reached {row['target']} while"
            f" the transaction of {anomaly['value']} was open. It bears producer id"
            f" {row['producer_id']} and epoch {row['epoch']}, and nothing that tells one"
            " transaction of that producer from the next."
        )
        event = f"EndTxn {row['event']}: {row['transactional_id']}, message {row['message']}"
        late = ExplanationLink(rule="late-end-txn", says=says, event=event, time_ns=row["time_ns"])
        own_end = ExplanationLink(
            rule="late-end-txn",
            says=f"Its own end was asked for after that: {send['outcome']}"
            f"{', ' + send['error'] if send['error'] else ''}.",
            event=f"{send['process']}: {send['outcome']}",
            time_ns=send["complete_ns"],
        )
        return Chain(links=(late, own_end))
    if ended := late_marker(observed, send) or cut_marker(observed, send):
        return Chain(links=ended)
    if again := _written_again(observed, send, anomaly["offset"]):
        return Chain(links=again)
    late_record = _late_produce(observed, anomaly, send, "which committed it with the next one")
    if late_record is not None:
        return Chain(links=(_given_up(send), late_record))
    return refuse("No request of its producer came late, as far as the wire has seen.")


def repeated(observed: RunTraces, anomaly: Row) -> Chain:
    """Explain a record that a leader appended twice: it had forgotten the record's producer."""
    send = observed.suspects.get(anomaly["value"])
    if send is None:
        return refuse("The history does not show that it was sent.")
    again = _written_again(observed, send, None)
    why = "No copy of it came after its leader had forgotten its producer."
    return Chain(links=again) if again else refuse(why)


def _written_again(
    observed: RunTraces, send: Row, offset: int | None
) -> tuple[ExplanationLink, ...]:
    """Return the late copy of a record that its leader appended a second time, and why.

    A leader forgets a producer that has no transaction open for ``producer.id.expiration.ms``
    (KIP-854), and takes any sequence number of one that it does not know (KIP-360).

    Args:
        offset: of the second place; None for any.
    """
    ended_ns, first = send["complete_ns"], send["offset"]
    if ended_ns is None or first is None or first == offset:
        return ()
    setting = observed.plan.broker_config.get(_FORGETS, _FORGETS_USUALLY_MS)
    copies = _places(observed, send)
    for row in observed.messages:
        here = row["topic"] == observed.topic and row["partition"] == send["partition"]
        of_sender = row["api"] == "Produce" and row["source"] == f"client:{send['process']}"
        idle_ms = (row["time_ns"] - ended_ns) / MS
        if not (of_sender and here) or idle_ms < int(setting) or len(copies) < 2:  # noqa: PLR2004 - two places
            continue
        came = ExplanationLink(
            rule="forgotten-producer",
            says=f"A Produce of {send['process']} that the wire had kept, of producer id"
            f" {row['producer_id']} and epoch {row['epoch']}, reached {row['target']}"
            f" {idle_ms / 1000:.1f} s after the end of its transaction. Leaders forget a producer"
            f" after {_FORGETS}={setting}.",
            event=f"Produce {row['event']}: {row['transactional_id']}, message {row['message']}",
            time_ns=row["time_ns"],
        )
        stands = ExplanationLink(
            rule="forgotten-producer",
            says=f"{send['value']} is at offsets {' and '.join(map(str, copies))}: the leader did"
            " not know that it had it.",
            event="replicas",
        )
        return came, stands
    return ()


def _places(observed: RunTraces, send: Row) -> list[int]:
    """Return the offsets at which the last leader's disk has a record."""
    trace = observed.traces.get(send["partition"])
    disk = trace.last_disk if trace else None
    if disk is None:
        return []
    ids = zip(disk.offsets.tolist(), disk.ids, strict=True)
    return [offset for offset, name in ids if name == send["value"]]


def hanging(observed: RunTraces, anomaly: Row) -> Chain:
    """Explain a transaction that nobody ends: its record came after its end (KAFKA-14402).

    Before 3.6 a leader appends a record of a transaction without asking the coordinator whether
    that is still open (KIP-890). A Produce that the wire kept, and which arrives after the end,
    opens it again.
    """
    send = observed.suspects.get(anomaly["value"])
    if send is None:
        return refuse("The history does not show that it was sent.")
    if send["outcome"] != FAIL or send["complete_ns"] is None:
        return refuse("Its transaction was not aborted with an answer.")
    ended = _given_up(send)
    late = _late_produce(
        observed, anomaly, send, "which opened that transaction again; no coordinator knows of it"
    )
    if late is None:
        why = "No Produce of its producer came late, as far as the wire has seen."
        return refuse(why, ended)
    return Chain(links=(ended, late))


def _given_up(send: Row) -> ExplanationLink:
    """Return the abort of a record about which its producer had no answer."""
    return ExplanationLink(
        rule="late-produce",
        says=f"{send['process']} had no answer about {send['value']}, and aborted its transaction.",
        event=f"{send['process']}: {send['outcome']}",
        time_ns=send["complete_ns"],
    )


def _late_produce(observed: RunTraces, anomaly: Row, send: Row, so: str) -> ExplanationLink | None:
    """Return the Produce of a record's sender that the wire let go on after its abort."""
    ended_ns, process = send["complete_ns"], send["process"]
    if send["outcome"] != FAIL or send["offset"] is not None or ended_ns is None:
        return None
    for row in observed.messages:
        here = row["topic"] == anomaly["topic"] and row["partition"] == anomaly["partition"]
        of_sender = row["api"] == "Produce" and row["source"] == f"client:{process}"
        if not (of_sender and here) or row["time_ns"] < ended_ns - WITHIN.log:
            continue
        says = (
            f"A Produce of {process} that the wire had kept, of producer id {row['producer_id']}"
            f" and epoch {row['epoch']}, reached {row['target']} after that. The leader appended"
            f" {send['value']} at offset {anomaly['offset']}, {so}."
        )
        event = f"Produce {row['event']}: {row['transactional_id']}, message {row['message']}"
        return ExplanationLink(rule="late-produce", says=says, event=event, time_ns=row["time_ns"])
    return None


def phantom(observed: RunTraces, anomaly: Row) -> Chain:
    """Explain a record that nobody sent to its topic: it was in the buffer of an expired batch.

    Java's producer before the fix of KAFKA-19012 gives the buffer of a batch that expires in its
    socket to the next batch, and the request has that one's bytes then.
    """
    sends = expired_sends(observed, anomaly["partition"])
    if not sends:
        return refuse("No batch of its partition expired in a client that reuses its buffer.")
    send = sends[0]
    expired = ExplanationLink(
        rule="reused-buffer",
        says=(
            f"{send['value']} of {send['process']} expired in its client, {observed.plan.client}."
            " That gave its buffer to the next batch, while the request in the socket still"
            " referred to it."
        ),
        event=f"{send['process']}: {send['outcome']}, {send['error']}",
        time_ns=send["complete_ns"],
    )
    return Chain(links=(expired,))


def unseen(observed: RunTraces, anomaly: Row) -> Chain:  # noqa: ARG001 - all are called alike
    """Explain an unseen record: the harness must have reported that the final read ended early."""
    if not observed.status.problems:
        return refuse("The final read ended without a problem, and yet not with the fence.")
    says = observed.status.problems[0]
    link = ExplanationLink(rule="final-read", says="The final read ended early.", event=says)
    return Chain(links=(link,))


def corrupt(observed: RunTraces, anomaly: Row) -> Chain:
    """Explain a damaged disk by an injected fault, or by the one rule that allows it."""
    for copy in anomaly["copies"] or ():
        trace = observed.traces.get(copy["partition"])
        cut = trace and trace.sent_whole(copy["broker"], copy["offset"])
        if cut:
            return Chain(links=(cut_link(cut), _whole_set(cut, copy)))
        for fault in observed.faults:
            bits = fault.removed_from(observed.topic, copy["partition"])
            here = fault.name == "bit-flip" and fault.broker == copy["broker"]
            if here and any(copy["offset"] in damaged for damaged in bits):
                return Chain(links=(fault_link(fault),))
    return refuse("No rule of replication damages a disk.")


def _whole_set(cut: BrokerLogLine, copy: Row) -> ExplanationLink:
    return ExplanationLink(
        rule="whole-set",
        says=f"It went on from {cut.offset} with a compressed set of its new leader's that begins"
        f" before that, and ends at {copy['offset']}: before 0.11 sets are sent whole.",
        event=copy["note"],
        broker=copy["broker"],
        time_ns=cut.time_ns,
    )


def decided(observed: RunTraces, anomaly: Row) -> Chain:  # noqa: ARG001 - all are called alike
    """Explain a lost decision: a voter lost its disk, and what it had written with it.

    Raft keeps what a majority has on its disks (KIP-595); a voter that comes back empty votes for
    one that lacks it, and a single one has nobody who could tell it.
    """
    links = tuple(fault_link(f) for f in observed.faults if f.name == CONTROLLER_DISK_LOSS)
    return Chain(links=links) if links else refuse("Every controller kept its disk.")


def seen(observed: RunTraces, anomaly: Row) -> Chain:
    """Explain client anomalies that follow from no lost record and no fork."""
    if links := written_later(observed, anomaly):
        return Chain(links=links)
    return refuse("Nothing was cut there, and no rule of replication lets a client see it so.")

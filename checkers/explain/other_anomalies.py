"""Explains duplicates, reordered records, unknown records, damaged disks, and other anomalies."""

from typing import Final

import pyarrow.compute as pc

from highwater.checkers.core.anomaly_kinds import TORN
from highwater.checkers.core.promises import CONTROLLER_DISK_LOSS
from highwater.checkers.disks.time_lookups import LAST_OF_BATCH
from highwater.checkers.explain.evidence.client_numbers import (
    answered_as_another,
    numbered_anew,
    numbered_behind,
)
from highwater.checkers.explain.evidence.evidence_links import (
    AnomalyCase,
    Chain,
    Links,
    RecordCase,
    Row,
    cut_link,
    disturbed,
    event_link,
    failed_send,
    fault_link,
    hung_up,
    leader_changes,
    leader_of,
    refuse,
    refused_by_wire,
    unanswered,
)
from highwater.checkers.explain.evidence.licences import (
    FAULT,
    NEW_EPOCH,
    OLD_SETS,
    PARTIAL,
    RESENT,
    SEEN_TO_HAPPEN,
    UNACKNOWLEDGED,
    UNKNOWN_CLIENT,
    Explainer,
    explains,
    hazard_of_release,
    of_releases,
)
from highwater.checkers.explain.evidence.markers import written_later
from highwater.checkers.explain.evidence.reused_buffers import REUSES, expired_sends
from highwater.checkers.explain.observations import FILES, LEADERS, LOGS, Observation
from highwater.checkers.explain.tolerances import SECOND, WITHIN
from highwater.checkers.explain.trace import BrokerLogLine, RunTraces
from highwater.checkers.model.report_types import ExplanationLink

_FIRST, _FIXED = (0, 10, 2), (0, 11, 0, 1)
"""The first release whose broker handles two requests of a closed connection at once (KAFKA-3703),
and the first release that no longer does so (KAFKA-5587)."""

_LARGEST: Final = "KAFKA-16310"

_NO_ANSWER: Final = "because no answer to the first attempt came"
_REFUSAL: Final = "because the first attempt was answered with an error"

TWO_AT_ONCE: Final = of_releases(
    "KAFKA-5587",
    "Only from 0.10.2.0 to 0.11.0.0 a broker handles two requests of a closed connection at once.",
    lambda entry: _FIRST <= entry.number < _FIXED,
)


@explains(
    "retry", RESENT, "The producer got no response, and sent the record again.", needs=LEADERS
)
def _sent_again_at_all(case: RecordCase) -> Chain:
    return _sent_again(case, _NO_ANSWER)


def _has_two_epochs(case: RecordCase) -> bool:
    """Return whether a disk has the record in two producer epochs; True if the run lacks disks."""
    disks = case.trace.disks.values() if case.trace else ()
    copies = (disk.copies(case.anomaly["value"]) for disk in disks)
    twice = any(len({number[:2] for _, number in rows}) > 1 for rows in copies)
    return twice or case.observed.lacks(Observation.DISKS)


@explains(
    "retry-in-another-epoch",
    NEW_EPOCH,
    "An idempotent producer got no response, took a new epoch, and sent the record again.",
    applies=_has_two_epochs,
    needs=LEADERS | FILES,
)
def _sent_in_another_epoch(case: RecordCase) -> Chain:
    """Return links for an idempotent producer's second send of a record, in a new producer epoch.

    After requests without a response, librdkafka takes a new epoch and sends the requests' records
    again. A broker does not recognise these records.
    """
    how = f"{_NO_ANSWER}, in a new epoch of its producer"
    return _sent_again(case, f"{how}, in which no broker recognises the record")


@explains(
    "retry-behind",
    RESENT,
    "The earlier record got no response, and was sent again after the later record "
    "(max.in.flight.requests.per.connection).",
    needs=LEADERS,
)
def _sent_behind(case: RecordCase) -> Chain:
    return _sent_again(case, f"behind {case.anomaly['value']}", written=False)


@explains(
    "retry-elsewhere",
    RESENT & UNKNOWN_CLIENT,
    "The leader of another partition changed, and the client also sent this record again.",
    needs=LEADERS,
)
def _sent_again_elsewhere(case: RecordCase) -> Links:
    """Return a link for a change of another partition's leader while the record was in flight.

    Some libraries then end all requests. franz-go before 1.21 closed every connection, except to
    the brokers that the Produce response named (``kip951move.ensureBrokers``).
    """
    change = next(leader_changes(case.observed, case.begun_ns, case.until_ns), None)
    if change is None:
        return ()
    partition, _, now = change
    says = (
        f"Then {leader_of(now)} led partition {partition}, and {case.send['value']} was sent again"
        " by a client that does not number records."
    )
    broker = now.leader if now.leader >= 0 else None
    return (event_link("retry-elsewhere", says, now, broker),)


@explains(
    "in-flight-together",
    RESENT & UNKNOWN_CLIENT,
    "The client sent the later record before it had a response about the earlier record.",
)
def _in_flight_together(case: RecordCase) -> Links:
    """Return links for two sends that overlap in time.

    Without sequence numbers, only the client decides their order.
    """
    [earlier, later] = case.anomaly["steps"]
    if later["invoke_ns"] > case.until_ns:
        return ()
    says = (
        f"{later['value']} was sent before {earlier['value']} had been answered, and their client"
        " does not number records. So no broker knows their order."
    )
    return (
        ExplanationLink(
            rule="in-flight-together",
            says=says,
            event=f"{later['process']}: its send",
            time_ns=later["invoke_ns"],
        ),
    )


@explains(
    "overtaken",
    RESENT & UNACKNOWLEDGED,
    "The earlier record waited at its broker when the client closed the connection.",
)
def _overtaken(case: RecordCase) -> Links:
    """Return a link for the end of the connection on which the earlier request waited.

    With acks=0 the client counts a request as acknowledged when it has written it to its socket. A
    busy broker handles the requests of two connections in any order.
    """
    [earlier, later] = case.anomaly["steps"]
    sent_ns, next_ns = earlier["complete_ns"], later["complete_ns"]
    if sent_ns is None or next_ns is None:
        return ()
    for line in case.observed.clients.get(earlier["process"], ()):
        if sent_ns <= line.time_ns <= next_ns <= sent_ns + WITHIN.backlog:
            says = (
                f"{earlier['value']} waited at its broker when {earlier['process']} closed the"
                f" connection, and {later['value']} arrived on the next connection."
            )
            link = ExplanationLink(
                rule="connection-end", says=says, event=line.text, time_ns=line.time_ns
            )
            return (link,)
    return ()


@explains(
    "taken-at-once",
    RESENT & TWO_AT_ONCE,
    "A client closed its connection, and the broker handled two of its requests at the same time.",
    needs=LEADERS,
)
def _taken_at_once(case: RecordCase) -> Links:
    """Return a link if the client ended right after its last two sends (KAFKA-5587).

    The broker handles both requests at once: ``Selector.close`` completes one request,
    ``addToCompletedReceives`` completes the other.
    """
    observed, process = case.observed, case.send["process"]
    left_ns = pc.max(observed.sends(process=process)["invoke_ns"]).as_py()
    if left_ns is None or left_ns > case.begun_ns + WITHIN.unread:
        return ()
    leadership = case.trace.leadership(left_ns) if case.trace else None
    leader = leadership.leader if leadership and leadership.leader >= 0 else None
    ran = observed.software.at(left_ns, leader)
    if not all(_FIRST <= software.number < _FIXED for software in ran):
        return ()
    says = (
        f"{process} closed its connection before the broker had read {case.send['value']} and"
        f" {case.anomaly['value']}. The broker handled both at the same time (KAFKA-5587)."
    )
    link = ExplanationLink(
        rule="connection-end", says=says, event=f"{process}: its last send", time_ns=left_ns
    )
    return (link,)


def _sent_again(case: RecordCase, how: str, *, written: bool = True) -> Chain:
    """Return links for the failure of a record's first send, and for its second send."""
    observed, trace, send, until_ns = case.observed, case.trace, case.send, case.until_ns
    if trace is None:
        return refuse("It is not known to which partition the record was sent.")
    # With acks=0 a send counts as successful when its request has left the producer.
    later_ns = WITHIN.log if observed.plan.workload.acks == "0" else 0
    link = unanswered(observed, send, until_ns + later_ns)
    link = link or disturbed(observed, trace, case.begun_ns, until_ns)
    link = link or hung_up(observed, trace, case.begun_ns, until_ns)
    if link is None:
        link = refused_by_wire(observed, send, until_ns, acted=written)
        how = how if link is None else how.replace(_NO_ANSWER, _REFUSAL)
    again = ExplanationLink(
        rule="retry",
        says=f"{send['value']} was sent again, {how}.",
        event=f"{send['process']}: {send['outcome']} after"
        f" {(until_ns - send['invoke_ns']) / SECOND:.3f} s",
        time_ns=send["complete_ns"],
    )
    if link is None:
        return refuse("Every request of the record's producer was answered.", again)
    return Chain(links=(link, again))


@explains(
    "reused-buffer",
    REUSES,
    "The client reused the buffer of an expired batch, which had the record, for the next batch.",
)
def _reused_buffer(case: AnomalyCase) -> Links:
    sends = expired_sends(case.observed, case.anomaly["partition"])
    if not sends:
        return ()
    send = sends[0]
    expired = ExplanationLink(
        rule="reused-buffer",
        says=(
            f"{send['value']} of {send['process']} expired in its client,"
            f" {case.observed.plan.client}. The client gave the record's buffer to the next batch,"
            " while the request in the socket still referred to that buffer."
        ),
        event=f"{send['process']}: {send['outcome']}, {send['error']}",
        time_ns=send["complete_ns"],
    )
    return (expired,)


@explains("final-read", SEEN_TO_HAPPEN, "The final read ended early, as the harness has reported.")
def _final_read(case: AnomalyCase) -> Links:
    says = "The final read ended early."
    return tuple(
        ExplanationLink(rule="final-read", says=says, event=problem)
        for problem in case.observed.status.problems[:1]
    )


@explains(
    "whole-set",
    OLD_SETS,
    "A follower fetched a compressed message set (before 0.11), although its log had a part of it.",
    needs=LOGS,
)
def _whole_set(case: AnomalyCase) -> Links:
    for copy in case.anomaly["copies"] or ():
        trace = case.observed.traces.get(copy["partition"])
        cut = trace and trace.sent_whole(copy["broker"], copy["offset"])
        if cut:
            return cut_link(cut), _went_on(cut, copy)
    return ()


def _went_on(cut: BrokerLogLine, copy: Row) -> ExplanationLink:
    return ExplanationLink(
        rule="whole-set",
        says=f"The broker fetched from offset {cut.offset} on. Its new leader sent a compressed "
        f"message"
        f" set that begins before this offset and ends at {copy['offset']}, "
        f"because before 0.11"
        f" message sets are always sent as a unit.",
        event=copy["note"],
        broker=copy["broker"],
        time_ns=cut.time_ns,
    )


@explains("bit-flip", FAULT, "A fault damaged the disk.")
def _bit_flip(case: AnomalyCase) -> Links:
    for copy in case.anomaly["copies"] or ():
        for fault, offsets in case.observed.removals(copy["partition"]):
            here = fault.name == "bit-flip" and fault.broker == copy["broker"]
            if here and copy["offset"] in offsets:
                return (fault_link(fault),)
    return ()


@explains(CONTROLLER_DISK_LOSS, FAULT, "A KRaft voter lost its disk, with all its records.")
def _controller_disks(case: AnomalyCase) -> Links:
    """Return links for the faults that emptied controllers' disks.

    Raft keeps a record that is on a majority of disks (KIP-595). But a voter with an empty disk may
    elect a voter that lacks the record. If there is only one voter, no other disk has the record.
    """
    faults = (fault for fault in case.observed.faults if fault.name == CONTROLLER_DISK_LOSS)
    return tuple(map(fault_link, faults))


def _of_its_send(observed: RunTraces, anomaly: Row) -> RecordCase | Chain:
    send = observed.suspects.get(anomaly["value"])
    if send is None:
        return refuse("The history does not show that the record was sent.")
    return _sent(observed, anomaly, send)


def _sent(observed: RunTraces, anomaly: Row, send: Row) -> RecordCase:
    trace = observed.traces.get(anomaly["partition"])
    return RecordCase(observed=observed, anomaly=anomaly, send=send, trace=trace)


# A broker recognises a record of an idempotent producer by producer id, epoch and sequence number;
# without idempotence (KIP-98) the leader does not know that it refused an earlier record.
duplicate: Final = Explainer(
    (_sent_again_at_all, _sent_in_another_epoch, _sent_again_elsewhere, numbered_anew),
    "The record's producer is idempotent, so the broker should have recognised the copy.",
    _of_its_send,
)
reordered: Final = Explainer(
    (_sent_behind, _taken_at_once, _overtaken, _in_flight_together, numbered_behind),
    "The records' producer is idempotent, so the broker should have kept their order.",
    lambda observed, anomaly: _sent(observed, anomaly, anomaly["steps"][0]),
)
phantom: Final = Explainer(
    (_reused_buffer,), "No batch of the partition expired in a client that reuses buffers."
)
unseen: Final = Explainer(
    (_final_read,),
    "The final read reported no problem, but it did not reach the fence (the run's last record).",
)
corrupt: Final = Explainer((_whole_set, _bit_flip), "No rule of replication damages a disk.")


@explains(
    "batch-offset",
    hazard_of_release(_LARGEST),
    "A leader that got the batch as a follower returned the offset of its last record.",
)
def _batch_offset(case: AnomalyCase) -> Links:
    """Return a link for a response that is the last record of the right record's batch."""
    [copy] = case.anomaly["copies"]
    if LAST_OF_BATCH not in copy["note"]:
        return ()
    says = f"Broker {copy['broker']}: {copy['note']}"
    event = f"the leader returns offset {copy['offset']}"
    return (ExplanationLink(rule=_LARGEST, says=says, event=event, broker=copy["broker"]),)


lookup: Final = Explainer(
    (_batch_offset,), "The response is not the last record of the right record's batch."
)
decided: Final = Explainer((_controller_disks,), "Every controller kept its disk.")


@explains(
    "partial-commit",
    PARTIAL,
    "The transaction was committed without the record, whose send had failed.",
)
def _committed_in_part(case: AnomalyCase) -> Links:
    """Return a link for the failed send of a record that its committed transaction lacks."""
    send = case.observed.suspects.get(case.anomaly["value"])
    if case.anomaly["kind"] != TORN or send is None or send["offset"] is not None:
        return ()
    return (failed_send(send),) if send["error"] else ()


seen: Final = Explainer(
    (_committed_in_part, written_later, answered_as_another),
    "No log was truncated at this offset, and no rule of replication lets a client see this.",
)

"""Explains duplicates, reordered records, unknown records, damaged disks, and other anomalies."""

from typing import Final

import pyarrow.compute as pc

from highwater.checkers.core.promises import CONTROLLER_DISK_LOSS
from highwater.checkers.model.explain.evidence.cut_markers import written_later
from highwater.checkers.model.explain.evidence.evidence_links import (
    AnomalyCase,
    Chain,
    Links,
    RecordCase,
    Row,
    cut_link,
    disturbed,
    fault_link,
    hung_up,
    refuse,
    unanswered,
)
from highwater.checkers.model.explain.evidence.reused_buffers import REUSES, expired_sends
from highwater.checkers.model.explain.licences import (
    FAULT,
    NEW_EPOCH,
    OLD_SETS,
    RESENT,
    SEEN_TO_HAPPEN,
    UNACKNOWLEDGED,
    Explanation,
    by_first,
    of_releases,
)
from highwater.checkers.model.explain.observations import FILES, LEADERS, LOGS, Observation
from highwater.checkers.model.explain.tolerances import SECOND, WITHIN
from highwater.checkers.model.explain.trace import BrokerLogLine, RunTraces
from highwater.checkers.model.report_types import ExplanationLink

_TWO_AT_ONCE: Final = ((0, 10, 2), (0, 11, 0, 1))
"""The first release whose broker handles two requests of a closed connection at once (KAFKA-3703),
and the first release that no longer does so (KAFKA-5587)."""

_RECOGNISED: Final = "Its producer is idempotent: the broker should have recognised the record."
_IN_ORDER: Final = "Its producer is idempotent: the broker should have kept the order."

_FIRST, _FIXED = _TWO_AT_ONCE
TWO_AT_ONCE: Final = of_releases(
    "KAFKA-5587",
    "Only from 0.10.2.0 to 0.11.0.0 a broker handles two requests of a closed connection at once.",
    lambda entry: _FIRST <= entry.number < _FIXED,
)


def _sent_again_at_all(case: RecordCase) -> Chain:
    return _sent_again(case, "because no answer to the first attempt came")


def _sent_in_another_epoch(case: RecordCase) -> Chain:
    """Return an idempotent producer's second send of a record, in a new producer epoch.

    librdkafka takes a new epoch after requests without an answer, and sends their records again: a
    broker does not recognise these.
    """
    how = "because no answer to the first attempt came, in a new epoch of its producer"
    return _sent_again(case, f"{how}, in which no broker recognises the record")


def _has_two_epochs(case: RecordCase) -> bool:
    """Return whether the disks may show a record in two epochs of its producer."""
    disks = case.trace.disks.values() if case.trace else ()
    twice = any(len(disk.writers(case.anomaly["value"])) > 1 for disk in disks)
    return twice or case.observed.lacks(Observation.DISKS)


def _sent_behind(case: RecordCase) -> Chain:
    return _sent_again(case, f"behind {case.anomaly['value']}")


def _overtaken(case: RecordCase) -> Links:
    """Return the end of the connection on which the earlier request waited at a busy broker.

    With acks=0 a request counts as acknowledged when it is in the client's socket. A broker handles
    the requests of two connections in any order.
    """
    [earlier, later] = case.anomaly["steps"]
    sent_ns, next_ns = earlier["complete_ns"], later["complete_ns"]
    if sent_ns is None or next_ns is None:
        return ()
    for line in case.observed.clients.get(earlier["process"], ()):
        if sent_ns <= line.time_ns <= next_ns <= sent_ns + WITHIN.backlog:
            says = (
                f"{earlier['value']} waited at its broker when {earlier['process']} gave up the"
                f" connection, and {later['value']} came on the next connection."
            )
            link = ExplanationLink(
                rule="connection-end", says=says, event=line.text, time_ns=line.time_ns
            )
            return (link,)
    return ()


def _taken_at_once(case: RecordCase) -> Links:
    """Return the end of a client whose last two requests its broker handled at the same time.

    ``Selector.close`` completes one request, and ``addToCompletedReceives`` the other.
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
        f"{process} left, and the broker had read neither {case.send['value']} nor"
        f" {case.anomaly['value']} before: it handled both at once (KAFKA-5587)."
    )
    link = ExplanationLink(
        rule="connection-end", says=says, event=f"{process}: its last send", time_ns=left_ns
    )
    return (link,)


def _sent_again(case: RecordCase, how: str) -> Chain:
    """Return a record's second send, and why the first attempt got no answer."""
    observed, trace, send, until_ns = case.observed, case.trace, case.send, case.until_ns
    if trace is None:
        return refuse("It is not known to which partition the record was sent.")
    again = ExplanationLink(
        rule="retry",
        says=f"{send['value']} was sent again, {how}.",
        event=f"{send['process']}: {send['outcome']} after"
        f" {(until_ns - send['invoke_ns']) / SECOND:.3f} s",
        time_ns=send["complete_ns"],
    )
    # With acks=0 the producer takes a send as successful when its request has left.
    later_ns = WITHIN.log if observed.plan.workload.acks == "0" else 0
    link = unanswered(observed, send, until_ns + later_ns)
    link = link or disturbed(observed, trace, case.begun_ns, until_ns)
    link = link or hung_up(observed, trace, case.begun_ns, until_ns)
    if link is None:
        return refuse("Every request of the record's producer was answered.", again)
    return Chain(links=(link, again))


def _reused_buffer(case: AnomalyCase) -> Links:
    """Return a Java producer's expired batch, whose buffer another batch got."""
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


def _final_read(case: AnomalyCase) -> Links:
    """Return the problem because of which the harness ended the final read."""
    says = "The final read ended early."
    return tuple(
        ExplanationLink(rule="final-read", says=says, event=problem)
        for problem in case.observed.status.problems[:1]
    )


def _whole_set(case: AnomalyCase) -> Links:
    """Return the truncation after which a follower fetched a whole message set from its leader."""
    for copy in case.anomaly["copies"] or ():
        trace = case.observed.traces.get(copy["partition"])
        cut = trace and trace.sent_whole(copy["broker"], copy["offset"])
        if cut:
            return cut_link(cut), _went_on(cut, copy)
    return ()


def _went_on(cut: BrokerLogLine, copy: Row) -> ExplanationLink:
    return ExplanationLink(
        rule="whole-set",
        says=f"From {cut.offset} on the broker fetched a compressed message set from its new leader"
        f" that begins before that, and ends at {copy['offset']}: before 0.11 sets are sent whole.",
        event=copy["note"],
        broker=copy["broker"],
        time_ns=cut.time_ns,
    )


def _bit_flip(case: AnomalyCase) -> Links:
    for copy in case.anomaly["copies"] or ():
        for fault, offsets in case.observed.removals(copy["partition"]):
            here = fault.name == "bit-flip" and fault.broker == copy["broker"]
            if here and copy["offset"] in offsets:
                return (fault_link(fault),)
    return ()


def _controller_disks(case: AnomalyCase) -> Links:
    """Return the faults that emptied controllers' disks.

    Raft keeps records that a majority has on its disks (KIP-595). A voter that comes back empty may
    vote for a voter that lacks such records, and a single voter cannot fetch them from any other.
    """
    faults = (fault for fault in case.observed.faults if fault.name == CONTROLLER_DISK_LOSS)
    return tuple(map(fault_link, faults))


def _left_something_out(case: AnomalyCase) -> bool:
    """Return whether a client left out records whose offsets are known."""
    return any(copy["note"] == "skipped" for copy in case.anomaly["copies"] or ())


DUPLICATE: Final = (
    Explanation(
        name="retry",
        says="The producer had no answer, and sent the record again.",
        licence=RESENT,
        needs=LEADERS,
        evidence=_sent_again_at_all,
    ),
    Explanation(
        name="retry-in-another-epoch",
        says="An idempotent producer had no answer, took a new epoch, and sent the record again.",
        licence=NEW_EPOCH,
        applies=_has_two_epochs,
        needs=LEADERS | FILES,
        evidence=_sent_in_another_epoch,
    ),
)
REORDERED: Final = (
    Explanation(
        name="retry-behind",
        says="The earlier record had no answer, and was sent again behind the later one: a producer"
        " has several requests in flight (max.in.flight.requests.per.connection).",
        licence=RESENT,
        needs=LEADERS,
        evidence=_sent_behind,
    ),
    Explanation(
        name="taken-at-once",
        says="A broker handled the last two requests of a client that left at the same time.",
        licence=RESENT & TWO_AT_ONCE,
        needs=LEADERS,
        evidence=_taken_at_once,
    ),
    Explanation(
        name="overtaken",
        says="The earlier record waited at its broker when the client gave up the connection.",
        licence=RESENT & UNACKNOWLEDGED,
        evidence=_overtaken,
    ),
)
PHANTOM: Final = (
    Explanation(
        name="reused-buffer",
        says="It was in the buffer of an expired batch, which the client gave to the next batch.",
        licence=REUSES,
        evidence=_reused_buffer,
    ),
)
UNSEEN: Final = (
    Explanation(
        name="final-read",
        says="The final read ended early, as the harness has reported.",
        licence=SEEN_TO_HAPPEN,
        evidence=_final_read,
    ),
)
CORRUPT: Final = (
    Explanation(
        name="whole-set",
        says="A compressed set from before 0.11 was fetched whole, though it begins in the log.",
        licence=OLD_SETS,
        needs=LOGS,
        evidence=_whole_set,
    ),
    Explanation(
        name="bit-flip",
        says="A fault damaged the disk.",
        licence=FAULT,
        evidence=_bit_flip,
    ),
)
DECIDED: Final = (
    Explanation(
        name=CONTROLLER_DISK_LOSS,
        says="A voter lost its disk, with all that it had written.",
        licence=FAULT,
        evidence=_controller_disks,
    ),
)
SEEN: Final = (
    Explanation(
        name="written-later",
        says="A fault removed records there, and others were written in their place.",
        licence=FAULT,
        applies=_left_something_out,
        needs=LEADERS | FILES,
        evidence=lambda case: written_later(case.observed, case.anomaly),
    ),
)


def duplicate(observed: RunTraces, anomaly: Row) -> Chain:
    """Explain a duplicate: its producer got no answer, and sent the record again.

    A broker recognises a record of an idempotent producer by producer id, epoch and sequence number
    (KIP-98).
    """
    send = observed.suspects.get(anomaly["value"])
    if send is None:
        return refuse("The history does not show that the record was sent.")
    return by_first(DUPLICATE, _sent(observed, anomaly, send), _RECOGNISED)


def reordered(observed: RunTraces, anomaly: Row) -> Chain:
    """Explain a record that is in the log before a record that was sent earlier.

    Without idempotence (KIP-98) the leader does not know that it refused an earlier record.
    """
    return by_first(REORDERED, _sent(observed, anomaly, anomaly["steps"][0]), _IN_ORDER)


def _sent(observed: RunTraces, anomaly: Row, send: Row) -> RecordCase:
    trace = observed.traces.get(anomaly["partition"])
    return RecordCase(observed=observed, anomaly=anomaly, send=send, trace=trace)


def phantom(observed: RunTraces, anomaly: Row) -> Chain:
    """Explain a record that was never sent to its topic."""
    why_not = "No batch of its partition expired in a client that reuses its buffer."
    return by_first(PHANTOM, AnomalyCase(observed=observed, anomaly=anomaly), why_not)


def unseen(observed: RunTraces, anomaly: Row) -> Chain:
    """Explain an unseen record: the harness must have reported that the final read ended early."""
    why_not = "The final read ended without a problem, but it did not reach the fence."
    return by_first(UNSEEN, AnomalyCase(observed=observed, anomaly=anomaly), why_not)


def corrupt(observed: RunTraces, anomaly: Row) -> Chain:
    """Explain a damaged disk by an injected fault, or by the only rule that allows damage."""
    case = AnomalyCase(observed=observed, anomaly=anomaly)
    return by_first(CORRUPT, case, "No rule of replication damages a disk.")


def decided(observed: RunTraces, anomaly: Row) -> Chain:
    """Explain a lost decision: a voter lost its disk, with all that it had written."""
    case = AnomalyCase(observed=observed, anomaly=anomaly)
    return by_first(DECIDED, case, "Every controller kept its disk.")


def seen(observed: RunTraces, anomaly: Row) -> Chain:
    """Explain client anomalies that follow from no lost record and no fork."""
    why_not = "Nothing was truncated there, and no rule of replication lets a client see this."
    return by_first(SEEN, AnomalyCase(observed=observed, anomaly=anomaly), why_not)

"""Explains duplicates, records out of order, unknown records, damaged disks, and what is left."""

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
"""The first release whose broker takes two requests of a closed connection at once (KAFKA-3703),
and the first that does not any more (KAFKA-5587)."""

_RECOGNISED: Final = "Its producer is idempotent: the broker should have known it again."
_IN_ORDER: Final = "Its producer is idempotent: the broker should have kept the order."

_FIRST, _FIXED = _TWO_AT_ONCE
TWO_AT_ONCE: Final = of_releases(
    "KAFKA-5587",
    "Only from 0.10.2.0 to 0.11.0.0 a broker takes two requests of a closed connection at once.",
    lambda entry: _FIRST <= entry.number < _FIXED,
)


def _sent_again_at_all(case: RecordCase) -> Chain:
    return _sent_again(case, "because no answer to the first attempt came")


def _sent_in_another_epoch(case: RecordCase) -> Chain:
    """Return the same of an idempotent producer, if the disks show two epochs of it.

    A client that takes a new epoch after requests without an answer, as librdkafka does, and sends
    their records again, is not recognised.
    """
    how = "because no answer to the first attempt came, in a new epoch of its producer"
    return _sent_again(case, f"{how}, in which no broker knows it again")


def _has_two_epochs(case: RecordCase) -> bool:
    """Return whether the disks may show a record in two epochs of its producer."""
    disks = case.trace.disks.values() if case.trace else ()
    twice = any(len(disk.writers(case.anomaly["value"])) > 1 for disk in disks)
    return twice or case.observed.lacks(Observation.DISKS)


def _sent_behind(case: RecordCase) -> Chain:
    return _sent_again(case, f"behind {case.anomaly['value']}")


def _overtaken(case: RecordCase) -> Links:
    """Return the end of the connection on which the earlier request waited at a busy broker.

    With acks=0 a request is acknowledged when the client's socket has it. The requests of two
    connections are handled in any order.
    """
    [earlier, later] = case.anomaly["steps"]
    sent_ns, next_ns = earlier["complete_ns"], later["complete_ns"]
    if sent_ns is None or next_ns is None:
        return ()
    for line in case.observed.clients.get(earlier["process"], ()):
        if sent_ns <= line.time_ns <= next_ns <= sent_ns + WITHIN.backlog:
            says = (
                f"{earlier['value']} waited at its broker when {earlier['process']} gave the"
                f" connection up, and {later['value']} came on the next one."
            )
            link = ExplanationLink(
                rule="connection-end", says=says, event=line.text, time_ns=line.time_ns
            )
            return (link,)
    return ()


def _taken_at_once(case: RecordCase) -> Links:
    """Return the end of a client two of whose requests its broker handled at the same time.

    ``Selector.close`` completes one of them, ``addToCompletedReceives`` another.
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
        f"{process} left, and the broker took {case.send['value']} and {case.anomaly['value']},"
        " which it had not read before, at once (KAFKA-5587)."
    )
    link = ExplanationLink(
        rule="connection-end", says=says, event=f"{process}: its last send", time_ns=left_ns
    )
    return (link,)


def _sent_again(case: RecordCase, how: str) -> Chain:
    """Return a send whose first attempt got no answer, and why."""
    observed, trace, send, until_ns = case.observed, case.trace, case.send, case.until_ns
    if trace is None:
        return refuse("It is not known which partition it was sent to.")
    again = ExplanationLink(
        rule="retry",
        says=f"{send['value']} was sent again, {how}.",
        event=f"{send['process']}: {send['outcome']} after"
        f" {(until_ns - send['invoke_ns']) / SECOND:.3f} s",
        time_ns=send["complete_ns"],
    )
    # With acks=0 the send succeeds for it when its request has left.
    later_ns = WITHIN.log if observed.plan.workload.acks == "0" else 0
    link = unanswered(observed, send, until_ns + later_ns)
    link = link or disturbed(observed, trace, case.begun_ns, until_ns)
    link = link or hung_up(observed, trace, case.begun_ns, until_ns)
    if link is None:
        return refuse("Every request of its producer had its answer.", again)
    return Chain(links=(link, again))


def _reused_buffer(case: AnomalyCase) -> Links:
    """Return the batch of a Java producer that expired, and whose buffer another one got."""
    sends = expired_sends(case.observed, case.anomaly["partition"])
    if not sends:
        return ()
    send = sends[0]
    expired = ExplanationLink(
        rule="reused-buffer",
        says=(
            f"{send['value']} of {send['process']} expired in its client,"
            f" {case.observed.plan.client}. That gave its buffer to the next batch, while the"
            " request in the socket still referred to it."
        ),
        event=f"{send['process']}: {send['outcome']}, {send['error']}",
        time_ns=send["complete_ns"],
    )
    return (expired,)


def _final_read(case: AnomalyCase) -> Links:
    """Return the problem of the harness that ended the final read."""
    says = "The final read ended early."
    return tuple(
        ExplanationLink(rule="final-read", says=says, event=problem)
        for problem in case.observed.status.problems[:1]
    )


def _whole_set(case: AnomalyCase) -> Links:
    """Return the truncation after which a follower got a whole set of its new leader's."""
    for copy in case.anomaly["copies"] or ():
        trace = case.observed.traces.get(copy["partition"])
        cut = trace and trace.sent_whole(copy["broker"], copy["offset"])
        if cut:
            return cut_link(cut), _went_on(cut, copy)
    return ()


def _went_on(cut: BrokerLogLine, copy: Row) -> ExplanationLink:
    return ExplanationLink(
        rule="whole-set",
        says=f"It went on from {cut.offset} with a compressed set of its new leader's that begins"
        f" before that, and ends at {copy['offset']}: before 0.11 sets are sent whole.",
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
    """Return the losses of controllers' disks.

    Raft keeps what a majority has on its disks (KIP-595); a voter that comes back empty votes for
    one that lacks it, and a single voter learns it from no other.
    """
    faults = (fault for fault in case.observed.faults if fault.name == CONTROLLER_DISK_LOSS)
    return tuple(map(fault_link, faults))


def _left_something_out(case: AnomalyCase) -> bool:
    """Return whether a client left out records whose places are known."""
    return any(copy["note"] == "skipped" for copy in case.anomaly["copies"] or ())


DUPLICATE: Final = (
    Explanation(
        name="retry",
        says="Its producer had no answer, and sent it again.",
        licence=RESENT,
        needs=LEADERS,
        evidence=_sent_again_at_all,
    ),
    Explanation(
        name="retry-in-another-epoch",
        says="An idempotent producer had no answer, took a new epoch, and sent it again.",
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
        says="The earlier record waited at its broker when its client gave the connection up.",
        licence=RESENT & UNACKNOWLEDGED,
        evidence=_overtaken,
    ),
)
PHANTOM: Final = (
    Explanation(
        name="reused-buffer",
        says="It was in the buffer of an expired batch, which the client gave to the next one.",
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
        says="A compressed set of before 0.11 was fetched whole, though it begins in the log.",
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
        says="A voter lost its disk, and what it had written with it.",
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

    A broker knows a record of an idempotent producer again by producer id, epoch and sequence
    (KIP-98).
    """
    send = observed.suspects.get(anomaly["value"])
    if send is None:
        return refuse("The history does not show that it was sent.")
    return by_first(DUPLICATE, _sent(observed, anomaly, send), _RECOGNISED)


def reordered(observed: RunTraces, anomaly: Row) -> Chain:
    """Explain a record before one that was sent earlier.

    Without idempotence (KIP-98) the leader does not know that an earlier one was refused.
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
    why_not = "The final read ended without a problem, and yet not with the fence."
    return by_first(UNSEEN, AnomalyCase(observed=observed, anomaly=anomaly), why_not)


def corrupt(observed: RunTraces, anomaly: Row) -> Chain:
    """Explain a damaged disk by an injected fault, or by the one rule that allows it."""
    case = AnomalyCase(observed=observed, anomaly=anomaly)
    return by_first(CORRUPT, case, "No rule of replication damages a disk.")


def decided(observed: RunTraces, anomaly: Row) -> Chain:
    """Explain a lost decision: a voter lost its disk, and what it had written with it."""
    case = AnomalyCase(observed=observed, anomaly=anomaly)
    return by_first(DECIDED, case, "Every controller kept its disk.")


def seen(observed: RunTraces, anomaly: Row) -> Chain:
    """Explain client anomalies that follow from no lost record and no fork."""
    why_not = "Nothing was cut there, and no rule of replication lets a client see it so."
    return by_first(SEEN, AnomalyCase(observed=observed, anomaly=anomaly), why_not)

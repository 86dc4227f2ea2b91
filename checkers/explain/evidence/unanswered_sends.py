"""Explains lost records without an offset: the client got no response with their offset."""

from collections.abc import Iterable
from typing import Final

import pyarrow.compute as pc

from highwater.checkers.explain.evidence.evidence_links import (
    Links,
    disturbed,
    event_link,
    failed_send,
    fault_link,
    hung_up,
    led_without,
    unanswered,
)
from highwater.checkers.explain.evidence.licences import (
    LEADER_ALONE,
    PARTIAL,
    UNACKNOWLEDGED,
    UNCLEAN,
    UNKNOWN_CLIENT,
    explains,
    hazard_of_clients,
)
from highwater.checkers.explain.evidence.lost_record import LostRecord, deposed
from highwater.checkers.explain.observations import FILES, LEADERS, LOGS, STARTS
from highwater.checkers.explain.tolerances import WITHIN
from highwater.checkers.model.report_types import ExplanationLink
from highwater.harness.runs.history import OK


def _acked(case: LostRecord, link: ExplanationLink | None) -> Links:
    return (case.ack, link) if link else ()


@explains(
    "fault",
    UNACKNOWLEDGED,
    "A fault, or a change of leader, kept the leader from appending the record. With acks=0 a "
    "broker that refuses a record closes the connection. Requests in flight are then lost.",
    needs=LEADERS,
)
def _disturbance(case: LostRecord) -> Links:
    return _acked(case, disturbed(case.observed, case.trace, case.begun_ns, case.ended_ns))


@explains("retry", UNACKNOWLEDGED, "The client's log reports a request without a response.")
def _no_answer(case: LostRecord) -> Links:
    return _acked(case, unanswered(case.observed, case.send, case.ended_ns + WITHIN.log))


@explains(
    "client-left",
    UNACKNOWLEDGED,
    "The client ended right after the send, and its closed connection lost the record.",
    needs=FILES,
)
def _client_left(case: LostRecord) -> Links:
    """Return links if the client ended right after the send.

    A broker reads the requests of a connection in order. So if the client ended a little later, the
    disk must have no later record of this client.
    """
    process = case.send["process"]
    left_ns = case.observed.left_ns.get(process)
    if left_ns is None or left_ns > case.ended_ns + WITHIN.backlog:
        return ()
    if left_ns > case.ended_ns + WITHIN.look and _anything_later(case):
        return ()
    link = ExplanationLink(
        rule="acks=0",
        says=f"{process} ended right after the send. With acks=0 no client waits for requests in "
        f"flight.",
        event=f"{process}: its last answer",
        time_ns=left_ns,
    )
    return (case.ack, link)


def _anything_later(case: LostRecord) -> bool:
    """Return whether the last leader's disk has a later record of the same client."""
    disk = case.trace.last_disk
    if disk is None:
        return True
    sends = case.observed.sends(process=case.send["process"], partition=case.trace.partition)
    later = sends.filter(pc.greater(sends["invoke_ns"], case.begun_ns))
    return not disk.records.isdisjoint(later["value"].to_pylist())


@explains(
    "zombie-send",
    UNACKNOWLEDGED,
    "The record went to a deposed leader. A producer with acks=0 does not learn this.",
    needs=LEADERS | LOGS,
)
def _sent_to_deposed(case: LostRecord) -> Links:
    now = case.trace.leadership(case.begun_ns)
    starts = (start for start in case.trace.starts if now is not None and start.epoch == now.epoch)
    return _acked(case, _first(deposed(case, start) for start in starts))


@explains(
    "shorter-log",
    LEADER_ALONE | UNCLEAN,
    "The record was beyond the end of a later leader's log.",
    needs=STARTS,
)
def _shorter_successor(case: LostRecord) -> Links:
    """Return links for a later leader that began at or below the record's highest possible offset.

    The first leader's LEOs, before the send and after the response, limit this offset.
    """
    trace = case.trace
    if (then := trace.leadership(case.begun_ns)) is None:
        return ()
    before = trace.sample(then.leader, case.begun_ns)
    after = trace.sample(then.leader, case.ended_ns + WITHIN.look)
    at_most = max((before.leo if before else -1), (after.leo - 1 if after else -1))
    later = (start for start in trace.starts if start.epoch > then.epoch)
    shorter = (start for start in later if 0 <= start.offset <= at_most)
    return _acked(case, _first(led_without(start, case.send) for start in shorter))


@explains(
    "connection",
    UNACKNOWLEDGED,
    "The broker closed the connection because it no longer led another partition.",
    needs=LEADERS,
)
def _connection_closed(case: LostRecord) -> Links:
    return _acked(case, hung_up(case.observed, case.trace, case.begun_ns, case.ended_ns))


@explains(
    "partial-commit",
    PARTIAL | hazard_of_clients("KAFKA-9279"),
    "The client committed the transaction without the record, whose send had failed.",
)
def _left_out(case: LostRecord) -> Links:
    if not case.send.get("error"):
        return ()
    return (failed_send(case.send), case.ack)


@explains(
    "unanswered-commit",
    UNKNOWN_CLIENT,
    "The client committed the transaction without a response about the record.",
)
def _committed_unanswered(case: LostRecord) -> Links:
    """Return links for the commit of a record without an offset, if other records got offsets."""
    send, observed = case.send, case.observed
    others = observed.sends(process=send["process"], outcome=OK)["offset"]
    if not observed.plan.workload.transactions or others.null_count == len(others):
        return ()
    says = (
        f"{send['process']} committed the transaction of {send['value']} without a response from a"
        " broker about the record."
    )
    link = ExplanationLink(
        rule="unanswered-commit",
        says=says,
        event=f"{send['process']}: {send['outcome']}, no offset",
        time_ns=send["complete_ns"],
    )
    return (link, case.ack)


@explains(
    "early-flush",
    hazard_of_clients("KAFKA-19479"),
    "The client's flush returned before the record was written, because its batch was too large "
    "(KAFKA-19479).",
)
def _flushed_early(case: LostRecord) -> Links:
    """Return links for the client's log line, after the send, about a batch that it divided."""
    process = case.send["process"]
    for line in case.observed.divided.get(process, ()):
        if case.begun_ns <= line.time_ns <= case.ended_ns + WITHIN.log:
            says = f"{process} divided the batch, which was too large, before its flush returned."
            return (event_link("early-flush", says, line, None), case.ack)
    return ()


@explains(
    "unread",
    UNACKNOWLEDGED,
    "The broker had not read the record when the connection ended. No log has a later record of "
    "that connection.",
    needs=LEADERS | FILES,
)
def _left_unread(case: LostRecord) -> Links:
    """Return links for the end of a connection whose last requests its broker had not read.

    With acks=0 the client counts a request as acknowledged when it has written it to its socket. A
    broker reads a connection's requests in order, so only the producer's last requests are unread.
    """
    observed, process = case.observed, case.send["process"]
    leadership = case.trace.leadership(case.begun_ns)
    gave_up = f"{process} closed its connection."
    ends = {
        line.time_ns: event_link("acks=0", gave_up, line, None)
        for line in observed.clients.get(process, ())
    }
    for fault in observed.faults:
        if leadership is not None and fault.broker == leadership.leader:
            ends[fault.start_ns] = fault_link(fault)
    near = range(case.ended_ns, case.ended_ns + WITHIN.backlog)
    end_ns = min((time_ns for time_ns in ends if time_ns in near), default=None)
    if end_ns is None or _was_one_appended(case, end_ns):
        return ()
    return (case.ack, ends[end_ns])


def _was_one_appended(case: LostRecord, until_ns: int) -> bool:
    """Return whether a log has a record that the producer sent after the lost record."""
    sends = case.observed.sends(process=case.send["process"], partition=case.trace.partition)
    between = pc.and_(
        pc.greater(sends["complete_ns"], case.ended_ns), pc.less(sends["complete_ns"], until_ns)
    )
    later = set(sends["value"].filter(between).to_pylist())
    return any(later & disk.records for disk in case.trace.disks.values())


def _first(links: Iterable[ExplanationLink | None]) -> ExplanationLink | None:
    return next(filter(None, links), None)


UNANSWERED: Final = (
    _disturbance,
    _no_answer,
    _client_left,
    _sent_to_deposed,
    _shorter_successor,
    _connection_closed,
    _left_out,
    _committed_unanswered,
    _flushed_early,
    _left_unread,
)

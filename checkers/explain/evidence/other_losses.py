"""Explains lost records whose loss does not follow from a later election."""

import re
from collections.abc import Iterator
from typing import Final

import pyarrow.compute as pc

from highwater.checkers.explain.evidence.client_numbers import numbered_as_another
from highwater.checkers.explain.evidence.evidence_links import (
    Links,
    event_link,
    fault_link,
    led_without,
)
from highwater.checkers.explain.evidence.licences import (
    FAULT,
    LEADER_ALONE,
    explains,
    has,
    hazard_of_release,
    of_plan,
)
from highwater.checkers.explain.evidence.lost_record import LostRecord, deposed
from highwater.checkers.explain.evidence.stale_values import DAY_MS
from highwater.checkers.explain.observations import FILES, LEADERS, LOGS
from highwater.checkers.explain.tolerances import SECOND
from highwater.checkers.explain.trace import BrokerLogLine
from highwater.checkers.model.report_types import ExplanationLink
from highwater.harness.runs.faults.clock_notes import CLOCK_READ_NS, ahead_ns
from highwater.harness.runs.faults.facts import facts_of
from highwater.harness.runs.history import FAIL, OK

_BREACH: Final = re.compile(
    r"due to retention size (?P<allowed>\d+) breach\. Log size after deletion will be (?P<left>\d+)"
)
"""The pattern of a leader's log line about a segment that the leader deletes from the remote tier
(KIP-405)."""

_BY_TIME: Final = re.compile(r"retention time (?P<ms>\d+)ms")
_FROM_THE_FRONT: Final = frozenset(("segment-deleted", "files-lost"))
"""Faults that remove the oldest segment."""

_OVERHEAD_BYTES: Final = 1024
"""The maximum number of bytes that a batch of one record adds to the record's value."""


@explains(
    "zombie",
    LEADER_ALONE,
    "A deposed leader that did not know its successor acknowledged the record.",
    needs=LEADERS | LOGS,
)
def _acknowledged_by_deposed(case: LostRecord) -> Links:
    """Return links for an old leader that acknowledged the record after a new leader's election."""
    now = case.leader_before
    for start in case.trace.starts:
        if start.epoch == now.epoch and case.is_replaced(start) and (link := deposed(case, start)):
            return (led_without(start, case.send), link, case.ack)
    return ()


@explains(
    "segment-deleted",
    FAULT,
    "A fault removed the record from the front of the leader's log.",
    needs=LEADERS,
)
def _removed_from_the_front(case: LostRecord) -> Links:
    """Return links for the fault that deleted a leader's oldest segment, and its later election."""
    for fault in case.faults_removing:
        rows = (row for row in case.trace.leaderships if row.time_ns > fault.start_ns)
        later = next((row for row in rows if row.leader == fault.broker), None)
        if fault.name in _FROM_THE_FRONT and later and case.begun_ns <= fault.effect_ns:
            says = f"After that, broker {fault.broker} led in epoch {later.epoch}."
            link = event_link("elections", says, later, fault.broker)
            return (case.ack, fault_link(fault), link)
    return ()


@explains(
    "reused-sequence",
    has("purges_unanswered"),
    "The client had given an unanswered, aborted record the same sequence number. The leader "
    "took the lost record for a copy of that record.",
    applies=lambda case: case.observed.plan.workload.transactions,
    needs=LEADERS | FILES,
)
def _taken_for_another(case: LostRecord) -> Links:
    """Return links if the acknowledged offset is the offset of an aborted record of the producer.

    In 0.11 the acknowledged offset is that of the last marker after the aborted record.
    """
    leader = case.trace.leadership(case.ended_ns)
    disk = case.trace.disks.get(leader.leader) if leader else None
    offset = case.send["offset"]
    while disk and offset in disk.at and disk.record(offset) is None:
        offset -= 1
    holder = disk.record(offset) if disk else None
    for row in case.observed.sends(value=holder or "").to_pylist():
        unanswered_abort = row["outcome"] != OK and row["offset"] is None
        if row["process"] != case.send["process"] or not unanswered_abort:
            continue
        says = (
            f"{holder} has offset {offset}. {row['process']} had sent it, got no response about it,"
            f" and aborted its transaction. Then the client gave the sequence number of {holder} to"
            f" {case.send['value']}. The leader took {case.send['value']} for a copy of {holder}."
        )
        link = ExplanationLink(
            rule="reused-sequence",
            says=says,
            event=f"{row['process']}: {holder}, {row['outcome']} without an offset",
            time_ns=row["complete_ns"],
        )
        return (link, case.ack)
    return ()


@explains(
    "counted-twice",
    hazard_of_release("KAFKA-17062") | hazard_of_release("KAFKA-20732"),
    "A leader counted segments twice, so the partition seemed larger than retention.bytes. The "
    "leader deleted the oldest segment.",
    applies=lambda case: case.observed.plan.tiered,
    needs=LOGS,
)
def _counted_twice(case: LostRecord) -> Links:
    """Return links for a leader that counted too many bytes, and deleted the record's segment.

    The leader logs the bytes that remain after the deletion. They are more than were ever sent.
    """
    offset, sent = case.send["offset"], _bytes_sent(case)
    for broker in case.trace.lines:
        starts = case.trace.of_kind(broker, "log-start")
        moved = next((line for line in starts if offset is not None and line.offset > offset), None)
        for line in case.trace.of_kind(broker, "expired") if moved else ():
            breach = _BREACH.search(line.text)
            if breach and int(breach["left"]) > sent:
                assert moved is not None
                return (
                    case.ack,
                    *_leadership(case, line),
                    _deleted(line, breach, sent),
                    _begun("counted-twice", moved),
                )
    return ()


def _bytes_sent(case: LostRecord) -> int:
    """Return an upper bound of the bytes in all batches of the partition."""
    sends = case.observed.sends(partition=case.trace.partition)
    sent = sends.filter(pc.not_equal(sends["outcome"], FAIL))
    return int(sent.num_rows) * (case.observed.plan.workload.record_bytes + _OVERHEAD_BYTES)


def _leadership(case: LostRecord, line: BrokerLogLine) -> Links:
    rows = (row for row in case.trace.leaderships if row.leader == line.broker)
    later = next((row for row in rows if row.time_ns >= case.ended_ns), None)
    if later is None:
        return ()
    says = f"After that, broker {line.broker} led in epoch {later.epoch}."
    return (event_link("elections", says, later, line.broker),)


def _deleted(line: BrokerLogLine, breach: re.Match[str], sent: int) -> ExplanationLink:
    says = (
        f"Broker {line.broker} deleted a segment of the remote tier. By its log, the partition has"
        f" {int(breach['left']):,} bytes without that segment, and retention.bytes is"
        f" {int(breach['allowed']):,}. But all records ever sent to the partition have at most"
        f" {sent:,} bytes, so the broker had counted segments twice."
    )
    return event_link("counted-twice", says, line, line.broker)


def _begun(rule: str, line: BrokerLogLine) -> ExplanationLink:
    says = f"Since then its log and its followers' logs begin at {line.offset}."
    return event_link(rule, says, line, line.broker)


@explains(
    "late-segment",
    hazard_of_release("late-segment"),
    "A former leader's late report of a copy hides the remote segment with the record.",
    applies=lambda case: case.observed.plan.tiered,
    needs=LOGS,
)
def _hidden(case: LostRecord) -> Links:
    """Return links for two leaders that copied segments with the same first offset.

    The log of the former leader has no line about the end of its copy, because it no longer led.
    """
    offset = case.send["offset"] or 0
    copies = [
        line
        for broker in case.trace.lines
        for line in case.trace.of_kind(broker, "copying", "copied")
        if line.offset <= offset
    ]
    base = max((line.offset for line in copies), default=offset)
    same = [line for line in copies if line.offset == base < offset]
    ended = {line.broker: line for line in same if line.kind == "copied"}
    for begun in same:
        later = (line for line in ended.values() if line.time_ns > begun.time_ns)
        if begun.broker not in ended and (second := next(later, None)):
            first = (
                f"Broker {begun.broker} began to copy its segment at offset {base} to the remote "
                "tier. While it led, the copy was not reported."
            )
            longer = (
                f"Broker {second.broker}, a later leader, copied its own segment at offset {base}, "
                "which has the record. The late report of the first copy replaced this segment."
            )
            return (
                case.ack,
                event_link("late-segment", first, begun, begun.broker),
                event_link("late-segment", longer, second, second.broker),
            )
    return ()


@explains(
    "own-remote-tier",
    hazard_of_release("own-remote-tier"),
    "A fault removed records of __remote_log_metadata, so the leader forgot remote segments.",
    applies=lambda case: case.observed.plan.tiered,
    needs=LOGS,
)
def _forgotten(case: LostRecord) -> Links:
    """Return links for the record's copy, a fault that empties disks, and the new log start."""
    offset = case.send["offset"] or 0
    lines = [line for of_broker in case.trace.lines.values() for line in of_broker]
    copied = [line for line in lines if line.kind == "copied" and line.offset <= offset]
    for start in (line for line in lines if line.kind == "remote-start" and line.offset > offset):
        for fault in case.observed.faults:
            before = (line for line in copied if line.time_ns <= fault.effect_ns <= start.time_ns)
            if facts_of(fault.name).empties and (copy := next(before, None)):
                says = f"Broker {copy.broker} had copied its segment at offset {copy.offset}."
                link = event_link("own-remote-tier", says, copy, copy.broker)
                begun = _begun("own-remote-tier", start)
                return (case.ack, link, fault_link(fault), begun)
    return ()


@explains(
    "retention",
    of_plan(
        "retention.ms",
        "The topic keeps its records without limit.",
        lambda run: run.plan.topic.expires,
    ),
    "Retention deleted the record's segment because of its timestamps.",
    needs=LOGS,
)
def _expired(case: LostRecord) -> Links:
    """Return links for the deletion of the record's segment by ``retention.ms``.

    With LogAppendTime the deleting broker's clock must show that the record is old enough. With
    CreateTime the producer may have sent an old timestamp.
    """
    settings = case.observed.plan.topic.settings()
    chosen = settings.get("message.timestamp.type", "CreateTime") == "CreateTime"
    for line, moved, kept_ns in _deleted_by_age(case):
        is_old = chosen or line.time_ns - case.begun_ns + ahead_ns(line.text) > kept_ns
        if is_old and _retention_ms(case) == kept_ns // 1_000_000:
            moved_clock = _clock_fault(case, line) or _clients_clock_fault(case)
            says = _by_retention(case, line, kept_ns)
            return (case.ack, *moved_clock, says, _begun("retention", moved))
    return ()


def _deleted_by_age(case: LostRecord) -> Iterator[tuple[BrokerLogLine, BrokerLogLine, int]]:
    """Yield each deletion of the record's segment because of its age.

    Yields:
        The log line about the deletion; the line about the log's new start; and the retention time
        in the first line, in ns.
    """
    offset = case.send["offset"]
    for broker in case.trace.lines if offset is not None else ():
        starts = case.trace.of_kind(broker, "log-start")
        moved = next((line for line in starts if line.offset > offset), None)
        for line in case.trace.of_kind(broker, "retention", "expired") if moved else ():
            limit = _BY_TIME.search(line.text)
            if limit and line.offset <= offset and line.time_ns >= case.begun_ns:
                assert moved is not None
                yield line, moved, int(limit["ms"]) * 1_000_000


def _retention_ms(case: LostRecord) -> int:
    """Return the retention time of the topic, or the brokers' default for a topic without one."""
    default = case.observed.plan.broker_config.get("log.retention.ms", 7 * DAY_MS)
    return int(case.observed.plan.topic.settings().get("retention.ms", default))


@explains(
    "inherited-settings",
    hazard_of_release("inherited-settings"),
    "A restarted broker used the retention.ms of a deleted topic with the same name.",
    applies=lambda case: "retention.ms" not in case.observed.plan.topic.settings(),
    needs=LOGS,
)
def _inherited(case: LostRecord) -> Links:
    """Return links for a restarted broker that used a retention time which the topic never had."""
    for line, moved, kept_ns in _deleted_by_age(case):
        restarts = [
            fault
            for fault in case.observed.faults
            if fault.broker == line.broker
            and facts_of(fault.name).silent
            and fault.start_ns < line.time_ns
        ]
        if restarts and kept_ns // 1_000_000 != _retention_ms(case):
            says = (
                f"Broker {line.broker} had restarted. It deleted the segment, because its"
                f" retention.ms for the topic was {kept_ns / SECOND:,g} s. The topic has no such"
                " setting: it is that of a deleted topic with the same name."
            )
            link = event_link("inherited-settings", says, line, line.broker)
            begun = _begun("inherited-settings", moved)
            return (case.ack, fault_link(restarts[-1]), link, begun)
    return ()


def _clock_fault(case: LostRecord, line: BrokerLogLine) -> Links:
    """Return a link for the fault that had moved a broker's clock when it wrote a log line."""
    return tuple(
        fault_link(fault)
        for fault in case.observed.faults
        if ahead_ns(line.text)
        and facts_of(fault.name).moves_clock
        and fault.broker == line.broker
        and fault.start_ns <= line.time_ns <= fault.until_ns + CLOCK_READ_NS
    )[-1:]


def _clients_clock_fault(case: LostRecord) -> Links:
    """Return a link for the fault that had moved the clients' clock when the record was sent."""
    return tuple(
        fault_link(fault)
        for fault in case.observed.faults
        if facts_of(fault.name).moves_clock
        and fault.broker is None
        and fault.start_ns <= case.begun_ns <= fault.until_ns + CLOCK_READ_NS
    )[-1:]


def _by_retention(case: LostRecord, line: BrokerLogLine, kept_ns: int) -> ExplanationLink:
    age_ns, value = line.time_ns - case.begun_ns, case.send["value"]
    segment = "a segment of the remote tier" if line.kind == "expired" else "its segment"
    says = (
        f"{age_ns / SECOND:.1f} s after {value} was sent, broker {line.broker} deleted {segment},"
        f" because retention.ms, {kept_ns / SECOND:,g} s, had passed since the newest timestamp in"
        " it."
    )
    if ahead := ahead_ns(line.text):
        says += f" The broker's clock was {ahead / SECOND:,g} s ahead."
    if age_ns + ahead <= kept_ns:
        says += f" So the producer had given {value} an old timestamp."
    return event_link("retention", says, line, line.broker)


OTHERWISE: Final = (
    _acknowledged_by_deposed,
    _taken_for_another,
    numbered_as_another,
    _removed_from_the_front,
    _counted_twice,
    _hidden,
    _forgotten,
    _inherited,
    _expired,
)

"""Evidence that a leader deleted records from the remote tier by retention.bytes (KIP-405)."""

import re
from typing import Final

import pyarrow.compute as pc

from highwater.checkers.model.explain.evidence.evidence_links import Links, event_link
from highwater.checkers.model.explain.evidence.loss_evidence import LostRecord
from highwater.checkers.model.explain.trace import BrokerLogLine
from highwater.checkers.model.report_types import ExplanationLink
from highwater.harness.runs.history import FAIL

_BREACH: Final = re.compile(
    r"due to retention size (?P<allowed>\d+) breach\. Log size after deletion will be (?P<left>\d+)"
)
_OVERHEAD_BYTES: Final = 1024
"""The most bytes that a batch of one record adds to the record's value."""


def counted_twice(case: LostRecord) -> Links:
    """Return the leader that deleted the record, if it counted more bytes than were ever sent.

    The leader logs the partition's size, by its own count, without the segment that it deletes.
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
                    _begun(moved),
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
    says = f"Broker {line.broker} led then, in epoch {later.epoch}."
    return (event_link("elections", says, later, line.broker),)


def _deleted(line: BrokerLogLine, breach: re.Match[str], sent: int) -> ExplanationLink:
    says = (
        f"Broker {line.broker} deleted a segment of the remote tier, by its log because without it"
        f" the partition would still have {int(breach['left']):,} bytes, and retention.bytes is"
        f" {int(breach['allowed']):,}. But all records ever sent to the partition have at most"
        f" {sent:,} bytes: the broker had counted segments twice, as local and as remote."
    )
    return event_link("counted-twice", says, line, line.broker)


def _begun(line: BrokerLogLine) -> ExplanationLink:
    says = f"Since then its log and its followers' logs begin at {line.offset}."
    return event_link("counted-twice", says, line, line.broker)

"""Explains forks: a replica that restarted keeps records that a new leader never had."""

from functools import partial
from typing import Final

from highwater.checkers.explain.evidence.evidence_links import (
    AnomalyCase,
    Chain,
    acknowledged,
    cut_link,
    event_link,
    led_without,
    refuse,
    unknown,
)
from highwater.checkers.explain.evidence.licences import Explainer, explains, lacks
from highwater.checkers.explain.observations import FILES, STARTS
from highwater.checkers.explain.tolerances import WITHIN
from highwater.checkers.explain.trace import BrokerLogLine, LeadershipStart, RunTraces, Trace
from highwater.checkers.model.report_types import ExplanationLink
from highwater.harness.runs.faults.intervals import NEVER

TRUNCATED_INSIDE: Final = lacks("epochs") | lacks("exact_epochs")
"""The licence for truncations inside a batch. A leader's epoch ends at the end of a batch. But a
broker's own HW, or the end of an epoch in another log, may be inside a batch."""


@explains(
    "exact_epochs",
    TRUNCATED_INSIDE,
    "A replica returned with records that a new leader never had, and kept them: it truncated to"
    " its own HW (before KIP-101), or to its leader's answer for another epoch (before KIP-279).",
    needs=STARTS | FILES,
)
def _own_records(case: AnomalyCase) -> Chain:
    """Explain why replicas have different records at an offset, or why a replica lacks a batch."""
    observed, anomaly = case.observed, case.anomaly
    trace = observed.traces.get(anomaly["partition"])
    offset = anomaly["offset"]
    if trace is None or offset is None or not trace.leaderships:
        return refuse("It is not known at which offset the replicas differ.")
    holders = {
        broker: disk.record(offset) for broker, disk in trace.disks.items() if offset in disk.at
    }
    final = trace.last_disk
    current = None if final is None else final.record(offset)
    others = {b: value for b, value in holders.items() if value != current}
    if current is None or not others:
        holes = [hole for broker in trace.disks if (hole := _hole(trace, broker, offset))]
        if holes and TRUNCATED_INSIDE.holds(observed, None):
            return Chain(links=tuple(holes))
        return refuse(
            "The replicas have the same record at this offset, or one replica has no record."
        )
    links: list[ExplanationLink] = []
    for broker, value in others.items():
        chain = _strayed(observed, trace, broker, offset, value)
        if chain.why_not:
            return chain
        links += [link for link in chain.links if link not in links]
    return Chain(links=tuple(links))


def _hole(trace: Trace, broker: int, offset: int) -> ExplanationLink | None:
    """Return a link for the truncation inside a batch that left a gap at ``offset``, or None."""
    disk = trace.disks[broker]
    cut = None if offset in disk.at else trace.cut_to(broker, disk.after(offset))
    return None if cut is None else cut_link(cut)


def _strayed(
    observed: RunTraces, trace: Trace, broker: int, offset: int, value: str | None
) -> Chain:
    """Explain why a replica kept its own record at a divergent offset."""
    send = observed.suspects.get(value or "")
    if send is None:
        return refuse(f"{value}, which broker {broker} holds, was never sent.")
    # The first records may be sent before the first observation.
    before = trace.leadership(send["invoke_ns"]) or next(iter(trace.leaderships), None)
    disk = trace.disks[broker]
    twice = disk.record(send["offset"]) == value  # the response was for a retry
    for start in trace.starts:
        if before is None or start.epoch <= before.epoch:
            continue
        # After an unclean election, the new leader may have another, older record there.
        older = trace.older(start.broker, offset, disk.epoch(offset))
        if not (0 <= start.offset <= offset or older):
            continue
        kept_line = _noop_truncation(trace, broker, start, offset)
        again = twice or send["invoke_ns"] <= start.time_ns <= (send["complete_ns"] or NEVER)
        if kept_line is None or (send["offset"] not in {None, offset} and not again):
            continue
        lacks = partial(observed.software.may_lack, time_ns=kept_line.time_ns, broker=broker)
        if lacks("epochs"):
            rule, where = "epochs", "its own HW"
        elif lacks("exact_epochs") and disk.epoch(offset) < start.epoch:
            rule, where = "exact_epochs", "the offset in its leader's answer"
        else:
            continue
        appended = acknowledged(observed, trace, send)
        elected_link = led_without(start, {"value": value, "offset": offset})
        return Chain(links=(appended, elected_link, _kept_link(kept_line, offset, rule, where)))
    return unknown(f"No rule lets broker {broker} keep {value} at offset {offset}.")


def _noop_truncation(
    trace: Trace, broker: int, start: LeadershipStart, offset: int
) -> BrokerLogLine | None:
    """Return the log line that shows that a replica kept its own record at an offset, or None.

    The replica then truncated its log only above that offset. After a truncation to the offset or
    below, it would have fetched the leader's records.
    """
    lines = [
        line
        for line in trace.of_kind(broker, "truncation", "fetcher")
        if line.time_ns >= start.time_ns - WITHIN.look
    ]
    return lines[0] if lines and all(line.offset > offset for line in lines) else None


def _kept_link(line: BrokerLogLine, offset: int, rule: str, where: str) -> ExplanationLink:
    says = f"Broker {line.broker} truncated its log to {line.offset}, {where}, and so kept its own"
    return event_link(rule, f"{says} record at {offset}.", line, line.broker)


fork: Final = Explainer((_own_records,))

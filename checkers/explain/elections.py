"""Checks that the rules allow every observed election and every change of an ISR."""

from collections.abc import Iterator
from itertools import pairwise

from highwater.checkers.core.promises import CONTROLLER_DISK_LOSS
from highwater.checkers.explain.evidence.evidence_links import event_link
from highwater.checkers.explain.observations import Observation
from highwater.checkers.explain.tolerances import WITHIN
from highwater.checkers.explain.trace import RunTraces, Trace
from highwater.checkers.model.report_types import ExplanationLink
from highwater.harness.runs.faults.facts import facts_of
from highwater.harness.runs.faults.intervals import NEVER, FaultInterval
from highwater.harness.runs.partition_trace import Leadership


def wrong_elections(observed: RunTraces, trace: Trace) -> Iterator[ExplanationLink]:
    """Yield the elections and ISR changes of a partition that no rule allows."""
    first = next(iter(trace.leaderships), None)
    assigned = frozenset(first.isr if first else ())
    for row in trace.leaderships:
        if row.leader >= 0 and row.leader not in row.isr:
            yield _wrong(row, "leader-in-isr", f"leader {row.leader} is not in the ISR")
        if len(assigned) == observed.plan.topic.replication_factor and not assigned >= {*row.isr}:
            yield _wrong(row, "assignment", "the ISR has a member that has no replica")
    for before, now in pairwise(trace.leaderships):
        if now.epoch < before.epoch:
            yield _wrong(now, "epochs-rise", f"the leader epoch fell from {before.epoch}")
        elif now.leader != before.leader and now.leader >= 0:
            yield from _elected(observed, trace, before, now)
        if now.leader == before.leader and now.epoch == before.epoch:
            yield from _changed(observed, trace, before, now)


def _elected(
    observed: RunTraces, trace: Trace, before: Leadership, now: Leadership
) -> Iterator[ExplanationLink]:
    """Yield a link for a second leader in one epoch, or for a forbidden unclean election."""
    if now.epoch == before.epoch:
        yield _wrong(
            now,
            "elections",
            f"epoch {now.epoch} has two leaders: broker {before.leader} led in it, too",
        )
    # Only the brokers' logs show changes of the ISR between two observations.
    if observed.lacks(Observation.BROKER_LOGS):
        return
    if observed.elects_anybody or trace.was_eligible(before, now):
        return
    if any(_forgets(fault, before, now) for fault in observed.faults):
        return
    too_small = len(before.isr) < observed.plan.topic.min_insync_replicas
    if too_small and observed.software.may_have("elr", now.time_ns):
        return  # an eligible leader replica (KIP-966) may be elected; no broker reports these
    yield _wrong(now, "elections", f"leader {now.leader} was not in the ISR {list(before.isr)}")


def _forgets(fault: FaultInterval, before: Leadership, now: Leadership) -> bool:
    """Return whether a controller lost its disk, and so perhaps the quorum the earlier decision."""
    return fault.name == CONTROLLER_DISK_LOSS and before.time_ns <= fault.start_ns <= now.time_ns


def _changed(
    observed: RunTraces, trace: Trace, before: Leadership, now: Leadership
) -> Iterator[ExplanationLink]:
    """Yield links for brokers that joined the ISR although they were down or not caught up.

    The check ignores brokers that leave the ISR: a run does not observe lag or lost sessions.
    """
    for joined in {*now.isr} - {*before.isr}:
        asks = not observed.software.may_lack("live_joins_only", now.time_ns, now.leader)
        if asks and _away(observed, trace, joined, now.time_ns):
            yield _wrong(now, "live_joins_only", f"broker {joined} joined the ISR, but did not run")
        if _lacks(observed, trace, joined, now) and not _emptied(observed, trace, joined, now):
            yield _wrong(now, "isr", f"broker {joined} joined the ISR below the leader's HW")


def _away(observed: RunTraces, trace: Trace, broker: int, time_ns: int) -> bool:
    """Return whether a broker was certainly down around a time.

    A broker that is starting does not count as down: on a busy machine a start may take a minute.
    """
    starts = [line.time_ns for line in trace.of_kind(broker, "start")]
    return any(
        fault.broker == broker
        and facts_of(fault.name).idle
        and fault.start_ns < time_ns - WITHIN.outage
        and time_ns + WITHIN.outage < fault.sure_until_ns
        and not any(fault.effect_ns < at <= time_ns for at in starts)
        for fault in observed.faults
    )


def _lacks(observed: RunTraces, trace: Trace, broker: int, now: Leadership) -> bool:
    """Return whether a replica that joined the ISR certainly lacked records below the leader's HW.

    The leader's observed HW does not count if a fault may have removed its records since then. The
    follower's observations count only until the next such fault.
    """
    leader = trace.sample(now.leader, now.time_ns - WITHIN.log)
    cuts = [*observed.may_have_removed(trace.partition)]
    if leader is not None and any(
        cut.broker == now.leader and leader.time_ns <= cut.until_ns and cut.start_ns <= now.time_ns
        for cut in cuts
    ):
        return False
    since_ns = now.time_ns - WITHIN.look
    until_ns = min(
        (cut.start_ns for cut in cuts if cut.broker == broker and cut.start_ns > now.time_ns),
        default=NEVER,
    )
    later = [seen.leo for seen in trace.samples(broker) if since_ns <= seen.time_ns < until_ns]
    return leader is not None and bool(later) and max(later) < leader.hw


def _emptied(observed: RunTraces, trace: Trace, broker: int, now: Leadership) -> bool:
    """Return whether a follower lost records while the leader's request to add it was delayed.

    A controller without KIP-903 accepts the request although the follower has restarted meanwhile
    (KAFKA-14139). Only delays by the relay are known.
    """
    asked_ns = [
        row["time_ns"]
        for row in observed.late("AlterPartition", source=f"broker-{now.leader}")
        if observed.software.may_lack("joins_by_broker_epoch", row["time_ns"])
    ]
    return any(
        fault.broker == broker
        and offsets
        and any(fault.start_ns < time_ns <= now.time_ns + WITHIN.log for time_ns in asked_ns)
        for fault, offsets in observed.removals(trace.partition)
    )


def _wrong(row: Leadership, rule: str, says: str) -> ExplanationLink:
    broker = row.leader if row.leader >= 0 else None
    return event_link(rule, f"{says[:1].upper()}{says[1:]}.", row, broker)

"""Explains duplicates, records out of order, unseen records, and damaged disks."""

from highwater.checkers.model.explain.evidence_links import (
    Chain,
    Row,
    cut_link,
    disturbed,
    fault_link,
    hung_up,
    refuse,
    unanswered,
)
from highwater.checkers.model.explain.tolerances import SECOND, WITHIN
from highwater.checkers.model.explain.trace import BrokerLogLine, RunTraces
from highwater.checkers.model.report_types import ExplanationLink


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
    that an earlier one was refused (``max.in.flight.requests.per.connection`` in Kafka's docs).
    """
    if observed.plan.workload.idempotence:
        return refuse("Its producer is idempotent: the broker should have kept the order.")
    [earlier, _] = anomaly["steps"]
    return _sent_again(observed, anomaly, earlier, f"behind {anomaly['value']}")


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


def seen(observed: RunTraces, anomaly: Row) -> Chain:  # noqa: ARG001 - all are called alike
    """Explain client anomalies that follow from no lost record and no fork."""
    return refuse("Nothing was cut there, and no rule of replication lets a client see it so.")

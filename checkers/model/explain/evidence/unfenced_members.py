"""Explains records that a group processed twice: its coordinator did not know of transactions.

Up to 2.4 a coordinator answers an OffsetFetch with the last committed offset though a transaction
is open that will commit another, and takes the offsets of a transaction from whoever was a member
once. Since 2.5 it tells the reader to wait (``require_stable``), and fences by member and
generation (KIP-447).
"""

from typing import Final

import pyarrow.compute as pc

from highwater.checkers.model.explain.evidence.evidence_links import (
    Chain,
    Row,
    refuse,
    unknown,
)
from highwater.checkers.model.explain.trace import RunTraces
from highwater.checkers.model.report_types import ExplanationLink
from highwater.harness.runs.history import SEEK

_FENCED: Final = (2, 5)


def processed_twice(observed: RunTraces, anomaly: Row) -> Chain:
    """Explain a record that two transactions of a group read: the second began where both did."""
    first, second = anomaly["steps"][0], anomaly["steps"][-1]
    # Whichever broker coordinates the group, it must be an old one.
    coordinators = observed.software.at(second["invoke_ns"])
    if observed.plan.external or any(broker.number >= _FENCED for broker in coordinators):
        return refuse(
            "From 2.5 on a coordinator waits for the offsets of an open transaction, and takes them"
            " from current members alone (KIP-447)."
        )
    if first["process"] == second["process"]:
        return refuse("One member read it twice.")
    begins = _beginning(observed, second, anomaly["partition"])
    if begins is None or (begins["offset"] or 0) > anomaly["offset"]:
        return refuse(f"{second['process']} did not begin before that record.")
    if first["complete_ns"] is None:
        return unknown(f"Nobody knows when the transaction of {first['process']} ended.")
    if begins["invoke_ns"] > first["complete_ns"]:
        return refuse(f"{second['process']} began when the first transaction had ended.")
    releases = " or ".join(broker.kafka for broker in coordinators)
    from_ = "the beginning" if begins["offset"] is None else f"offset {begins['offset']}"
    read = ExplanationLink(
        rule="transaction",
        says=f"{first['process']} read {anomaly['value']} in a transaction that ended later.",
        event=f"{first['process']}: {first['outcome']}",
        time_ns=first["invoke_ns"],
    )
    unfenced = ExplanationLink(
        rule="before-KIP-447",
        says=f"{second['process']} was given the partition, and went on from {from_}: its"
        f" coordinator, of {releases}, did not say that a transaction was open.",
        event=f"{second['process']}: {SEEK} to {from_}",
        time_ns=begins["invoke_ns"],
    )
    return Chain(links=(read, unfenced))


def _beginning(observed: RunTraces, step: Row, partition: int) -> Row | None:
    """Return where a member had begun to read a partition before a step of its own."""
    ops, until_ns = observed.ops, step["invoke_ns"]
    of_member = pc.and_(
        pc.equal(ops["process"], step["process"]), pc.equal(ops["partition"], partition)
    )
    seeks = pc.and_(pc.equal(ops["kind"], SEEK), pc.less_equal(ops["invoke_ns"], until_ns))
    rows: list[Row] = ops.filter(pc.and_(of_member, seeks)).to_pylist()
    return rows[-1] if rows else None

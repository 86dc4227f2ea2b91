"""Explains records that a group processed twice: no broker fenced a removed member.

Up to 2.4 a coordinator answers an OffsetFetch with the last committed offset, even if an open
transaction will commit another offset. Such a coordinator also accepts a transaction's offsets from
any former member. Since 2.5 the coordinator makes the reader wait if the request has
``require_stable``. It fences a member if the request has a member id and a generation (KIP-447).
"""

from typing import Final

import pyarrow.compute as pc

from highwater.checkers.explain.evidence.evidence_links import (
    AnomalyCase,
    Chain,
    Row,
    refuse,
    unknown,
)
from highwater.checkers.explain.evidence.licences import (
    Explainer,
    explains,
    of_plan,
    of_releases,
)
from highwater.checkers.explain.trace import RunTraces
from highwater.checkers.model.report_types import ExplanationLink
from highwater.harness.releases.client_choice import AIOKAFKA, KAFKA_PYTHON, read_client
from highwater.harness.runs.history import SEEK

_FENCED: Final = (2, 5)
_FENCES: Final = (
    "From 2.5 on a coordinator waits for the offsets of an open transaction, and accepts them"
    " only from current members (KIP-447)."
)
_UNFENCED_CLIENTS: Final = {
    AIOKAFKA: "sends a group's offsets without member and generation, and does not ask for stable"
    " offsets",
    KAFKA_PYTHON: "sends no member id after it knows that it was removed",
}
"""Libraries whose loops a coordinator cannot fence (docs/findings/unfenced-loops.md)."""


def _library(run: RunTraces) -> str:
    return read_client(run.plan.client, run.plan.played_on).library


@explains(
    "before-KIP-447",
    of_releases("before KIP-447", _FENCES, lambda entry: entry.number < _FENCED)
    | of_plan(
        "aiokafka or kafka-python",
        "This client sends the member and the generation, so a coordinator can fence it.",
        lambda run: _library(run) in _UNFENCED_CLIENTS,
    ),
    "No broker fenced a member that was removed from its group.",
)
def _unfenced(case: AnomalyCase) -> Chain:
    """Return links if the second transaction could begin before the first ended; else a refusal."""
    observed, anomaly = case.observed, case.anomaly
    first, second = anomaly["steps"][0], anomaly["steps"][-1]
    plan = observed.plan
    library = _library(observed)
    # Any broker may be the coordinator. So all must be old, unless the client cannot be fenced.
    coordinators = observed.software.at(second["invoke_ns"])
    fences = any(broker.number >= _FENCED for broker in coordinators)
    if plan.external or (fences and library not in _UNFENCED_CLIENTS):
        return refuse(_FENCES)
    if first["process"] == second["process"]:
        return refuse("The same member read the record twice.")
    begins = _beginning(observed, second, anomaly["partition"])
    if begins is None or (begins["offset"] or 0) > anomaly["offset"]:
        return refuse(f"{second['process']} did not begin to read before that record.")
    if first["complete_ns"] is None:
        return unknown(f"It is not known when the transaction of {first['process']} ended.")
    if begins["invoke_ns"] > first["complete_ns"]:
        return refuse(f"{second['process']} began when the first transaction had ended.")
    releases = " or ".join(broker.kafka for broker in coordinators)
    why = f"its coordinator, of {releases}, did not say that a transaction was open"
    if fences:
        why = f"{library} {_UNFENCED_CLIENTS[library]}"
    from_ = "the beginning" if begins["offset"] is None else f"offset {begins['offset']}"
    read = ExplanationLink(
        rule="transaction",
        says=f"{first['process']} read {anomaly['value']} in a transaction that ended later.",
        event=f"{first['process']}: {first['outcome']}",
        time_ns=first["invoke_ns"],
    )
    unfenced = ExplanationLink(
        rule="unfenced-client" if fences else "before-KIP-447",
        says=f"{second['process']} was assigned the partition, and continued to read from "
        f"{from_}: {why}.",
        event=f"{second['process']}: {SEEK} to {from_}",
        time_ns=begins["invoke_ns"],
    )
    return Chain(links=(read, unfenced))


def _beginning(observed: RunTraces, step: Row, partition: int) -> Row | None:
    """Return the last seek of a step's member in the partition, before the step."""
    ops, until_ns = observed.ops, step["invoke_ns"]
    of_member = pc.and_(
        pc.equal(ops["process"], step["process"]), pc.equal(ops["partition"], partition)
    )
    seeks = pc.and_(pc.equal(ops["kind"], SEEK), pc.less_equal(ops["invoke_ns"], until_ns))
    rows: list[Row] = ops.filter(pc.and_(of_member, seeks)).to_pylist()
    return rows[-1] if rows else None


processed_twice: Final = Explainer((_unfenced,))

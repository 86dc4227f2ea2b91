"""Batches that expired in a Java producer, whose buffers it may have used again (KAFKA-19012)."""

from typing import Final

import pyarrow.compute as pc

from highwater.checkers.hazards.catalogue import find_hazard
from highwater.checkers.hazards.evaluate import of_clients
from highwater.checkers.model.explain.evidence.evidence_links import Row
from highwater.checkers.model.explain.trace import RunTraces
from highwater.harness.releases.catalogue import release
from highwater.harness.releases.client_choice import read_client
from highwater.harness.runs.history import SEND

_EXPIRED: Final = "TimeoutException"
"""Java's name for the end of a batch that was not answered in time."""


def expired_sends(observed: RunTraces, partition: int | None) -> list[Row]:
    """Return the sends to a partition that expired in a client that reuses their buffers."""
    plan, ops = observed.plan, observed.ops
    client = read_client(plan.client, plan.played_on)
    if not of_clients(find_hazard("KAFKA-19012"), client, release(plan.played_on)):
        return []
    expired = pc.and_(pc.equal(ops["kind"], SEND), pc.equal(ops["error"], _EXPIRED))
    rows: list[Row] = ops.filter(
        pc.and_(expired, pc.equal(ops["partition"], partition))
    ).to_pylist()
    return rows

"""Errors of the wire that make a producer send a record again."""

from typing import Any

import pyarrow as pa
import pytest

from highwater.checkers.explain.evidence.evidence_links import refused_by_wire
from highwater.checkers.explain.software import Software, SoftwareHistory
from highwater.checkers.explain.trace import RunTraces
from highwater.harness.runs.history import OPERATIONS
from highwater.harness.runs.plan import Plan
from highwater.harness.runs.store import RunStatus

SEND = {"process": "producer-0", "invoke_ns": 10, "complete_ns": 30}


def row(*, side: str, **values: Any) -> dict[str, Any]:  # noqa: ANN401 - of a table
    ends = ("broker-1", "client:producer-0")
    source, target = ends if side == "answer" else ends[::-1]
    seen = {"api": "Produce", "cause": "REQUEST_TIMED_OUT", "time_ns": 20}
    return {"side": side, "source": source, "target": target, **seen, **values}


@pytest.mark.parametrize(
    ("refusal", "written", "behind"),
    [
        (row(side="answer"), True, True),
        (row(side="request"), False, True),  # never written: no cause of a duplicate
        (row(side="answer", target="client:producer-1"), False, False),
        (row(side="answer", api="EndTxn"), False, False),
        (row(side="answer", time_ns=31), False, False),
        (row(side="answer", time_ns=9), False, False),
    ],
)
def test_only_a_refused_request_of_the_send_explains(
    refusal: dict[str, Any], written: bool, behind: bool
) -> None:
    observed = RunTraces(
        plan=Plan(kafka="4.4.0"),
        status=RunStatus(phase="frozen"),
        software=SoftwareHistory(first=Software.of("4.4.0")),
        faults=[],
        traces={},
        ops=pa.Table.from_pylist([], schema=OPERATIONS),
        refusals=[refusal],
    )
    assert bool(refused_by_wire(observed, SEND, 30, acted=True)) == written
    assert bool(refused_by_wire(observed, SEND, 30, acted=False)) == behind

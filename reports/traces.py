"""Judged runs as OpenTelemetry spans: a trace for each run, with its phases and its faults.

The output is one request in OTLP's JSON encoding (opentelemetry.io/docs/specs/otlp), which
collectors accept at ``/v1/traces``.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from highwater.harness.base.errors import StoreError
from highwater.harness.runs.faults.intervals import FaultInterval
from highwater.harness.runs.history import FINAL, RUN
from highwater.harness.runs.store import Run
from highwater.harness.runs.verdict import INVALID
from highwater.reports.run_evidence import gather
from highwater.reports.run_summary import RunSummary

_Span: TypeAlias = dict[str, Any]

_PHASES: Final = {RUN: "workload", FINAL: "final read"}
_INTERNAL: Final = 1  # SPAN_KIND_INTERNAL
_ERROR: Final = 2  # STATUS_CODE_ERROR


def otlp(summaries: Sequence[RunSummary]) -> str:
    """Return the spans of all runs. A run with the verdict ``invalid`` has the status "error"."""
    spans = [span for summary in summaries for span in _spans(summary)]
    resource = {"attributes": _attributes({"service.name": "highwater"})}
    scoped = [{"scope": {"name": "highwater"}, "spans": spans}]
    return json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": scoped}]}) + "\n"


def _spans(summary: RunSummary) -> Iterator[_Span]:
    verdict, observed = summary.verdict, gather(summary.run)
    zero_ns = summary.run.environment().started_at_ns
    end_ns = max(observed.end_ns, int(summary.status.seconds * 1e9))
    name = f"Kafka {verdict.kafka}: {summary.what}"
    about: dict[str, object] = {
        "run": summary.run.name,
        "verdict": verdict.word,
        "headline": verdict.headline,
        "lost": verdict.ledger.lost,
        "acknowledged": verdict.ledger.acknowledged,
    }
    trace = sha256(f"{summary.run.name} {zero_ns}".encode()).hexdigest()
    root = _span(trace, name, (zero_ns, zero_ns + end_ns), about)
    if verdict.verdict == INVALID:
        root["status"] = {"code": _ERROR, "message": verdict.headline}
    root["events"] = [
        {"timeUnixNano": str(zero_ns + note.start_ns), "name": note.says} for note in observed.steps
    ]
    yield root
    for phase, (since_ns, until_ns) in _phases(summary.run).items():
        yield _span(trace, phase, (zero_ns + since_ns, zero_ns + until_ns), {}, root)
    for fault in observed.faults:
        until_ns = end_ns if fault.end_ns is None else fault.end_ns
        times = (zero_ns + fault.start_ns, zero_ns + until_ns)
        yield _span(trace, fault.name, times, _about(fault), root)


def _about(fault: FaultInterval) -> Mapping[str, object]:
    broker = {} if fault.broker is None else {"broker": fault.broker}
    return {"effect": fault.says, "healed": fault.end_ns is not None, **broker}


def _phases(run: Run) -> dict[str, tuple[int, int]]:
    """Return when the clients' operations of each phase began and ended, in ns of the run."""
    try:
        table = run.table("history/ops").select(["phase", "invoke_ns", "complete_ns"])
    except StoreError:
        return {}
    spans = {}
    for word, name in _PHASES.items():
        rows = table.filter(pc.equal(table["phase"].cast(pa.string()), word))
        if rows.num_rows:
            begin_ns = pc.min(rows["invoke_ns"]).as_py()
            spans[name] = begin_ns, max(begin_ns, pc.max(rows["complete_ns"]).as_py() or 0)
    return spans


def _span(
    trace: str,
    name: str,
    times_ns: tuple[int, int],
    about: Mapping[str, object],
    parent: _Span | None = None,
) -> _Span:
    """Return a span. Its ids are hashes, so that a second export has the same ids."""
    span = sha256(f"{trace} {name} {times_ns} {about}".encode())
    return {
        "traceId": trace[:32],
        "spanId": span.hexdigest()[:16],
        "parentSpanId": parent["spanId"] if parent else "",
        "name": name,
        "kind": _INTERNAL,
        "startTimeUnixNano": str(times_ns[0]),
        "endTimeUnixNano": str(times_ns[1]),
        "attributes": _attributes({f"highwater.{key}": value for key, value in about.items()}),
    }


def _attributes(values: Mapping[str, object]) -> list[dict[str, object]]:
    return [{"key": key, "value": _value(value)} for key, value in values.items()]


def _value(value: object) -> dict[str, object]:
    if isinstance(value, bool):
        return {"boolValue": value}
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": str(value)}

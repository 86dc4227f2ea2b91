"""What the model says of a run that was built by hand, when anomalies were found in it."""

from highwater.checkers.explain.reconcile import as_random
from highwater.checkers.model.report_types import ModelFinding
from highwater.harness.runs.history import record_value
from highwater.harness.runs.plan import Workload
from tests.support import logdirs
from tests.support.judged import anomalies, verdict
from tests.support.run_builder import RunBuilder

TRANSACTIONS = Workload(transactions=True, idempotence=True)


def transactional(offset: int, value: str, *, sequence: int = 0) -> bytes:
    """A batch of producer 7 in a transaction."""
    record = (None, record_value(value, 32))
    return logdirs.batch(offset, [record], producer=(7, 0, sequence), transactional=True)


def findings(run: RunBuilder, *rows: dict[str, object]) -> tuple[ModelFinding, ...]:
    """What the model says of the run when these anomalies were found in it."""
    built = run.write()
    anomalies(built, *rows)
    return as_random(built, verdict(kafka=run.plan.kafka)).findings


def anomaly(run: RunBuilder, kind: str, **row: object) -> dict[str, object]:
    """An anomaly of the run's topic, in partition 0 unless it says otherwise."""
    return {"kind": kind, "topic": "events", "acks": run.workload.acks, "partition": 0, **row}


def finding(run: RunBuilder, kind: str, **row: object) -> ModelFinding:
    """What the model says of one anomaly, when it alone was found in the run."""
    [found] = [one for one in findings(run, anomaly(run, kind, **row)) if one.kind == kind]
    return found

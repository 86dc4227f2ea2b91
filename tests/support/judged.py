"""What a judged run has beside its history: a verdict, and the anomalies that were found in it."""

import pyarrow as pa
import pyarrow.parquet as pq

from highwater.checkers.core.anomaly import SCHEMA
from highwater.harness.runs.store import Run
from highwater.harness.runs.verdict import Ledger, Verdict


def verdict(word: str = "valid", kafka: str = "4.3.1") -> Verdict:
    return Verdict(
        run="run",
        kafka=kafka,
        acks="all",
        verdict=word,  # type: ignore[arg-type]
        reasons=("The reader came late.",),
        promise="",
        headline="",
        ledger=Ledger(sent=4, acknowledged=4, failed=0, unknown=0, read=4, lost=0, unseen=0),
        counts={},
        anomalies=(),
        checkers={},
    )


def anomalies(run: Run, *rows: dict[str, object]) -> None:
    run.analysis.mkdir()
    table = pa.Table.from_pylist([{"run": "run", **row} for row in rows], schema=SCHEMA)
    pq.write_table(table, run.analysis / "anomalies.parquet")

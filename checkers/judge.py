"""Judge runs: run all checkers over all runs in one pass, then make a verdict for each run."""

import contextlib
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from highwater.checkers import anomaly_files
from highwater.checkers.anomalies import record_outcomes
from highwater.checkers.anomalies.find import tell
from highwater.checkers.availability import availability
from highwater.checkers.catalogue import all_checkers, all_kinds
from highwater.checkers.core.anomaly import SCHEMA
from highwater.checkers.disks.log_ends import log_ends
from highwater.checkers.history.findings import FINDING
from highwater.checkers.history.view import client_view
from highwater.checkers.lineage.evidence import RecordEvidence, gather
from highwater.checkers.run_files import RunFiles
from highwater.checkers.run_tables import Tables
from highwater.checkers.spark.engine import Engine, Rows
from highwater.checkers.spark.failures import first_line, require_alive
from highwater.checkers.verdicts import Findings, detailed, fault_counts_of, unreadable, verdict
from highwater.harness.base.errors import StoreError
from highwater.harness.base.scratch import scratch
from highwater.harness.runs.availability import Availability
from highwater.harness.runs.history import OPERATIONS_TABLE
from highwater.harness.runs.store import Run
from highwater.harness.runs.verdict import Ledger, UnusedFile, Verdict


def judge(runs: Sequence[Run], spark: SparkSession, *, stories: bool = True) -> list[Verdict]:
    """Judge runs; write ``analysis/verdict.json`` and ``analysis/anomalies.parquet`` of each.

    A damaged run raises no error: the verdict on it is ``unknown``, with the reasons.

    Args:
        runs: any number of runs of any size. Large data remains in Spark.
        spark: from ``checkers.spark.session.spark``.
        stories: whether to explain anomalies with evidence from the run. This takes longer.

    Raises:
        HarnessError: Spark ended; no verdict was written.
    """
    with contextlib.ExitStack() as stack:
        folder = scratch("judge")
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        verdicts: dict[int, Verdict] = {}
        cases: dict[int, RunFiles] = {}
        for index, run in enumerate(runs):
            try:
                cases[index] = RunFiles.of(run, f"r{index}")
            except StoreError as error:
                verdicts[index] = unreadable(run, error)
        judged = _judge(list(cases.values()), spark, folder, stories=stories)
        verdicts |= dict(zip(cases, map(verdict, judged), strict=True))
        for index, run in enumerate(runs):
            # If a run's folder is unreadable, it gets no verdict.json; the returned verdict has the
            # reason.
            closed = (OSError,) if index not in cases else ()
            with contextlib.suppress(*closed):
                run.write("analysis/verdict.json", verdicts[index].to_json())
    return [verdicts[index] for index in range(len(runs))]


@dataclass(slots=True, kw_only=True)
class _Pass:
    """The result of one pass of Spark over some runs.

    Attributes:
        anomalies: all anomalies that were found.
        crashed: the error of each crashed checker, by the checker's name.
        ledgers: the record counts of each run; None if they could not be computed.
        lost: by run, a text with the number of judged rows, if rows of its history are missing.
        idle: by run and checker name, the reason why the checker has nothing to judge.
        measured: each run's availability.
    """

    anomalies: Rows
    crashed: dict[str, str] = field(default_factory=dict)
    ledgers: dict[str, Ledger] | None = None
    lost: dict[str, str] = field(default_factory=dict)
    idle: dict[str, dict[str, str]] = field(default_factory=dict)
    measured: dict[str, Availability] = field(default_factory=dict)


def _judge(
    cases: list[RunFiles], spark: SparkSession, folder: Path, *, stories: bool
) -> list[Findings]:
    """Judge all runs together.

    If Spark crashes, judge each half of the runs separately, to find the run that causes the crash.
    """
    if not cases:
        return []
    with Engine(spark) as engine:
        tables = Tables(engine, folder, cases)
        done = _pass(tables)
        if done.crashed:
            require_alive(spark)
        if len(cases) == 1 or not (done.crashed or done.ledgers is None):
            return _findings(tables, done, stories=stories)
    afresh = [case.afresh() for case in cases]
    half = len(cases) // 2
    halves = (afresh[:half], afresh[half:])
    return [
        findings for part in halves for findings in _judge(part, spark, folder, stories=stories)
    ]


def _pass(tables: Tables) -> _Pass:
    finds: dict[tuple[str, ...], anomaly_files.Finds] = {}
    done = _Pass(anomalies=tables.engine.table(SCHEMA.empty_table()))
    for checker in all_checkers():
        try:
            if (anomalies := checker.find(tables)) is not None:
                finds[checker.names] = anomalies
            for case in tables.cases:
                if why := checker.idle(tables, case):
                    done.idle.setdefault(case.key, {}).update(dict.fromkeys(checker.names, why))
        except Exception as error:  # noqa: BLE001 - a crashed checker is a finding of its own
            done.crashed |= dict.fromkeys(checker.names, first_line(error))
    try:
        done.anomalies = _gathered(tables, finds.values())
    except Exception:  # noqa: BLE001 - each checker alone then shows which one crashes
        _gather_each(tables, finds, done)
    try:
        ledgers = record_outcomes.ledgers(tables, done.anomalies)
        done.lost = _lost(tables)
    except Exception as error:  # noqa: BLE001 - the verdict says that there are no record counts
        done.crashed.setdefault("ledger", first_line(error))
    else:
        done.ledgers = {run: _ledger(book) for run, book in ledgers.items()}
    try:
        done.measured = availability(tables)
    except Exception as error:  # noqa: BLE001 - as for the ledger
        done.crashed["availability"] = first_line(error)
    return done


def _gathered(tables: Tables, finds: Iterable[anomaly_files.Finds]) -> Rows:
    """Return the anomalies of some checkers; add the texts of the histories to their findings."""
    findings: list[Rows] = []
    anomalies: list[anomaly_files.Finds] = []
    for source in finds:
        if isinstance(source, Rows) and source.schema.equals(FINDING):
            findings.append(source)
        else:
            anomalies.append(source)
    if findings:
        anomalies.append(tell(client_view(tables), findings))
    return anomaly_files.gather(tables.engine, anomalies)


def _lost(tables: Tables) -> dict[str, str]:
    judged = client_view(tables).judged
    return {
        case.key: f"has {case.operations:,} rows, of which {judged.get(case.key, 0):,} were judged"
        for case in tables.cases
        if case.operations != judged.get(case.key, 0)
    }


def _gather_each(
    tables: Tables, finds: Mapping[tuple[str, ...], anomaly_files.Finds], done: _Pass
) -> None:
    for names, source in finds.items():
        try:
            done.anomalies = done.anomalies.union(_gathered(tables, [source]))
        except Exception as error:  # noqa: BLE001 - a crashed checker is recorded
            done.crashed |= dict.fromkeys(names, first_line(error))


def _findings(tables: Tables, done: _Pass, *, stories: bool) -> list[Findings]:
    targets = {
        case.key: anomaly_files.Target(
            name=case.run.name,
            path=case.run.anomalies,
            uri=case.uri_of(case.run.anomalies),
            without=_unfounded(case, done),
        )
        for case in tables.cases
    }
    all_found = anomaly_files.collect(done.anomalies, targets)
    for case in tables.cases:
        if why := done.lost.get(case.key):
            case.unread.append(UnusedFile(path=f"{OPERATIONS_TABLE}.parquet", why=why))
    half_read = _half_read(tables)
    suspects = {key: detailed(counts.listed) for key, counts in all_found.items() if counts.listed}
    evidence: dict[str, RecordEvidence] = {}
    untold = ""
    try:
        if suspects and stories:
            evidence = gather(tables, suspects)
    except Exception as error:  # noqa: BLE001 - the anomalies remain valid; only their explanations are missing
        untold = first_line(error)
    return [
        Findings(
            case=case,
            anomaly_counts=all_found[case.key],
            ledger=None if done.ledgers is None else done.ledgers.get(case.key, _ledger({})),
            fault_counts=fault_counts_of(case),
            crashed=done.crashed,
            idle=done.idle.get(case.key, {}),
            availability=done.measured.get(case.key),
            untold=untold,
            half_read=half_read.get(case.key, ()),
            evidence=evidence.get(case.key),
        )
        for case in tables.cases
    ]


def _unfounded(case: RunFiles, done: _Pass) -> frozenset[str]:
    """Return the kinds of anomaly that this run's evidence cannot prove."""
    if case.key in done.lost:
        return frozenset(all_kinds())
    return frozenset(kind.name for kind in all_kinds().values() if kind.absence and case.cut)


def _half_read(tables: Tables) -> dict[str, list[str]]:
    """Return, by run, the replicas whose files are intact but could not be read completely."""
    replicas: dict[str, list[str]] = {}
    with contextlib.suppress(
        Exception
    ):  # The checkers of disks crash for the same reason, and report it.
        for end in log_ends(tables):
            if end.unread:
                path = f"replicas/{end.broker}/{end.topic}-{end.partition}"
                replicas.setdefault(end.run, []).append(path)
    return replicas


def _ledger(row: dict[str, int]) -> Ledger:
    return Ledger(**{name: int(row.get(name) or 0) for name in Ledger.__struct_fields__})

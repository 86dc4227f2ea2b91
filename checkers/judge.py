"""Judges runs: all checkers over all runs in one pass of Spark, then a verdict for each run."""

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from checkers import fates, found
from checkers.evidence import Evidence, Row, gather
from checkers.registry import registered
from checkers.staging import Case
from checkers.tables import Tables
from checkers.verdicts import Findings, detailed, injected, unreadable, verdict
from harness.errors import StoreError
from harness.store import Run
from harness.verdict import Ledger, Verdict

_WORDS_MAX: Final = 300  # characters of a crash that a verdict quotes


def judge(runs: Sequence[Run], spark: SparkSession) -> list[Verdict]:
    """Judge runs, and leave ``analysis/verdict.json`` and ``analysis/anomalies.parquet`` in each.

    Every kind of damage to a run ends in the verdict ``unknown`` with its reasons, never in an error.

    Args:
        runs: of any number and size; what is large is spilled, and never held in Python.
        spark: from ``checkers.session.spark``.

    Returns:
        A verdict for each run, in their order.
    """
    with tempfile.TemporaryDirectory(prefix="highwater-judge-") as folder:
        verdicts: dict[int, Verdict] = {}
        cases: dict[int, Case] = {}
        for index, run in enumerate(runs):
            try:
                cases[index] = Case(key=f"r{index}", run=run, plan=run.plan(), status=run.status())
            except StoreError as error:
                verdicts[index] = unreadable(run, error)
        judged = _judge(list(cases.values()), spark, Path(folder))
        verdicts |= dict(zip(cases, map(verdict, judged), strict=True))
        for index, run in enumerate(runs):
            run.write("analysis/verdict.json", verdicts[index].to_json())
    return [verdicts[index] for index in range(len(runs))]


@dataclass(slots=True, kw_only=True)
class _Pass:
    """What one pass of Spark over some runs left behind; ``crashed`` is checker name to why."""

    crashed: dict[str, str] = field(default_factory=dict)
    ledgers: dict[str, Ledger] | None = None
    evidence: dict[str, Evidence] = field(default_factory=dict)


def _judge(cases: list[Case], spark: SparkSession, folder: Path) -> list[Findings]:
    """All runs together; each alone when anything crashed, so that a broken run spoils no other."""
    if not cases:
        return []
    staging = Path(tempfile.mkdtemp(dir=folder))
    tables = Tables(spark, staging, cases)
    try:
        done = _pass(tables, staging / "found")
        if len(cases) > 1 and (done.crashed or done.ledgers is None):
            return [
                findings for case in cases for findings in _judge([_afresh(case)], spark, folder)
            ]
        return _findings(tables, done)
    finally:
        tables.close()


def _pass(tables: Tables, folder: Path) -> _Pass:
    done = _Pass()
    frames: dict[str, DataFrame] = {}
    for checker in registered():
        try:
            frames[checker.name] = checker.find(tables)
        except Exception as error:  # noqa: BLE001 - a crashed checker is a finding of its own
            done.crashed[checker.name] = _words(error)
    try:
        found.write(list(frames.values()), folder)
    except Exception:  # noqa: BLE001 - whose fault it is will be seen when each runs alone
        _write_each(frames, folder, done)
    try:
        rows = fates.ledger(tables.fates).collect()
    except Exception as error:  # noqa: BLE001 - the verdict says that there is no ledger
        done.crashed.setdefault("ledger", _words(error))
    else:
        done.ledgers = {row["run"]: _ledger(row.asDict()) for row in rows}
    return done


def _write_each(frames: dict[str, DataFrame], folder: Path, done: _Pass) -> None:
    for name, frame in frames.items():
        try:
            found.write([frame], folder)
        except Exception as error:  # noqa: BLE001 - as above
            done.crashed[name] = _words(error)


def _findings(tables: Tables, done: _Pass) -> list[Findings]:
    all_found = {
        case.key: found.collect(
            tables.staging / "found",
            case.key,
            case.run.name,
            case.run.analysis / "anomalies.parquet",
        )
        for case in tables.cases
    }
    suspects: dict[str, list[Row]] = {
        key: detailed(each.listed) for key, each in all_found.items() if each.listed
    }
    try:
        evidence = gather(tables, suspects) if suspects else {}
    except Exception as error:  # noqa: BLE001 - the findings stand; only their stories are missing
        evidence = {}
        done.crashed["lineage"] = _words(error)
    return [
        Findings(
            case=case,
            found=all_found[case.key],
            ledger=None if done.ledgers is None else done.ledgers.get(case.key, _ledger({})),
            faults=injected(case, tables.staging),
            crashed=done.crashed,
            evidence=evidence.get(case.key),
        )
        for case in tables.cases
    ]


def _ledger(row: dict[str, int]) -> Ledger:
    names = Ledger.__struct_fields__
    return Ledger(**{name: int(row.get(name) or 0) for name in names})


def _afresh(case: Case) -> Case:
    return Case(key=case.key, run=case.run, plan=case.plan, status=case.status)


def _words(error: Exception) -> str:
    """The first line of an error that says something, without Java's trace."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = next((line for line in lines if not line.startswith("An error occurred")), "")
    return re.sub(r"\s+", " ", telling or type(error).__name__)[:_WORDS_MAX]

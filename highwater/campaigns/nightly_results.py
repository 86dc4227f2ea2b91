"""The results of a night: find the states of its cells, and copy pages and failed runs."""

import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from highwater.harness.base.errors import StoreError
from highwater.harness.campaigns.matrix_cells import MATRIX, MatrixRow
from highwater.harness.campaigns.nightly_cells import (
    Canary,
    CellResult,
    Night,
    NightlyCell,
    State,
    fields,
    worst,
)
from highwater.harness.releases.catalogue import CATALOGUE

_SMALL: Final = (MATRIX, "cells.json", "cells.parquet", "index.html")
_REBUILT: Final = ("*.index", "*.timeindex")
"""Patterns of index files, which are not copied. Each has ten megabytes, Kafka can rebuild it, and
no checker reads it."""


def read_rows(paths: Iterable[Path]) -> tuple[list[MatrixRow], list[str]]:
    """Return every readable row, and a sentence about each file or row that cannot be read."""
    rows: list[MatrixRow] = []
    problems: list[str] = []
    for path in paths:
        files = _files(path)
        if not files:
            problems.append(f"{path} has no cells.json: no matrix ended there.")
        for file in files:
            try:
                decoded = msgspec.json.decode(file.read_bytes(), type=list[msgspec.Raw])
                rows += _rows(file, decoded, problems)
            except msgspec.MsgspecError as error:
                problems.append(f"{file} is not a list of cells: {error}.")
            except FileNotFoundError:
                problems.append(f"{file} is missing: the matrix did not run to its end.")
            except OSError as error:
                problems.append(f"{file} cannot be read: {error.strerror}.")
    return rows, problems


def _files(path: Path) -> list[Path]:
    """Return the path of each matrix's ``cells.json``, even if this file does not exist."""
    if path.is_file():
        return [path]
    begun = {matrix_path.with_name("cells.json") for matrix_path in path.rglob(MATRIX)}
    return sorted(begun | set(path.rglob("cells.json")))


def _rows(file: Path, raws: Sequence[msgspec.Raw], problems: list[str]) -> Iterator[MatrixRow]:
    for number, raw in enumerate(raws):
        try:
            yield msgspec.json.decode(raw, type=MatrixRow)
        except msgspec.MsgspecError as error:
            problems.append(f"{file}: cell {number} is broken: {error}.")


def mark_all(
    rows: Sequence[MatrixRow], *, night: str, plan: Night | None, canaries: Sequence[Canary]
) -> list[CellResult]:
    """Return a result for every planned or executed cell; of several rows, the worst decides.

    Args:
        plan: the planned cells; without a plan, no cell can be ``missing``.
    """
    marks: dict[tuple[str, int], list[CellResult]] = {}
    for row in rows:
        mark = _mark(row, night, canaries)
        marks.setdefault(mark.identity, []).append(mark)
    for cell in plan.cells if plan else ():
        if cell.identity not in marks:
            marks[cell.identity] = [
                CellResult(
                    **fields(cell),
                    night=night,
                    state="missing",
                    why="planned, but has no result",
                    canary=_canary(cell, canaries),
                    counted=False,
                )
            ]
    return [worst(group) for group in marks.values()]


def _mark(row: MatrixRow, night: str, canaries: Sequence[Canary]) -> CellResult:
    cell = NightlyCell(**fields(row))
    canary = _canary(cell, canaries)
    state, why = _judge(row, canary)
    return CellResult(
        **fields(cell),
        night=night,
        state=state,
        why=why,
        canary=canary,
        verdict=row.verdict,
        lost=row.lost,
        acknowledged=row.acknowledged,
        divergent=row.divergent,
        counted=row.counted,
        seconds=row.seconds,
        unacknowledged_s=row.unacknowledged_s,
        leaderless_s=row.leaderless_s,
        unsynced_s=row.unsynced_s,
    )


def _canary(cell: NightlyCell, canaries: Sequence[Canary]) -> str | None:
    return next((canary.name for canary in canaries if canary.claims(cell)), None)


def _judge(row: MatrixRow, canary: str | None) -> tuple[State, str]:
    if row.verdict == "unknown":
        return "unknown", row.problem or "could not be judged"
    if canary and not row.lost:
        return "bad", "must lose records, but lost none"
    if row.model == "unexplained":
        return "bad", "the model cannot explain all findings"
    if row.as_predicted is not None:
        return ("good", "as predicted") if row.as_predicted else ("bad", "not as predicted")
    return _judge_random(row)


def _judge_random(row: MatrixRow) -> tuple[State, str]:
    if row.verdict == "valid":
        return "good", "broke no promise"
    # In these releases followers truncate to their HW, so any failover can lose and fork records.
    may_break = row.kafka in CATALOGUE and CATALOGUE[row.kafka].cuts_to_hw
    if (row.lost or row.divergent) and may_break:
        return "good", "lost or forked records, which this release can do"
    return "bad", "broke a promise"


def keep(paths: Iterable[Path], out: Path, *, canaries: Sequence[Canary], most: int) -> list[str]:
    """Copy pages and results, and complete runs of failed cells up to a limit of bytes.

    Args:
        out: output folder, which gets a subfolder for each path. Links between its files work.
        most: the limit in bytes.

    Returns:
        A sentence for each run that was not copied.
    """
    notes: list[str] = []
    try:
        for path in paths:
            for matrix_path in sorted(path.rglob(MATRIX)):
                into = out / path.name / matrix_path.parent.relative_to(path)
                most -= _keep(matrix_path.parent, into, canaries, most, notes)
    except OSError as error:
        raise StoreError(
            f"{error.filename or out} cannot be copied: {error.strerror}",
            hint="Choose another folder with --out.",
        ) from error
    return notes


def _keep(folder: Path, into: Path, canaries: Sequence[Canary], most: int, notes: list[str]) -> int:
    """Copy one matrix; return the size of the complete runs that were copied, in bytes."""
    into.mkdir(parents=True, exist_ok=True)
    for name in _SMALL:
        if (folder / name).is_file():
            shutil.copy2(folder / name, into / name)
    for report in sorted(folder.glob("runs/*/report.html")):
        if not report.parent.is_symlink():
            copy = into / report.relative_to(folder)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(report, copy)
    spent = 0
    for row in read_rows([folder])[0]:
        run = folder / "runs" / row.run
        if not _mark(row, "", canaries).troubled or not run.is_dir():
            continue
        if spent + (size := _size(run)) > most:
            notes.append(f"{run} was not copied: {size / 1000000.0:.0f} MB exceed the limit.")
        else:
            spent += size
            ignore = shutil.ignore_patterns(*_REBUILT)
            shutil.copytree(run, into / "runs" / row.run, dirs_exist_ok=True, ignore=ignore)
    return spent


def _size(run: Path) -> int:
    files = (path for path in run.rglob("*") if path.is_file())
    return sum(path.stat().st_size for path in files if not any(map(path.match, _REBUILT)))

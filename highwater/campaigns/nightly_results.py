"""Reads the matrices of a night, and decides for each cell whether it is as it should be."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from highwater.harness.releases.catalogue import CATALOGUE
from highwater.harness.runs.matrix_cells import MATRIX, MatrixRow
from highwater.harness.runs.nightly_cells import (
    Canary,
    CellResult,
    Night,
    NightlyCell,
    State,
    fields,
    worst,
)


def read_rows(paths: Iterable[Path]) -> tuple[list[MatrixRow], list[str]]:
    """Return every row that can be read, and a sentence with the file for each that cannot.

    Args:
        paths: ``cells.json`` files, matrix directories, or folders with them anywhere below.
    """
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
                problems.append(f"{file} is no list of cells: {error}.")
            except FileNotFoundError:
                problems.append(f"{file} is missing: the matrix was not run to its end.")
            except OSError as error:
                problems.append(f"{file} cannot be read: {error.strerror}.")
    return rows, problems


def _files(path: Path) -> list[Path]:
    """Return the expected files: a ``cells.json`` beside every ``matrix.json``, and all others."""
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
    """Return a result for every cell that was planned or run; the worst of a cell's rows counts.

    Args:
        plan: the planned cells; without a plan, no cell can be missing.
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
                    why="planned, and left no result",
                    canary=_canary(cell, canaries),
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
        seconds=row.seconds,
    )


def _canary(cell: NightlyCell, canaries: Sequence[Canary]) -> str | None:
    return next((canary.name for canary in canaries if canary.claims(cell)), None)


def _judge(row: MatrixRow, canary: str | None) -> tuple[State, str]:
    """Return the state of a cell that ran, and the reason."""
    if row.verdict == "unknown":
        return "unknown", row.problem or "could not be judged"
    if canary and not row.lost:
        return "bad", "must lose records, and lost none"
    if row.model == "unexplained":
        return "bad", "the model cannot explain what was found"
    if row.as_predicted is not None:
        return ("good", "as predicted") if row.as_predicted else ("bad", "not as predicted")
    return _judge_random(row)


def _judge_random(row: MatrixRow) -> tuple[State, str]:
    """Return state and reason of a schedule without a predicted outcome."""
    if row.verdict == "valid":
        return "good", "no promise broken"
    if (row.lost or row.divergent) and _may_break(row.kafka):
        return "good", "lost or forked records, as this release can"
    return "bad", "broke a promise"


def _may_break(kafka: str) -> bool:
    """Return whether followers truncate to their HW, so that any failover can lose and fork."""
    return kafka in CATALOGUE and CATALOGUE[kafka].cuts_to_hw

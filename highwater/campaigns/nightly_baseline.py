"""Copies the results of a night: every page, and complete runs of the cells that went wrong."""

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from highwater.campaigns.nightly_results import mark_all, read_rows
from highwater.harness.base.errors import StoreError
from highwater.harness.runs.matrix_cells import MATRIX
from highwater.harness.runs.nightly_cells import Canary

_SMALL: Final = (MATRIX, "cells.json", "cells.parquet", "index.html")
_REBUILT: Final = ("*.index", "*.timeindex")
"""Indexes that Kafka makes anew and no checker reads, ten preallocated megabytes each."""


def keep(paths: Iterable[Path], out: Path, *, canaries: Iterable[Canary], most: int) -> list[str]:
    """Copy pages and results, and complete runs of troubled cells up to a limit of bytes.

    Args:
        paths: folders with matrices anywhere below.
        out: gets a folder for each of the paths, in which all links still work.
        most: maximum bytes of complete runs.

    Returns:
        A sentence for each run that was left out.

    Raises:
        StoreError: ``out`` cannot be written.
    """
    notes: list[str] = []
    canary_list = list(canaries)
    try:
        for path in paths:
            for matrix_path in sorted(path.rglob(MATRIX)):
                into = out / path.name / matrix_path.parent.relative_to(path)
                most -= _keep(matrix_path.parent, into, canary_list, most, notes)
    except OSError as error:
        raise StoreError(
            f"{error.filename or out} cannot be copied: {error.strerror}",
            hint="Choose another folder with --out.",
        ) from error
    return notes


def _keep(folder: Path, into: Path, canaries: list[Canary], most: int, notes: list[str]) -> int:
    """Copy one matrix; return the bytes of the complete runs that were copied."""
    into.mkdir(parents=True, exist_ok=True)
    for name in _SMALL:
        if (folder / name).is_file():
            shutil.copy2(folder / name, into / name)
    for report in sorted(folder.glob("runs/*/report.html")):
        if report.parent.is_symlink():
            continue
        copy = into / report.relative_to(folder)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(report, copy)
    spent = 0
    rows, _ = read_rows([folder])
    for row in rows:
        (mark,) = mark_all([row], night="", plan=None, canaries=canaries)
        run = folder / "runs" / row.run
        if not mark.troubled or not run.is_dir():
            continue
        if spent + (size := _size(run)) > most:
            notes.append(f"{run} is left out: {size / 1e6:.0f} MB are more than there is room for.")
            continue
        spent += size
        ignore = shutil.ignore_patterns(*_REBUILT)
        shutil.copytree(run, into / "runs" / row.run, dirs_exist_ok=True, ignore=ignore)
    return spent


def _size(run: Path) -> int:
    files = (path for path in run.rglob("*") if path.is_file())
    return sum(
        path.stat().st_size
        for path in files
        if not any(path.match(pattern) for pattern in _REBUILT)
    )

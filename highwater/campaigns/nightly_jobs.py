"""Write a planned night: its jobs' matrices, a script for each machine, and a GitHub matrix."""

import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, TypeVar

import msgspec
from rich.table import Table

from highwater import console
from highwater.harness.base.errors import StoreError
from highwater.harness.campaigns.matrix_cells import Axes, Matrix, MatrixCell, MatrixFolder
from highwater.harness.campaigns.nightly_cells import (
    NEMESIS_S,
    SCHEMA,
    Job,
    Night,
    PlannedCell,
    fields,
)

PLAN: Final = "night.json"
SLACK: Final = 1.5
LONGEST: Final = 330
"""The greatest number of minutes for one job of a nightly run. GitHub stops a job after 360
minutes, and before that the job must upload its results."""

T = TypeVar("T")

_SCRIPT: Final = """\
#!/usr/bin/env bash
# {name} of the night of {night}: {cells} cells, about {minutes:.0f} minutes.
# Each line runs the cells of one {name}/*/matrix.json and leaves its cells.json beside it. The
# verdict comes from `highwater nightly summarize`: here every line runs, whatever failed before.
set -u
cd "$(dirname "$0")" || exit
run() {{
  echo "+ $*"
  "$@" || echo "exit code $?"
}}
{commands}
"""


def commands(job: Job) -> list[str]:
    """Return a job's command lines in order; they run in the folder of the night's plan."""
    folders = (f"{job.name}/{number}" for number in range(1, len(job.pieces) + 1))
    return [f"highwater matrix --expect --resume {shlex.quote(folder)}" for folder in folders]


def matrix(piece: Sequence[PlannedCell]) -> Matrix:
    """Return a matrix of exactly these cells."""
    return Matrix(
        axes=Axes(
            kafkas=_values(cell.kafka for cell in piece),
            stories=_values(cell.story for cell in piece if cell.story),
            nemeses=_values(tuple(cell.nemesis.split(",")) for cell in piece if cell.nemesis),
            acks=_values(cell.acks for cell in piece),
            min_isrs=_values(cell.min_isr for cell in piece),
            uncleans=_values(cell.unclean for cell in piece),
            drivers=_values(cell.driver for cell in piece),
            seeds=_values(cell.seed for cell in piece),
            clients=_values(cell.client for cell in piece),
            duration_s=NEMESIS_S,
        ),
        cells=tuple(MatrixCell(**fields(cell), run=_name(cell)) for cell in piece),
        skipped=(),
    )


def _values(items: Iterable[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(items))


def _name(cell: PlannedCell) -> str:
    return f"{re.sub(r'[^A-Za-z0-9._]+', '-', cell.key)}-seed-{cell.seed}"


def script(job: Job, night: str) -> str:
    """Return a shell script that runs a job's matrices from the folder of the script."""
    return _SCRIPT.format(
        name=job.name,
        night=night,
        cells=len(job.cells),
        minutes=job.seconds / 60,
        commands="\n".join(f"run {command}" for command in commands(job)),
    )


def github_matrix(night: Night) -> dict[str, list[dict[str, object]]]:
    """Return the value of a workflow's ``strategy.matrix``: name, size and commands of each job."""
    return {
        "include": [
            {
                "job": job.name,
                "cells": len(job.cells),
                "minutes": round(job.seconds / 60, 1),
                "limit": min(LONGEST, round(job.seconds / 60 * SLACK + 10)),
                "kafka": ",".join(_values(cell.kafka for cell in job.cells)),
                "commands": commands(job),
            }
            for job in night.jobs
        ]
    }


def write(night: Night, folder: Path) -> None:
    """Write ``night.json``, every job's script, and the ``matrix.json`` of each part of a job."""
    for job in night.jobs:
        for number, piece in enumerate(job.pieces, start=1):
            MatrixFolder(folder / job.name / str(number)).write(matrix(piece))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / PLAN).write_bytes(msgspec.json.format(msgspec.json.encode(night), indent=1))
        for job in night.jobs:
            (folder / f"{job.name}.sh").write_text(script(job, night.night), encoding="utf-8")
    except OSError as error:
        raise StoreError(
            f"{folder} cannot be written: {error.strerror}",
            hint="Choose another folder with --out.",
        ) from error


def read(path: Path) -> Night:
    """Read a night's plan from ``night.json``."""
    hint = "highwater nightly plan --out DIR writes it."
    try:
        night = msgspec.json.decode(path.read_bytes(), type=Night)
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}", hint=hint) from error
    except msgspec.MsgspecError as error:
        raise StoreError(f"{path} is no plan of a night: {error}", hint=hint) from error
    if night.schema != SCHEMA:
        raise StoreError(
            f"{path} has schema {night.schema}, but this version of Highwater reads schema "
            f"{SCHEMA}",
            hint=hint,
        )
    return night


def table(night: Night) -> Table:
    """Return a table of the night, with one row per job."""
    rows = [
        [
            job.name,
            str(len(job.cells)),
            f"{job.seconds / 60:.0f}",
            str(sum(cell.why == "failed" for cell in job.cells)),
            str(sum(cell.why == "canary" for cell in job.cells)),
            ", ".join(_values(cell.kafka for cell in job.cells)),
        ]
        for job in night.jobs
    ]
    heads = ["job", "cells", "minutes", "failed before", "canaries", "Kafka"]
    return console.table(f"The night of {night.night}: {len(night.cells)} cells", heads, rows)

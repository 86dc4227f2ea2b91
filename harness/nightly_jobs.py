"""A planned night as what machines run: a script each, ``night.json``, and a GitHub matrix."""

import shlex
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from rich.table import Table

from harness import console
from harness.errors import StoreError
from harness.nightly_cells import NEMESIS_S, SCHEMA, Job, Night, Planned

PLAN: Final = "night.json"

_SCRIPT: Final = """\
#!/usr/bin/env bash
# {name} of the night of {night}: {cells} cells, about {minutes:.0f} minutes.
# Results go below the folder that the first argument names. What they are worth is for
# `highwater nightly summarize` to say; here every command gets its turn, whatever became of others.
set -u
store="${{1:-store}}"
run() {{
  echo "+ $*"
  "$@" || echo "exit code $?"
}}
{commands}
"""


def commands(job: Job) -> list[list[str]]:
    """The command lines of a job, in its order; each makes a matrix of its own."""
    blocks: dict[tuple[object, ...], dict[str, list[Planned]]] = {}
    for cell in job.cells:
        alike = (cell.why == "failed", cell.kafka, cell.driver, cell.min_isr, cell.unclean)
        block = blocks.setdefault((*alike, bool(cell.story), cell.seed), {})
        block.setdefault(cell.what, []).append(cell)
    return [
        _matrix(f"{job.name}-{number}", what, cells)
        for number, (what, cells) in enumerate(
            (pair for block in blocks.values() for pair in _products(block)), start=1
        )
    ]


def _products(block: dict[str, list[Planned]]) -> list[tuple[list[str], list[Planned]]]:
    """Schedules that are to run with the same acks, so that every combination is a cell."""
    alike: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for what, cells in block.items():
        alike[tuple(sorted(cell.acks for cell in cells))].append(what)
    return [(names, block[names[0]]) for names in alike.values()]


def _matrix(name: str, what: Sequence[str], cells: Sequence[Planned]) -> list[str]:
    one = cells[0]
    words = ["highwater", "matrix", "--name", name, "--kafka", one.kafka, "--driver", one.driver]
    if one.story:
        words += ["--story", ",".join(what)]
    else:
        words += [word for mix in what for word in ("--nemesis", mix)] + ["--for", f"{NEMESIS_S}s"]
    words += ["--acks", ",".join(cell.acks for cell in cells), "--min-isr", str(one.min_isr)]
    words += ["--unclean", "true" if one.unclean else "false", "--seed", str(one.seed)]
    return words


def script(job: Job, night: str) -> str:
    """A job as a shell script that takes the folder for results."""
    return _SCRIPT.format(
        name=job.name,
        night=night,
        cells=len(job.cells),
        minutes=job.seconds / 60,
        commands="\n".join(f'run {shlex.join(one)} --store "$store"' for one in commands(job)),
    )


def github_matrix(night: Night) -> dict[str, list[dict[str, object]]]:
    """What a workflow's ``strategy.matrix`` takes: a job's name, its script and what is in it."""
    return {
        "include": [
            {
                "job": job.name,
                "script": f"{job.name}.sh",
                "cells": len(job.cells),
                "minutes": round(job.seconds / 60, 1),
                "kafka": ",".join(dict.fromkeys(cell.kafka for cell in job.cells)),
                "commands": [shlex.join(words) for words in commands(job)],
            }
            for job in night.jobs
        ]
    }


def write(night: Night, folder: Path) -> None:
    """Write ``night.json`` and every job's script.

    Raises:
        StoreError: the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / PLAN).write_bytes(msgspec.json.format(msgspec.json.encode(night), indent=1))
        for job in night.jobs:
            (folder / f"{job.name}.sh").write_text(script(job, night.night), encoding="utf-8")
    except OSError as error:
        raise StoreError(
            f"{folder} cannot be written: {error.strerror}", hint="Choose another with --out."
        ) from error


def read(path: Path) -> Night:
    """Read ``night.json`` back.

    Raises:
        StoreError: it is missing, broken or of another schema.
    """
    hint = "highwater nightly plan --out DIR writes it."
    try:
        night = msgspec.json.decode(path.read_bytes(), type=Night)
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}", hint=hint) from error
    except msgspec.MsgspecError as error:
        raise StoreError(f"{path} is no plan of a night: {error}", hint=hint) from error
    if night.schema != SCHEMA:
        raise StoreError(f"{path} has schema {night.schema}, this is {SCHEMA}", hint=hint)
    return night


def table(night: Night) -> Table:
    """A night for a person: a row a job."""
    rows = [
        [
            job.name,
            str(len(job.cells)),
            f"{job.seconds / 60:.0f}",
            str(sum(cell.why == "failed" for cell in job.cells)),
            str(sum(cell.why == "canary" for cell in job.cells)),
            ", ".join(dict.fromkeys(cell.kafka for cell in job.cells)),
        ]
        for job in night.jobs
    ]
    heads = ["job", "cells", "minutes", "failed before", "canaries", "Kafka"]
    return console.table(f"The night of {night.night}: {len(night.cells)} cells", heads, rows)

"""A matrix of many releases as it is after its runs, for pages and tests; nothing was run."""

from pathlib import Path
from typing import Final

import msgspec

from highwater.campaigns.matrix_plan import lay_out
from highwater.harness.campaigns.matrix_cells import (
    Axes,
    Matrix,
    MatrixCell,
    MatrixFolder,
    MatrixRow,
)
from highwater.harness.releases.catalogue import CATALOGUE, release

AXES: Final = Axes(
    kafkas=tuple(CATALOGUE),
    stories=("loss", "divergence"),
    nemeses=(("kill", "pause"),),
    acks=("0", "1", "all"),
    min_isrs=(1, 2),
    seeds=(1, 2),
)


def row(cell: MatrixCell, **told: object) -> MatrixRow:
    """A cell's row, as the rules of its release foresee it unless told otherwise."""
    cuts = release(cell.kafka).cuts_to_hw
    forks = cuts and cell.story == "divergence"
    lost = int(cuts and cell.story is not None)
    fields = {
        "verdict": "invalid" if forks or (lost and cell.acks == "all") else "valid",
        "sent": 5,
        "acknowledged": 5 if cell.story else 5_832,
        "lost": lost,
        "unseen": 0,
        "divergent": int(forks),
        "as_predicted": True if cell.story else None,
        "report": f"runs/{cell.run}/report.html",
        "seconds": 9.5,
        "problem": None,
        "model": "as-predicted" if cell.story else "explained",
    }
    return msgspec.convert({**msgspec.structs.asdict(cell), **fields, **told}, MatrixRow)


def judged(folder: Path, axes: Axes = AXES) -> MatrixFolder:
    """A matrix folder with rows: not as predicted, unknown, failed by the harness, unexplained."""
    found = MatrixFolder(folder)
    laid = lay_out(axes)
    found.write(msgspec.structs.replace(laid, seconds=1000.0))
    rows = [row(cell) for cell in laid.cells]
    rows[5] = row(laid.cells[5], as_predicted=False, lost=2, verdict="invalid")
    rows[9] = row(laid.cells[9], verdict="unknown", as_predicted=False, unseen=3)
    why = "harness failed while booting: broker 2 died"
    rows[11] = row(laid.cells[11], verdict="unknown", acknowledged=0, lost=0, problem=why)
    rows[13] = row(laid.cells[13], model="unexplained")
    rows[15] = row(laid.cells[15], model="not-reproduced")
    found.write_rows(rows)
    return found


def planned(matrix: Matrix, **fields: object) -> list[MatrixCell]:
    """The cells that have these values."""
    wanted = fields.items()
    return [cell for cell in matrix.cells if all(getattr(cell, k) == v for k, v in wanted)]

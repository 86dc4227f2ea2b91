"""Findings: what kernels find wrong, by reference to the rows that show it.

A kernel knows numbers alone. It says which rows show an anomaly, and in what part; ``told`` has
those rows with their words, and makes the anomaly.
"""

from typing import Any, Final

import numpy as np
import pyarrow as pa

FINDING: Final = pa.schema(
    [
        ("kind", pa.string()),
        ("finding", pa.int64()),
        ("part", pa.int32()),
        ("nth", pa.int32()),
        *((name, pa.int64()) for name in ("client", "at")),
        ("fault", pa.int32()),
        *((name, pa.int64()) for name in ("offset", "delta", "place")),
        ("note", pa.string()),
    ]
)
"""One row for each row of a history that a finding refers to.

``kind`` and ``finding`` say whose it is; ``part`` which part the row of the history named by
``client`` and ``at`` plays in it, and ``nth`` the order of steps. ``fault`` says which record is at
fault, ``offset`` and ``delta`` are the anomaly's: all three are equal on all rows of a finding.
``place`` and ``note`` are those of a copy.
"""

STEP: Final = 0
COPY: Final = 1
END: Final = 2
SUBJECT: Final = 3
"""Parts. A STEP of the anomaly; a row that tells of a COPY of a record, and where it stands; an END
is a copy too, and the first and the last of these, by place and value, are the steps; a SUBJECT
only tells whose record it is, ``nth`` 1 if it was acknowledged."""

OF_FIRST: Final = 0
OF_LAST: Final = 1
OF_COPY: Final = 2
OF_NONE: Final = 3
"""Faults. The record at fault is that of the first step or subject, at ``offset``; that of the last
step, at its own offset; that of the first copy, at the copy's; or none that has a value."""


def findings(kind: str | pa.Array, finding: Any, **columns: Any) -> pa.Table:  # noqa: ANN401
    """Rows of ``FINDING``.

    Args:
        kind: of all rows, or of each.
        finding: an array.
        columns: arrays (of numpy or Arrow), or one value for all rows; others are null.
    """
    size = len(finding)
    given = {"kind": kind, "finding": finding, "part": STEP, "nth": 0, "fault": OF_FIRST} | columns
    arrays = []
    for field in FINDING:
        column = given.get(field.name)
        if isinstance(column, np.ndarray | pa.Array | pa.ChunkedArray):
            arrays.append(pa.chunked_array([column]) if isinstance(column, pa.Array) else column)
        else:
            arrays.append(pa.repeat(pa.scalar(column, field.type), size))
    return pa.table(arrays, names=FINDING.names).cast(FINDING)

"""Classify every input of a program: processed once, lost, half, doubled, or not reached.

An input is a record that the final read has returned. Every input should have the same number of
outputs. An input is *lost* if it is before the group's committed position and no output names it:
the program would not read it again. An input before this position with only some of its outputs is
*half* processed. An input is *doubled* if it has more outputs than its copies should have. An input
at or after this position with too few outputs is *unreached*. An *exempt* input needs no output.

Outputs are the records that a read_committed reader received. An aborted output is ignored, unless
the brokers returned it to this reader.
"""

from collections.abc import Collection, Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

ONCE: Final = "once"
LOST: Final = "lost"
HALF: Final = "half"
DOUBLED: Final = "doubled"
UNREACHED: Final = "unreached"
EXEMPT: Final = "exempt"

INPUT: Final = pa.schema(
    [("partition", pa.int32()), ("offset", pa.int64()), ("value", pa.string())]
)
"""Columns of an input: its position, and its name."""

OUTCOME: Final = pa.schema(
    [
        *INPUT,  # offset: that of the last copy
        ("copies", pa.int64()),  # number of copies in the input
        ("outputs", pa.int64()),  # number of outputs that name the input
        ("outcome", pa.string()),
    ]
)


OVERTAKEN: Final = pa.schema(
    [
        ("value", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("out", pa.int32()),  # partition of the output
        ("at", pa.int64()),  # offset of its first output there
        ("later", pa.string()),  # name of the later input
        ("later_at", pa.int64()),  # offset of the later input's first output
    ]
)
"""The columns of an input whose output comes after a later input's output."""


def input_outcomes(
    inputs: pa.Table,
    outputs: pa.Table,
    positions: Mapping[int, int | None],
    *,
    complete: bool,
    needed: int = 1,
    exempt: Collection[str] = (),
) -> pa.Table:
    """Return the outcome of every input, as ``OUTCOME`` rows, in order of partition and offset.

    Args:
        inputs: with the columns ``INPUT``; a row for each copy.
        outputs: with a column ``input``, the name of an input or null; a row for each output.
        positions: the group's last committed offset in each partition; None without a commit.
        complete: whether all outputs are known. If not, no input counts as lost or half processed.
        needed: the number of outputs that each input should have.
        exempt: names of inputs that need no output.
    """
    by_name = inputs.group_by("value").aggregate(
        [("partition", "max"), ("offset", "max"), ("offset", "count")]
    )
    named = outputs.filter(pc.is_valid(outputs["input"]))
    counts = named.group_by("input").aggregate([("input", "count")])
    rows = by_name.join(counts, "value", "input", join_type="left outer")
    partition, offset = rows["partition_max"], rows["offset_max"]
    copies, written = rows["offset_count"], pc.fill_null(rows["input_count"], 0)
    passed = pc.and_(pc.less(offset, _positions(partition, positions)), pa.scalar(complete))
    outcome = pc.case_when(
        pc.make_struct(
            pc.is_in(rows["value"], pa.array(exempt, pa.string())),
            pc.greater(written, pc.multiply(copies, needed)),
            pc.greater_equal(written, needed),
            pc.and_(passed, pc.equal(written, 0)),
            passed,
        ),
        EXEMPT,
        DOUBLED,
        ONCE,
        LOST,
        HALF,
        UNREACHED,
    )
    columns = [partition, offset, rows["value"], copies, written, outcome]
    return pa.table(columns, schema=OUTCOME).sort_by(
        [("partition", "ascending"), ("offset", "ascending")]
    )


def strange_outputs(names: pa.Table, outputs: pa.Table) -> pa.Table:
    """Return the outputs that name an input that was never sent.

    Args:
        names: with a column ``value``, the names of all records that were ever sent.
    """
    named = outputs.filter(pc.is_valid(outputs["input"]))
    strange = pc.invert(pc.is_in(named["input"], value_set=names["value"].combine_chunks()))
    return named.filter(strange)


def overtaken(inputs: pa.Table, outputs: pa.Table) -> pa.Table:
    """Return the inputs whose first output comes after the first output of a later input.

    Inputs are compared if they are in one partition and their first outputs are in one partition.
    Only an input's first output is compared, because a program may process inputs again after a
    crash. Outputs without keys may be in several partitions, so that readers get them in another
    order. An input with several copies is ignored.

    Args:
        inputs: with the columns ``INPUT``, without inputs that need no output.
        outputs: with columns ``input``, ``partition``, ``offset`` and ``timestamp_ms``.

    Returns:
        A table with the columns ``OVERTAKEN``, in the order of the outputs.
    """
    copies = inputs.group_by("value").aggregate(
        [("offset", "count"), ("partition", "min"), ("offset", "min")]
    )
    single = copies.filter(pc.equal(copies["offset_count"], 1)).drop_columns("offset_count")
    place = ["timestamp_ms", "partition", "offset"]
    in_time = outputs.select(["input", *place]).sort_by([(name, "ascending") for name in place])
    first = in_time.group_by("input", use_threads=False).aggregate(
        [("partition", "first"), ("offset", "first")]
    )
    rows = single.join(first, "value", "input", join_type="inner").rename_columns(
        ["value", "partition", "offset", "out", "at"]
    )
    if not len(rows):
        return OVERTAKEN.empty_table()
    rows = rows.sort_by([(name, "ascending") for name in ("partition", "out", "at")])
    series = np.stack([rows["partition"].to_numpy(), rows["out"].to_numpy()])
    starts = np.flatnonzero(np.any(np.diff(series, prepend=-1), axis=0))
    offsets = rows["offset"].to_numpy()
    parts = np.split(offsets, starts[1:])
    leaders = np.concatenate(
        [start + _highest(part) for start, part in zip(starts, parts, strict=True)]
    )
    late = np.flatnonzero(offsets < offsets[leaders])
    before = rows.take(leaders[late])
    columns = [*rows.take(late).columns, before["value"], before["at"]]
    table = pa.table(dict(zip(OVERTAKEN.names, columns, strict=True))).cast(OVERTAKEN)
    return table.sort_by([("out", "ascending"), ("at", "ascending")])


def _highest(offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return, for each index, the index of the highest offset up to it."""
    rises = offsets == np.maximum.accumulate(offsets)
    return np.maximum.accumulate(np.where(rises, np.arange(len(offsets)), 0))


def _positions(partition: pa.ChunkedArray, positions: Mapping[int, int | None]) -> pa.Array:
    """Return the committed offset in each row's partition; -1 without a committed offset."""
    partitions = pa.array(positions.keys(), pa.int32())
    offsets = pa.array([-1 if offset is None else offset for offset in positions.values()])
    places = pc.index_in(partition, value_set=partitions)
    return pc.fill_null(pc.take(offsets.cast(pa.int64()), places), -1)

"""Classify every input of a program: processed once, lost, half, doubled, or not reached.

An input is a record that the final read has returned, and each has the same number of outputs. It
is *lost* if the group's committed position has passed it and no output names it: after its next
start the program would go on behind it. With some of its outputs it is *half* processed. It is
*doubled* if more outputs name it than its copies in the input have. With too few, and at or behind
the position, it is *unreached*: nothing is known of it. An *exempt* input needs no output.

Outputs are those that a reader of committed records was given. One whose transaction was aborted is
not among them; where brokers return it nevertheless, it is an output like any other, and doubles
its input when that is processed again.
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
"""Columns of an input: where it is, and its name."""

OUTCOME: Final = pa.schema(
    [
        *INPUT,  # offset: of its last copy
        ("copies", pa.int64()),  # of it in the input
        ("outputs", pa.int64()),  # that name it
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
        ("later_at", pa.int64()),  # offset of its first output
    ]
)
"""Columns of an input that a later one has overtaken in the output."""


def input_outcomes(
    inputs: pa.Table,
    outputs: pa.Table,
    positions: Mapping[int, int | None],
    *,
    complete: bool,
    needed: int = 1,
    exempt: Collection[str] = (),
) -> pa.Table:
    """Return the outcome of every input in ``OUTCOME``, in order of partition and offset.

    Args:
        inputs: in columns of ``INPUT``; a row for each copy.
        outputs: with a column ``input``, the name of an input or null; a row for each output.
        positions: the group's committed offset of each partition in the end; None if it has none.
        complete: whether these are all outputs; otherwise no input counts as lost, or as half.
        needed: outputs of each input.
        exempt: names of inputs that need none.
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
    """Return the inputs whose first output stands behind that of a later input, with that one.

    Only inputs of one partition whose first outputs are in one partition are compared. The first
    output is the one that was written first: what is processed again after a crash is in no order.
    If outputs have no keys, that may put a first output behind a later input's, as readers see it.
    An input that is there several times is left out.

    Args:
        inputs: in columns of ``INPUT``, without those that need no output.
        outputs: with columns ``input``, ``partition``, ``offset`` and ``timestamp_ms``.

    Returns:
        In columns of ``OVERTAKEN``, in order of the outputs.
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
    """Return for each place where the highest offset up to there is."""
    rises = offsets == np.maximum.accumulate(offsets)
    return np.maximum.accumulate(np.where(rises, np.arange(len(offsets)), 0))


def _positions(partition: pa.ChunkedArray, positions: Mapping[int, int | None]) -> pa.Array:
    """Return the committed offset of the partition of each row; -1 where there is none."""
    partitions = pa.array(positions.keys(), pa.int32())
    offsets = pa.array([-1 if offset is None else offset for offset in positions.values()])
    places = pc.index_in(partition, value_set=partitions)
    return pc.fill_null(pc.take(offsets.cast(pa.int64()), places), -1)

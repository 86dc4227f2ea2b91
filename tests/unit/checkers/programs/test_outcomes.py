"""What is told of outputs that are out of order, or of no input.

Which outcome an input has, and which are overtaken, is held by tests/property.
"""

import pyarrow as pa

from highwater.checkers.programs.outcomes import INPUT, overtaken, strange_outputs


def inputs(*names: str) -> pa.Table:
    rows = [{"partition": 0, "offset": offset, "value": name} for offset, name in enumerate(names)]
    return pa.Table.from_pylist(rows, schema=INPUT)


def test_an_overtaken_input_is_told_with_the_one_that_overtook_it() -> None:
    written = [("p0-0", 1), ("p0-3", 1), ("p0-1", 2), ("p0-2", 3)]
    outputs = pa.table(
        {
            "input": [name for name, _ in written],
            "partition": pa.array([0] * 4, pa.int32()),
            "timestamp_ms": pa.array([time_ms for _, time_ms in written], pa.int64()),
            "offset": pa.array(range(4), pa.int64()),
        }
    )
    found = overtaken(inputs("p0-0", "p0-1", "p0-2", "p0-3"), outputs).to_pylist()
    assert [(row["value"], row["later"]) for row in found] == [("p0-1", "p0-3"), ("p0-2", "p0-3")]


def test_an_output_of_an_input_that_was_never_sent_is_strange() -> None:
    names = pa.table({"value": ["p0-0", "p0-1"]})
    outputs = pa.table({"input": pa.array(["p0-0", "p0-7", None, "p0-1"], pa.string())})
    assert strange_outputs(names, outputs)["input"].to_pylist() == ["p0-7"]

"""Every input of a program is one of six things, and its first output has a place in the order."""

from collections.abc import Sequence

import pyarrow as pa
import pytest

from highwater.checkers.programs.outcomes import (
    DOUBLED,
    EXEMPT,
    HALF,
    INPUT,
    LOST,
    ONCE,
    UNREACHED,
    input_outcomes,
    overtaken,
    strange_outputs,
)


def inputs(*names: str, partition: int = 0) -> pa.Table:
    rows = [
        {"partition": partition, "offset": offset, "value": name}
        for offset, name in enumerate(names)
    ]
    return pa.Table.from_pylist(rows, schema=INPUT)


def outputs(*names: str | None) -> pa.Table:
    return pa.table({"input": pa.array(names, pa.string())})


def judged(
    names: Sequence[str],
    written: Sequence[str | None],
    position: int | None,
    *,
    complete: bool = True,
    needed: int = 1,
    exempt: Sequence[str] = (),
) -> dict[str, str]:
    table = input_outcomes(
        inputs(*names),
        outputs(*written),
        {0: position},
        complete=complete,
        needed=needed,
        exempt=exempt,
    )
    return dict(zip(table["value"].to_pylist(), table["outcome"].to_pylist(), strict=True))


@pytest.mark.parametrize(
    ("written", "position", "outcome"),
    [
        (["p0-0"], 1, ONCE),
        (["p0-0"], 0, ONCE),
        (["p0-0"], None, ONCE),
        ([], 1, LOST),
        (["p0-9"], 1, LOST),
        ([None], 1, LOST),
        ([], 0, UNREACHED),
        ([], None, UNREACHED),
        (["p0-0", "p0-0"], 1, DOUBLED),
        (["p0-0", "p0-0"], 0, DOUBLED),
    ],
)
def test_an_input_is_one_of_four(written: list[str | None], position: int, outcome: str) -> None:
    assert judged(["p0-0"], written, position) == {"p0-0": outcome}


def test_nothing_is_lost_while_outputs_are_unread() -> None:
    assert judged(["p0-0"], [], 1, complete=False) == {"p0-0": UNREACHED}


@pytest.mark.parametrize(
    ("written", "position", "outcome"),
    [(0, 1, LOST), (1, 1, HALF), (1, 0, UNREACHED), (2, 1, ONCE), (2, 0, ONCE), (3, 1, DOUBLED)],
)
def test_an_input_may_need_several_outputs(written: int, position: int, outcome: str) -> None:
    assert judged(["p0-0"], ["p0-0"] * written, position, needed=2) == {"p0-0": outcome}


def test_no_input_is_half_while_outputs_are_unread() -> None:
    assert judged(["p0-0"], ["p0-0"], 1, needed=2, complete=False) == {"p0-0": UNREACHED}


@pytest.mark.parametrize("written", range(3))
def test_an_exempt_input_has_as_many_outputs_as_it_likes(written: int) -> None:
    assert judged(["p0-0"], ["p0-0"] * written, 1, exempt=["p0-0"]) == {"p0-0": EXEMPT}


def order(*written: tuple[str, int, int]) -> list[tuple[str, str]]:
    """Which of the inputs p0-0 to p0-3 were overtaken, and by which.

    Args:
        written: outputs in order: the input, the partition of the output, and its time.
    """
    columns = ["input", "partition", "timestamp_ms"]
    rows = [
        dict(zip(columns, row, strict=True)) | {"offset": offset}
        for offset, row in enumerate(written)
    ]
    schema = pa.schema(
        [
            ("input", pa.string()),
            ("partition", pa.int32()),
            ("timestamp_ms", pa.int64()),
            ("offset", pa.int64()),
        ]
    )
    table = pa.Table.from_pylist(rows, schema=schema)
    of_both = pa.concat_tables(
        [inputs(*(f"p0-{n}" for n in range(4))), inputs("p1-0", partition=1)]
    )
    return [(row["value"], row["later"]) for row in overtaken(of_both, table).to_pylist()]


def test_first_outputs_are_in_the_order_of_their_inputs() -> None:
    assert order() == []
    assert order(("p0-0", 0, 1), ("p0-1", 0, 1), ("p0-3", 0, 2)) == []
    assert order(("p0-0", 0, 1), ("p0-3", 0, 1), ("p0-1", 0, 2), ("p0-2", 0, 3)) == [
        ("p0-1", "p0-3"),
        ("p0-2", "p0-3"),
    ]


def test_what_was_processed_again_is_in_no_order() -> None:
    assert order(("p0-0", 0, 1), ("p0-1", 0, 1), ("p0-0", 0, 5), ("p0-1", 0, 5)) == []
    # p0-1 was in partition 1 at first
    assert order(("p0-1", 1, 1), ("p0-2", 0, 2), ("p0-1", 0, 9)) == []


def test_partitions_are_in_no_order() -> None:
    assert order(("p0-3", 0, 1), ("p0-1", 1, 2), ("p1-0", 0, 3)) == []


def test_an_input_that_stands_twice_has_no_place_in_the_order() -> None:
    twice = inputs("p0-0", "p0-1", "p0-0")
    rows = {"input": ["p0-1", "p0-0"], "partition": [0, 0], "offset": [0, 1]}
    table = pa.table(rows | {"timestamp_ms": pa.array([1, 1], pa.int64())})
    assert overtaken(twice, table).num_rows == 0


def test_a_record_that_stands_twice_may_have_two_outputs() -> None:
    assert judged(["p0-0", "p0-0"], ["p0-0", "p0-0"], 2) == {"p0-0": ONCE}
    assert judged(["p0-0", "p0-0"], ["p0-0"] * 3, 2) == {"p0-0": DOUBLED}


def test_the_position_of_one_partition_says_nothing_of_another() -> None:
    both = pa.concat_tables([inputs("p0-0"), inputs("p0-1", partition=1)])
    table = input_outcomes(both, outputs(), {0: 1, 1: 0}, complete=True)
    assert table["outcome"].to_pylist() == [LOST, UNREACHED]


def test_an_output_of_an_input_that_was_never_sent_is_strange() -> None:
    names = pa.table({"value": ["p0-0", "p0-1"]})
    strange = strange_outputs(names, outputs("p0-0", "p0-7", None, "p0-1"))
    assert strange["input"].to_pylist() == ["p0-7"]


def test_no_input_has_no_outcome() -> None:
    assert judged([], [], None) == {}

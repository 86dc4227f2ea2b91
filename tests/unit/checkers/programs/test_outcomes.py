"""Every input of a program is one of four things."""

from collections.abc import Sequence

import pyarrow as pa
import pytest

from highwater.checkers.programs.outcomes import (
    DOUBLED,
    INPUT,
    LOST,
    ONCE,
    UNREACHED,
    input_outcomes,
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
) -> dict[str, str]:
    table = input_outcomes(inputs(*names), outputs(*written), {0: position}, complete=complete)
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

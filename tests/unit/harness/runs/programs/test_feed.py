"""A file of the user's own records is fed whole and in order, or refused with its line."""

from pathlib import Path

import pytest

from highwater.harness.base.errors import UsageError
from highwater.harness.runs.plan import RECORD_NAME, WHOLE_RECORD, ProgramPlan
from highwater.harness.runs.programs.expressions import expression
from highwater.harness.runs.programs.feed import read_feed

ORDERS = b'{"id": 7, "note": "a|b"}\n\n {"id": 8}\r\n{"id": "x"}'


def written(path: Path, text: bytes) -> str:
    (path / "orders.jsonl").write_bytes(text)
    return str(path / "orders.jsonl")


@pytest.mark.parametrize(
    ("match", "names"),
    [
        ("$.id", ["7", "8", "x"]),
        ('"id": "?([^,"}]*)', ["7", "8", "x"]),
        (WHOLE_RECORD, ['{"id": 7, "note": "a|b"}', '{"id": 8}', '{"id": "x"}']),
        ("key", ['{"id": 7, "note": "a|b"}', '{"id": 8}', '{"id": "x"}']),
    ],
)
def test_records_are_whole_lines_in_order(tmp_path: Path, match: str, names: list[str]) -> None:
    feed = read_feed(written(tmp_path, b"\xef\xbb\xbf" + ORDERS), expression(match))
    assert [*feed] == names
    assert [*feed.values()] == [b'{"id": 7, "note": "a|b"}', b'{"id": 8}', b'{"id": "x"}']


def test_what_names_a_record_of_the_users() -> None:
    own = ProgramPlan(command=("x",), feed="orders.jsonl")
    assert own.match == WHOLE_RECORD
    assert ProgramPlan(command=("x",), feed="orders.jsonl", match="$.id").match == "$.id"
    assert ProgramPlan(command=("x",)).match == RECORD_NAME


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "has no records"),
        (b"\n \n", "has no records"),
        (b'{"id": 1}\n{"no": 2}', 'line 2 of .* has no name: {"no": 2}'),
        (b'{"id": 1}\n\n{"id": 1, "again": 1}', "lines 1 and 3 of .* same name: '1'"),
        (b'{"id": 1}\n[3]', r"line 2 of .* is not a JSON object: \[3\]"),
        (b"\x1f\x8b\x08\x00\xff", r"line 1 of .* is not a JSON object: .*\\xff"),
        (b'{"id": "' + b"x" * 900_000 + b'"}', "bytes of key and value, line 1 of"),
    ],
)
def test_what_cannot_be_fed_is_refused(tmp_path: Path, text: bytes, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        read_feed(written(tmp_path, text), expression("$.id"))


def test_several_names_are_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"line 1 of .* has 2 names instead of one"):
        read_feed(written(tmp_path, b'{"a": 1, "b": 2}'), expression("$.*"))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.jsonl"):
        with pytest.raises(UsageError, match=f"{path} cannot be read"):
            read_feed(str(path), expression("$.id"))

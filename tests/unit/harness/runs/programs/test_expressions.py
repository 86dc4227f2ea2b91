"""Every form of an expression finds the names in a record, and no others."""

from pathlib import Path

import pytest

from highwater.harness.base.errors import UsageError
from highwater.harness.runs.plan import RECORD_NAME
from highwater.harness.runs.programs.expressions import ProgramRecord, expression

ORDER = b'{"order": {"id": 17, "lines": [{"sku": "a"}, {"sku": "b"}, {"sku": "a"}]}, "no": null}'


@pytest.mark.parametrize(
    ("value", "match", "name"),
    [
        (b"p0-17|......", RECORD_NAME, "p0-17"),
        (b'{"id": "p0-17", "sum": 3}', RECORD_NAME, "p0-17"),
        (b"p0-17", "id=(.*)", None),
        (b"id=p0-17;", "id=([^;]*)", "p0-17"),
        (b"id=;", "id=([^;]*)", None),
        (b"id", "id(x)?", None),
        (b"xp0-17", RECORD_NAME, None),
        (b"fence-0-1", RECORD_NAME, None),
        (b"\xff p0-1", RECORD_NAME, "p0-1"),
        (None, RECORD_NAME, None),
        (ORDER, "$.order.id", "17"),
        (ORDER, "$.order.missing", None),
        (ORDER, "$.no", None),
        (ORDER, "$.order.lines[0]", '{"sku":"a"}'),
        (b"no JSON", "$.order.id", None),
        (b"\xff", "$.order.id", None),
        (b"", "$", None),
        (None, "$", None),
        (b'"caf\xc3\xa9"', "$", "café"),
    ],
)
def test_which_name_a_value_has(value: bytes | None, match: str, name: str | None) -> None:
    assert expression(match)(ProgramRecord(value)) == ((name,) if name else ())


def test_a_path_may_find_several_each_once() -> None:
    assert expression("$..sku")(ProgramRecord(ORDER)) == ("a", "b")


def test_keys_and_headers() -> None:
    record = ProgramRecord(None, b"k1", {"id": b"h1", "none": None})
    assert expression("key")(record) == ("k1",)
    assert expression("key")(ProgramRecord(b"k1")) == ()
    assert expression("header:id")(record) == ("h1",)
    assert expression("header:none")(record) == ()
    assert expression("header:other")(record) == ()


def test_a_function_of_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "naming_for_a_test.py").write_text(
        "def ids(record):\n"
        "    found = (record.value or b'').decode().split()\n"
        "    return {0: None, 1: ''.join(found)}.get(len(found), found)\n"
        "def fails(record):\n    return record.value.key\n"
    )
    monkeypatch.chdir(tmp_path)
    ids = expression("naming_for_a_test:ids")
    assert ids(ProgramRecord(None)) == ()
    assert ids(ProgramRecord(b"one")) == ("one",)
    assert ids(ProgramRecord(b"one two one")) == ("one", "two")
    with pytest.raises(UsageError, match="failed for the record 'one'") as failed:
        expression("naming_for_a_test:fails")(ProgramRecord(b"one"))
    assert "AttributeError" in failed.value.message


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("(", "is not a regular expression"),
        ("$.", "is not a JSONPath"),
        ("$[", "is not a JSONPath"),
        ("no_such_module:ids", "cannot be imported"),
        ("json:no_such_function", "cannot be imported"),
    ],
)
def test_what_is_no_expression_is_refused(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as refused:
        expression(text)
    assert "$.order_id" in refused.value.hint

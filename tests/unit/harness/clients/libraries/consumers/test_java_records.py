"""Records as Java prints them, release by release; what is printed otherwise is an error."""

import pytest

from highwater.harness.base.errors import HarnessError
from highwater.harness.clients.libraries.consumers.java_records import parse

VALUE = "p0-17|x, value = ), ConsumerRecord(topic = events, \xff\n]"
SIZES = f"serialized key size = -1, serialized value size = {len(VALUE)}, "
OF_RELEASES = {
    "0.10.2.2": f"offset = 7, CreateTime = 1700, checksum = 1953, {SIZES}",
    "0.11.0.3": f"offset = 7, CreateTime = 1700, {SIZES}"
    "headers = RecordHeaders(headers = [], isReadOnly = false), ",
    "2.4.1": f"leaderEpoch = 3, offset = 7, CreateTime = 1700, {SIZES}"
    "headers = RecordHeaders(headers = [], isReadOnly = false), ",
    "4.4.0": f"leaderEpoch = 3, offset = 7, CreateTime = 1700, deliveryCount = null, {SIZES}"
    "headers = RecordHeaders(headers = [], isReadOnly = false), ",
}


def printed(middle: str, value: str = VALUE, *, key: str = "null") -> str:
    return f"ConsumerRecord(topic = events, partition = 2, {middle}key = {key}, value = {value})"


@pytest.mark.parametrize("release", OF_RELEASES)
def test_a_record_is_read_whatever_its_value_has(release: str) -> None:
    text = printed(OF_RELEASES[release])
    records = parse(f"[{text}, {text}]")
    assert len(records) == 2
    for record in records:
        assert (record.partition(), record.offset(), record.error()) == (2, 7, None)
        assert record.value() == VALUE.encode("latin-1")
        assert record.key() is None
        assert record.timestamp() == (1, 1700)
        assert record.leader_epoch() == (3 if "leaderEpoch" in text else None)


def test_a_record_of_the_first_release_ends_where_the_next_begins() -> None:
    text = printed("offset = 7, ", "p0-17|xx)x")
    assert [record.value() for record in parse(f"[{text}, {text}]")] == [b"p0-17|xx)x"] * 2
    assert parse(f"[{text}]")[0].timestamp() == (0, 0)


def test_a_tombstone_has_a_key_and_no_value() -> None:
    sizes = "serialized key size = 2, serialized value size = -1, "
    text = printed(f"offset = 7, NoTimestampType = -1, {sizes}", "null", key="k5")
    [record] = parse(f"[{text}]")
    assert (record.key(), record.value(), record.timestamp()) == (b"k5", None, (0, -1))


@pytest.mark.parametrize(("count", "deliveries"), [("null", None), ("1", 1), ("12", 12)])
def test_a_record_of_a_share_group_tells_how_often_it_was_given(
    count: str, deliveries: int | None
) -> None:
    middle = OF_RELEASES["4.4.0"].replace("deliveryCount = null", f"deliveryCount = {count}")
    [record] = parse(f"[{printed(middle)}]")
    assert record.delivery_count() == deliveries


def test_nothing_is_no_record() -> None:
    assert parse("[]") == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[",
        "ConsumerRecord()",
        f"[{printed(OF_RELEASES['4.4.0'])}",
        f"[{printed(OF_RELEASES['4.4.0'])}] ",
        f"[{printed(OF_RELEASES['4.4.0'])};{printed(OF_RELEASES['4.4.0'])}]",
        f"[{printed(OF_RELEASES['4.4.0'], VALUE + 'x')}]",
        f"[{printed('offset = 7, colour = blue, ' + SIZES)}]",
        f"[{printed(OF_RELEASES['4.4.0'].replace('CreateTime', 'SomeTime'))}]",
        f"[{printed(OF_RELEASES['4.4.0'].replace('headers = []', 'headers = [x]'))}]",
    ],
)
def test_what_is_not_known_is_an_error(text: str) -> None:
    with pytest.raises(HarnessError, match="in an unknown form"):
        parse(text)

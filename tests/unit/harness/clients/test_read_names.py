"""How a record of another's topic is named: the same by every reader, and without its contents."""

from typing import TYPE_CHECKING, cast

import pytest

from highwater.harness.clients.read_names import by_hashes, names_for
from highwater.harness.runs.plan import Plan

if TYPE_CHECKING:
    from highwater.harness.clients.libraries.interfaces import ReadRecord

SECRET = b"s"
PLAN = Plan(kafka="4.4.0", read_only="orders")


class Record:
    """A record as librdkafka returns it."""

    def __init__(self, **fields: object) -> None:
        usual: dict[str, object] = {
            "partition": 0,
            "offset": 7,
            "timestamp": (1, 1_790_000_000_123),
        }
        usual |= {"key": b"k", "value": b"v", "headers": [("trace", b"1")], **fields}
        for name, value in usual.items():
            setattr(self, name, lambda value=value: value)


def name(secret: bytes = SECRET, **fields: object) -> str:
    [named] = by_hashes([cast("ReadRecord", Record(**fields))], secret=secret).to_pylist()
    return str(named)


def test_equal_records_have_the_same_name_with_their_time() -> None:
    assert name() == name()
    assert name().startswith("2026-09-21T14:13:20.123Z-")


@pytest.mark.parametrize(
    "change",
    [
        {"partition": 1},
        {"offset": 8},
        {"timestamp": (1, 1_790_000_000_124)},
        {"timestamp": (2, 1_790_000_000_123)},
        {"key": None},
        {"key": b""},
        {"key": b"kv", "value": b""},
        {"value": None},
        {"value": b"w"},
        {"headers": None},
        {"headers": [("trace", b"2")]},
        {"headers": [("trace", None)]},
        {"headers": [("trac", b"e1")]},
        {"secret": b"t"},
    ],
)
def test_whatever_differs_makes_another_name(change: dict[str, object]) -> None:
    assert name(**change) != name()  # type: ignore[arg-type]


@pytest.mark.parametrize("time_ms", [-1, 0, (1 << 63) - 1])
def test_a_producer_may_send_any_timestamp(time_ms: int) -> None:
    assert name(timestamp=(1, time_ms))


def test_two_runs_name_a_record_differently() -> None:
    """So contents that are easily guessed cannot be found by hashing guesses."""
    record = [cast("ReadRecord", Record())]
    names = [names_for(PLAN) for _ in range(2)]
    assert names[0](record) == names[0](record)
    assert names[0](record) != names[1](record)

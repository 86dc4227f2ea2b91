"""Generations of a group are read as a coordinator writes them."""

import struct
from pathlib import Path

import pytest

from highwater.checkers.groups.generations import Generation, generations_on_disk
from tests.support.logdirs import batch
from tests.unit.checkers.programs.test_inputs import START_MS, commit, written


def text(word: str | None) -> bytes:
    return struct.pack(">h", -1) if word is None else struct.pack(">h", len(word)) + word.encode()


def assignment(topic: str, *partitions: int) -> bytes:
    numbers = struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
    data = struct.pack(">hi", 1, 1) + text(topic) + numbers + struct.pack(">i", -1)
    return struct.pack(">i", len(data)) + data


def generation(
    base: int,
    number: int,
    members: dict[str, bytes],
    *,
    version: int = 3,
    group: str = "orders-group",
) -> bytes:
    """The record of a generation, of GroupMetadataValue in a version up to 3."""
    value = struct.pack(">h", version) + text("consumer") + struct.pack(">i", number)
    value += text("range") + text(next(iter(members), None))
    value += struct.pack(">q", 1) if version > 1 else b""
    value += struct.pack(">i", len(members))
    for member, assigned in members.items():
        value += text(member) + (text(None) if version > 2 else b"") + text("rdkafka") + text("/1")
        value += struct.pack(">ii", 300_000, 6_000) if version else struct.pack(">i", 6_000)
        value += struct.pack(">i", 2) + b"xy" + assigned
    key = struct.pack(">h", 2) + text(group)
    return batch(base, [(key, value)], time_ms=START_MS + 100 * base)


@pytest.mark.parametrize("version", range(4))
def test_members_and_their_partitions(tmp_path: Path, version: int) -> None:
    members = {"a": assignment("orders", 0, 2), "b": assignment("orders", 1)}
    log = (
        generation(0, 1, members, version=version)
        + commit(1, 10, 5)
        + generation(2, 2, {}, version=version)
    )
    case = written(tmp_path, commits=log)
    first, second = generations_on_disk(case, "orders-group")
    partitions = {"a": frozenset([0, 2]), "b": frozenset([1])}
    assert first == Generation(START_MS, 1, partitions)
    assert [first.owner(partition) for partition in range(4)] == ["a", "b", "a", None]
    assert second == Generation(START_MS + 200, 2, {})


def test_what_is_of_others_or_makes_no_sense_is_left_out(tmp_path: Path) -> None:
    other = {"a": assignment("payments", 0)}
    log = (
        generation(0, 1, other, group="another")
        + generation(1, 2, other, version=4)
        + generation(2, 3, {"a": struct.pack(">i", 90)})
        + generation(3, 4, other)
        + generation(4, 5, {"a": struct.pack(">i", 0)})
    )
    case = written(tmp_path, commits=log)
    generations = generations_on_disk(case, "orders-group")
    assert [of.number for of in generations] == [4, 5]
    assert [of.members for of in generations] == [{"a": frozenset()}] * 2


def test_without_a_disk_there_are_none(tmp_path: Path) -> None:
    assert generations_on_disk(written(tmp_path, commits=None), "orders-group") == []

"""A member of KIP-848 in the log of a classic group: no coordinator can load it."""

import struct
from typing import Any

import pytest

from highwater.checkers.coordinators.groups import CLASSIC, MEMBER, wrong_groups

OFFSET = 1


def log(*records: tuple[int, str, bool]) -> list[dict[str, Any]]:
    """Return rows of ``__consumer_offsets``: key version, group, and whether there is a value."""
    return [
        {
            "offset": at,
            "key": struct.pack(">hh", version, len(group)) + group.encode(),
            "value": b"v" if there else None,
        }
        for at, (version, group, there) in enumerate(records)
    ]


@pytest.mark.parametrize(
    ("rows", "groups"),
    [
        pytest.param(log((CLASSIC, "g", True), (MEMBER, "g", True)), ["g"], id="member"),
        pytest.param(
            log((CLASSIC, "g", True), (CLASSIC, "g", False), (MEMBER, "g", True)), [], id="upgraded"
        ),
        pytest.param(
            log((MEMBER, "g", True), (CLASSIC, "g", True), (MEMBER, "g", False)), [], id="downgrade"
        ),
        pytest.param(log((CLASSIC, "g", True), (MEMBER, "h", True)), [], id="other"),
        pytest.param(log((OFFSET, "g", True), (MEMBER, "g", True)), [], id="simple"),
        pytest.param(
            log((CLASSIC, "g", True), (MEMBER, "g", True), (MEMBER, "g", True)), ["g"], id="once"
        ),
        pytest.param([{"offset": 0, "key": b"\0", "value": b"v"}], [], id="cut"),
        pytest.param([{"offset": 0, "key": None, "value": b"v"}], [], id="marker"),
    ],
)
def test_a_log_that_no_coordinator_can_load(rows: list[dict[str, Any]], groups: list[str]) -> None:
    assert [finding.group for finding in wrong_groups(rows)] == groups

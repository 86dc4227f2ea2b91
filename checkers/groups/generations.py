"""The generations of a group with its members' assignments, from ``__consumer_offsets``.

The records are ``GroupMetadataValue``, versions 0 to 3, of the classic protocol. A static member
that rejoins with its ``group.instance.id`` gets a new member id in the same generation.
"""

import struct
from collections.abc import Mapping
from typing import Final, NamedTuple

from highwater.checkers.coordinator_logs import coordinator_records
from highwater.checkers.groups.offsets_topic import TOPIC
from highwater.checkers.run_files import RunFiles

_KEY_VERSION: Final = 2
_HAS_STATE_TIME, _HAS_INSTANCE = 2, 3
_VERSIONS: Final = range(4)


class Generation(NamedTuple):
    """A generation of a group.

    Attributes:
        timestamp_ms: when the generation began, in ms since 1970.
        members: each member's partitions of the topic under test, by the member's id.
    """

    timestamp_ms: int
    number: int
    members: Mapping[str, frozenset[int]]

    def owner(self, partition: int) -> str | None:
        """Return the member that owns a partition; None if no member owns it."""
        return next((member for member, of in self.members.items() if partition in of), None)


def generations_on_disk(case: RunFiles, group: str) -> list[Generation]:
    """Return a group's generations in order; empty if no disk has the group."""
    generations = []
    for row in coordinator_records(case, TOPIC) or ():
        try:
            if row["key"] and row["value"] and _group(row["key"]) == group:
                number, members = _members(row["value"], case.plan.topic.name)
                generations.append(Generation(row["timestamp_ms"], number, members))
        except (struct.error, UnicodeDecodeError, _UnreadableError):
            continue
    return generations


class _UnreadableError(ValueError):
    """The record has a version that this module does not know."""


class _Fields:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, layout: str) -> int:
        (value,) = struct.unpack_from(f">{layout}", self._data, self._at)
        self._at += struct.calcsize(layout)
        return int(value)

    def data(self, layout: str) -> bytes:
        """Return the next field's bytes.

        The field's size precedes the bytes, in the given layout. For null, return no bytes.
        """
        size = max(0, self.number(layout))
        begin, self._at = self._at, self._at + size
        if self._at > len(self._data):
            raise struct.error("the record ends early")
        return self._data[begin : self._at]

    def text(self) -> str:
        return self.data("h").decode()


def _group(key: bytes) -> str | None:
    fields = _Fields(key)
    return fields.text() if fields.number("h") == _KEY_VERSION else None


def _members(value: bytes, topic: str) -> tuple[int, dict[str, frozenset[int]]]:
    fields = _Fields(value)
    version = fields.number("h")
    if version not in _VERSIONS:
        raise _UnreadableError(version)
    fields.text()  # the type of protocol
    generation = fields.number("i")
    fields.text(), fields.text()  # the protocol and its leader
    if version >= _HAS_STATE_TIME:
        fields.number("q")
    members = {}
    for _ in range(fields.number("i")):
        member = fields.text()
        if version >= _HAS_INSTANCE:
            fields.text()
        fields.text(), fields.text()  # the client's id and host
        fields.number("q" if version else "i")  # the time-outs
        fields.data("i")  # the subscription
        members[member] = _assigned(fields.data("i"), topic)
    return generation, members


def _assigned(data: bytes, topic: str) -> frozenset[int]:
    if not data:
        return frozenset()
    fields = _Fields(data)
    fields.number("h")
    return frozenset(
        number
        for _ in range(fields.number("i"))
        for name in [fields.text()]
        for number in [fields.number("i") for _ in range(fields.number("i"))]
        if name == topic
    )

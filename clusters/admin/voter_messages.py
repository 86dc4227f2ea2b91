"""The two requests that add and remove voters (KIP-853); kafka-python does not have them.

Both requests have version 0, no cluster id, and name a voter by its node id and its directory id.
The answers to both have the same fields.
"""

import io
import struct
from dataclasses import dataclass
from typing import Final, Self
from uuid import UUID

from kafka.protocol.schemas.fields.codecs import String

from highwater.clusters.core.addresses import Address

_NOTHING: Final = b"\0"
"""The byte for a compact string that is null, and for no tagged fields (KIP-482)."""

_ONE_ENTRY: Final = b"\2"
"""The byte for a compact array's length 1; the format adds one to a length."""

_TEXT: Final = String("utf-8")
_VOTER: Final = struct.Struct(">i16s")
_ANSWER: Final = struct.Struct(">i x i h")
"""Correlation id, no tagged fields, throttle time in milliseconds, and error code."""


@dataclass(slots=True, kw_only=True)
class VoterRequest:
    """One of the two requests, with the methods that ``kafka_protocol`` uses on requests."""

    name: str
    key: int
    body: bytes
    header: bytes = b""

    API_VERSION = 0

    @classmethod
    def add(cls, voter: int, directory: UUID, listener: str, at: Address, *, limit_ms: int) -> Self:
        """Return a request to add a voter that listens at ``at``; Kafka answers in ``limit_ms``."""
        place = (
            _TEXT.encode(listener, compact=True)
            + _TEXT.encode(at.host, compact=True)
            + struct.pack(">H", at.port)
            + _NOTHING
        )
        fields = struct.pack(">i", limit_ms) + _VOTER.pack(voter, directory.bytes)
        body = _NOTHING + fields + _ONE_ENTRY + place + _NOTHING
        return cls(name="AddRaftVoterRequest", key=80, body=body)

    @classmethod
    def remove(cls, voter: int, directory: UUID) -> Self:
        """Return a request to remove a voter."""
        body = _NOTHING + _VOTER.pack(voter, directory.bytes) + _NOTHING
        return cls(name="RemoveRaftVoterRequest", key=81, body=body)

    def with_header(self, *, correlation_id: int, client_id: str) -> None:
        """Set the request's header."""
        client = client_id.encode()
        numbers = struct.pack(">hhih", self.key, self.API_VERSION, correlation_id, len(client))
        self.header = numbers + client + _NOTHING

    def encode(self, *, header: bool, framed: bool = False) -> bytes:
        """Return the request's bytes; with ``framed`` their number comes first."""
        frame = (self.header if header else b"") + self.body
        return struct.pack(">i", len(frame)) + frame if framed else frame


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterResponse:
    """The answer to one of the two requests."""

    error_code: int
    error_message: str | None

    @classmethod
    def decode(cls, frame: bytes) -> Self:
        """Decode an answer from a frame without its length."""
        _, _, error_code = _ANSWER.unpack_from(frame)
        message = _TEXT.decode(io.BytesIO(frame[_ANSWER.size :]), compact=True)
        return cls(error_code=error_code, error_message=message)

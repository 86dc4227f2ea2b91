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

from highwater.clusters.admin.flexible_request import NOTHING, FlexibleRequest
from highwater.clusters.core.addresses import Address

_ONE_ENTRY: Final = b"\2"
"""The byte for a compact array's length 1; the format adds one to a length."""

_TEXT: Final = String("utf-8")
_VOTER: Final = struct.Struct(">i16s")
_ANSWER: Final = struct.Struct(">i x i h")
"""Correlation id, no tagged fields, throttle time in milliseconds, and error code."""


@dataclass(slots=True, kw_only=True)
class VoterRequest(FlexibleRequest):
    """One of the two requests."""

    @classmethod
    def add(cls, voter: int, directory: UUID, listener: str, at: Address, *, limit_ms: int) -> Self:
        """Return a request to add a voter that listens at ``at``; Kafka answers in ``limit_ms``."""
        place = (
            _TEXT.encode(listener, compact=True)
            + _TEXT.encode(at.host, compact=True)
            + struct.pack(">H", at.port)
            + NOTHING
        )
        fields = struct.pack(">i", limit_ms) + _VOTER.pack(voter, directory.bytes)
        body = NOTHING + fields + _ONE_ENTRY + place + NOTHING
        return cls(name="AddRaftVoterRequest", key=80, body=body)

    @classmethod
    def remove(cls, voter: int, directory: UUID) -> Self:
        """Return a request to remove a voter."""
        body = NOTHING + _VOTER.pack(voter, directory.bytes) + NOTHING
        return cls(name="RemoveRaftVoterRequest", key=81, body=body)

    def answer(self, frame: bytes) -> "VoterResponse":
        """Decode the answer from a frame without its length."""
        return VoterResponse.decode(frame)


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

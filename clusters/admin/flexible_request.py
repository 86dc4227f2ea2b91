"""Requests that kafka-python does not have, of version 0, in the flexible format (KIP-482)."""

import struct
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

NOTHING = b"\0"
"""The byte for a compact string that is null, and for no tagged fields."""


@dataclass(slots=True, kw_only=True)
class FlexibleRequest(ABC):
    """A request, with the methods that ``kafka_protocol`` uses on requests."""

    name: str
    key: int
    body: bytes
    header: bytes = b""

    API_VERSION = 0

    def with_header(self, *, correlation_id: int, client_id: str) -> None:
        """Set the request's header."""
        client = client_id.encode()
        numbers = struct.pack(">hhih", self.key, self.API_VERSION, correlation_id, len(client))
        self.header = numbers + client + NOTHING

    def encode(self, *, header: bool, framed: bool = False) -> bytes:
        """Return the request's bytes; with ``framed`` their number comes first."""
        frame = (self.header if header else b"") + self.body
        return struct.pack(">i", len(frame)) + frame if framed else frame

    @abstractmethod
    def answer(self, frame: bytes) -> Any:  # noqa: ANN401 - as of kafka-python's requests
        """Decode the answer from a frame without its length."""

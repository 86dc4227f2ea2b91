"""Kafka requests of version 0 in the flexible format (KIP-482) that kafka-python does not have."""

import struct
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

NOTHING = b"\0"
"""The byte for a null compact string, and for an empty list of tagged fields."""


@dataclass(slots=True, kw_only=True)
class FlexibleRequest(ABC):
    """A request with the methods that ``kafka_protocol`` calls."""

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
        """Return the request's bytes. With ``framed``, they begin with their length."""
        frame = (self.header if header else b"") + self.body
        return struct.pack(">i", len(frame)) + frame if framed else frame

    @abstractmethod
    def answer(self, frame: bytes) -> Any:  # noqa: ANN401 - as of kafka-python's requests
        """Decode the response from a frame without its length."""

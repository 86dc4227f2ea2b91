"""A wire with a server behind it that a test plays itself, frame by frame."""

import contextlib
import socket
import struct
from typing import Any, Final

from highwater.clusters.relay.client import Relay
from highwater.clusters.relay.rules import Route

SOON_S: Final = 60.0
SILENCE_S: Final = 0.1


def read_frame(end: socket.socket) -> bytes:
    """Return the next frame, and read nothing behind it."""
    size = _read(end, 4)
    return size + _read(end, struct.unpack(">i", size)[0])


def _read(end: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        chunk = end.recv(size - len(data))
        if not chunk:
            raise EOFError
        data += chunk
    return data


def is_silent(end: socket.socket) -> bool:
    """Return whether nothing comes for a while."""
    end.settimeout(SILENCE_S)
    try:
        return not end.recv(1)
    except TimeoutError:
        return True
    finally:
        end.settimeout(SOON_S)


class Wire:
    """One route and the listener behind it; all ends are closed with it.

    Args:
        route: of the wire's ``Route``; the server is broker 1 unless it says so.
    """

    def __init__(self, **route: Any) -> None:  # noqa: ANN401 - of a Route
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(SOON_S)
        upstream = self.listener.getsockname()
        listen = ("127.0.0.1", 0)
        self.relay = Relay([Route(listen=listen, upstream=upstream, **{"server": 1, **route})])
        self._ends = contextlib.ExitStack()

    def connect(self) -> socket.socket:
        """Return the end of a client."""
        [address] = self.relay.addresses
        end = socket.create_connection(address, SOON_S)
        return self._ends.enter_context(end)

    def accept(self, first: bytes = b"") -> socket.socket:
        """Return the server's end of the next connection, which has read these first bytes."""
        end, _ = self.listener.accept()
        end.settimeout(SOON_S)
        assert end.recv(len(first), socket.MSG_WAITALL) == first
        return self._ends.enter_context(end)

    def close(self) -> None:
        self._ends.close()
        self.relay.close()
        self.listener.close()

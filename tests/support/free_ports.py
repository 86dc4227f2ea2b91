"""Ports that nobody listens on now."""

import contextlib
import socket


def free_ports(count: int) -> list[int]:
    """Return so many different ports of 127.0.0.1."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for listener in sockets:
            listener.bind(("127.0.0.1", 0))
        return [listener.getsockname()[1] for listener in sockets]

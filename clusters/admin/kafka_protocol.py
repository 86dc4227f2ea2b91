"""A small synchronous client of Kafka's protocol, for requests that ordinary clients cannot send.

kafka-python's protocol classes encode and decode every version of every message. This module adds a
socket with short timeouts, pipelined requests, and a pause after a timeout.
"""

import contextlib
import socket
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kafka.protocol.api_header import ResponseClassRegistry

from highwater.clusters.admin.flexible_request import FlexibleRequest
from highwater.clusters.core.addresses import Address
from highwater.clusters.core.interfaces import NotQueriedError, UnreachableError

Request = Any  # kafka-python creates these classes at run time, from Kafka's own schemas
Response = Any

_SIZE = struct.Struct(">i")
_CLIENT = "highwater-probe"
_ANSWER_BYTES_MAX = 100 << 20
"""Kafka's limit for the size of a request (``socket.request.max.bytes``). Responses are smaller."""


class BrokerConnection:
    """One socket to one broker.

    Args:
        address: address of the broker.
        timeout_s: limit for the connection and for each response.

    Raises:
        UnreachableError: the broker does not listen, or does not accept the connection in time.
    """

    def __init__(self, address: Address, *, timeout_s: float) -> None:
        self._address = address
        self._correlation = 0
        try:
            self._socket = address.dial((address.host, address.port), timeout_s)
        except OSError as error:
            raise UnreachableError(f"{address} does not respond: {error}") from error
        with contextlib.suppress(OSError):  # macOS: the connection was reset; a request fails
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, *requests: Request) -> list[Response]:
        """Send requests in a pipeline, then read their responses in the same order.

        Raises:
            UnreachableError: the connection broke or a response took too long. Do not use the
                connection again.
        """
        self.send(*requests)
        return self.receive(*requests)

    def send(self, *requests: Request) -> None:
        """Send requests without reading their responses.

        Raises:
            UnreachableError: the connection broke. Do not use the connection again.
        """
        frames = []
        for request in requests:
            self._correlation += 1
            request.with_header(correlation_id=self._correlation, client_id=_CLIENT)
            frames.append(request.encode(header=True, framed=True))
        try:
            self._socket.sendall(b"".join(frames))
        except OSError as error:
            raise UnreachableError(f"{self._address} closed the connection: {error}") from error

    def receive(self, *requests: Request) -> list[Response]:
        """Read the responses to requests that were sent, in the order of the requests.

        Raises:
            UnreachableError: the connection broke, a response took too long or is not a response of
                Kafka. Do not use the connection again.
        """
        try:
            return [self._answer(request) for request in requests]
        except OSError as error:
            raise UnreachableError(f"{self._address} does not respond: {error}") from error
        except (ValueError, struct.error, IndexError, EOFError) as error:
            raise UnreachableError(
                f"{self._address} does not respond like a Kafka broker: {error}"
            ) from error

    def set_timeout(self, timeout_s: float) -> None:
        """Set the timeout for each later response."""
        self._socket.settimeout(timeout_s)

    def shut_down(self) -> None:
        """End the connection. A thread that waits for a response gets UnreachableError."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _answer(self, request: Request) -> Response:
        (size,) = _SIZE.unpack(self._read(_SIZE.size))
        if not 0 <= size <= _ANSWER_BYTES_MAX:
            raise ValueError(f"a response has an impossible size of {size} bytes")
        if isinstance(request, FlexibleRequest):
            return request.answer(self._read(size))
        response = ResponseClassRegistry.get_response_class(request.header)
        return response.decode(self._read(size), header=True)

    def _read(self, size: int) -> bytes:
        buffer = bytearray(size)
        view = memoryview(buffer)
        while view:
            count = self._socket.recv_into(view)
            if not count:
                raise ConnectionResetError("the broker closed the connection")
            view = view[count:]
        return bytes(buffer)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


class ProtocolClient:
    """Connections to the nodes of a cluster, opened when needed. Not thread-safe.

    If a node does not respond, the client sends it no request for ``AFTER_SILENCE_S`` seconds. So a
    paused broker delays the caller once a second, and not at each request.

    Args:
        addresses: node id to address.
        timeout_s: limit for each step of a request.
        clock: returns the monotonic time in seconds.

    Attributes:
        repeated: whether the last call of ``ask_any`` sent its requests to more than one node.
    """

    repeated = False

    AFTER_SILENCE_S = 1.0
    AFTER_REFUSAL_S = 0.05

    def __init__(
        self,
        addresses: Mapping[int, Address],
        *,
        timeout_s: float = 0.5,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._addresses = addresses
        self.timeout_s = timeout_s
        self._clock = clock
        self._connections: dict[int, BrokerConnection] = {}
        self._not_before: dict[int, float] = {}

    def ask(self, node: int, *requests: Request) -> list[Response]:
        """Send requests to a node. Return the node's responses, in the order of the requests.

        Raises:
            UnreachableError: the node does not respond, or did not respond to a recent request.
        """
        started_at = self._clock()
        if started_at < self._not_before.get(node, started_at):
            raise NotQueriedError(f"{self._addresses[node]} did not respond to an earlier request")
        try:
            return self._connection(node).ask(*requests)
        except UnreachableError:
            self._drop(node)
            silent = self._clock() - started_at >= self.timeout_s
            pause_s = self.AFTER_SILENCE_S if silent else self.AFTER_REFUSAL_S
            self._not_before[node] = self._clock() + pause_s
            raise

    def ask_any(self, nodes: Sequence[int], *requests: Request) -> list[Response]:
        """Send requests to one node after another, until a node responds; return its responses.

        Nodes with an open connection come first. A node that did not respond may have executed the
        requests; ``repeated`` is then true.

        Raises:
            UnreachableError: no node responds.
        """
        self.repeated = False
        for node in sorted(nodes, key=lambda node: node not in self._connections):
            try:
                return self.ask(node, *requests)
            except UnreachableError:
                self.repeated = True
        raise UnreachableError(f"none of the nodes {', '.join(map(str, nodes))} responds")

    def _connection(self, node: int) -> BrokerConnection:
        if node not in self._connections:
            address = self._addresses[node]
            self._connections[node] = BrokerConnection(address, timeout_s=self.timeout_s)
        return self._connections[node]

    def _drop(self, node: int) -> None:
        if node in self._connections:
            self._connections.pop(node).close()

    def close(self) -> None:
        """Close every connection."""
        for node in list(self._connections):
            self._drop(node)

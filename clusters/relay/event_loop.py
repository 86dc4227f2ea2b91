"""The event loop of the relay's process: sockets, orders from the harness, and timers.

It has one thread and one selector: it needs no locks, and an order has taken effect on every
connection when it is answered.
"""

import heapq
import itertools
import json
import os
import selectors
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from highwater.clusters.relay.channel import Channel
from highwater.clusters.relay.connection import RelayConnection, Row
from highwater.clusters.relay.rules import Link, RelayRule

_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
_GATHER_S: Final = 0.02
_UNSENT_MAX: Final = 1 << 24
_BACKLOG: Final = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """An address on which the relay listens, and its target.

    Attributes:
        listen: host and port; port 0 is any free port.
        upstream: host and port of the target node.
        server: number of the target node.
        source: number of the only node that uses this address; None if several do.
        zookeeper: whether the protocol is ZooKeeper's.
    """

    listen: tuple[str, int]
    upstream: tuple[str, int]
    server: int
    source: int | None = None
    zookeeper: bool = False

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> "Route":
        """Decode a route from JSON."""
        ends = {name: (plain[name][0], plain[name][1]) for name in ("listen", "upstream")}
        return cls(**{**plain, **ends})


class Loop:
    """Forwards bytes until its input ends, which is when the harness has ended.

    Args:
        orders: file descriptor of the orders, JSON lines.
        reports: file descriptor of the reports, JSON lines.
        clock: seconds, monotonic.

    Attributes:
        last_hw: the last HW sent to each follower, by (follower, topic, partition).
    """

    def __init__(
        self, orders: int, reports: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.clock = clock
        self.last_hw: dict[tuple[int, str, int], int] = {}
        self._orders = orders
        self._reports = reports
        self._selector = selectors.DefaultSelector()
        self._rules: dict[int, RelayRule] = {}
        self._links: dict[Link, list[RelayRule]] = {}
        self._connections: dict[RelayConnection, list[int]] = {}
        self._timers: list[tuple[float, int, Channel]] = []
        self._numbers = itertools.count()
        self._last_rows: dict[tuple[object, ...], Row] = {}
        self._watching = False
        self._lines: list[str] = []
        self._unsent = b""
        self._input = b""
        self._gathered_at = 0.0
        self._closed = False
        os.set_blocking(orders, False)
        os.set_blocking(reports, False)
        self._selector.register(orders, _READ, lambda _: self._read_orders())

    def run(self) -> None:
        """Run until the input ends."""
        while not self._closed:
            for key, mask in self._selector.select(self._select_timeout()):
                key.data(mask)
            self._run_timers()
            if self._lines and self.clock() - self._gathered_at >= _GATHER_S:
                self._write_reports()

    # Methods for connections.

    def rules(self, source: int, target: int) -> list[RelayRule]:
        """Return the rules of one link."""
        return self._links.get((source, target), [])

    def schedule(self, channel: Channel, due: float) -> None:
        """Call the channel's ``release_due`` at that time."""
        heapq.heappush(self._timers, (due, next(self._numbers), channel))

    def note(self, row: Row) -> None:
        """Report an observation, unless it equals the last of its kind and link."""
        urgent = row["kind"] == "held"
        if not (urgent or self._watching):
            return
        key = tuple(row.get(name) for name in ("kind", "source", "target", "topic", "partition"))
        if not urgent and "topic" in row:
            if self._last_rows.get(key) == row:
                return
            self._last_rows[key] = row
        self._report({**row, "time_ns": time.monotonic_ns()})
        if urgent:
            self._write_reports()

    # Orders and reports.

    def _read_orders(self) -> None:
        try:
            chunk = os.read(self._orders, 1 << 16)
        except BlockingIOError:
            return
        if not chunk:
            self._closed = True
            return
        *lines, self._input = (self._input + chunk).split(b"\n")
        for line in lines:
            order = json.loads(line)
            answer = self._execute(order)
            self._report({"done": order["id"], **answer})
        self._write_reports()

    def _execute(self, order: dict[str, Any]) -> dict[str, Any]:
        verb = order["do"]
        if verb == "listen":
            try:
                return {"bound": [self._listen(Route.of(route)) for route in order["routes"]]}
            except OSError as error:
                return {"error": str(error)}
        if verb == "watch":
            self._watching = order["on"]
            self._last_rows.clear()
        if verb == "add":
            self._rules[order["rule_id"]] = RelayRule.of(order["rule"])
        if verb == "drop":
            for rule_id in order["rule_ids"]:
                self._rules.pop(rule_id, None)
        if verb in {"add", "drop"}:
            self._apply_rules()
        return {"connections": len(self._connections)} if verb == "count" else {}

    def _apply_rules(self) -> None:
        self._links = {}
        for rule in self._rules.values():
            for link in rule.links:
                self._links.setdefault(link, []).append(rule)
        for connection in list(self._connections):
            connection.apply_rules()
            if connection.refused:
                self._close(connection, reset=True)
            else:
                self._flush(connection)

    def _report(self, row: Row) -> None:
        if not self._lines:
            self._gathered_at = self.clock()
        self._lines.append(json.dumps(row, separators=(",", ":")))

    def _write_reports(self) -> None:
        """Write reports without blocking: a harness that is stopped must not stop the relay."""
        if self._lines and len(self._unsent) < _UNSENT_MAX:
            self._unsent += ("\n".join(self._lines) + "\n").encode()
        self._lines = []
        try:
            self._unsent = self._unsent[os.write(self._reports, self._unsent) :]
        except BlockingIOError:
            pass
        except OSError:
            self._closed = True
        if self._unsent:
            self._lines = self._lines or [""]  # so that the loop tries again
            self._gathered_at = self.clock()

    # Timers.

    def _select_timeout(self) -> float | None:
        waits = [self._timers[0][0] - self.clock()] if self._timers else []
        if self._lines:
            waits.append(self._gathered_at + _GATHER_S - self.clock())
        return max(0.0, min(waits)) if waits else None

    def _run_timers(self) -> None:
        released = False
        while self._timers and self._timers[0][0] <= self.clock():
            heapq.heappop(self._timers)[2].release_due()
            released = True
        if released:
            for connection in list(self._connections):
                self._flush(connection)

    # Sockets.

    def _listen(self, route: Route) -> tuple[str, int]:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(route.listen)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
        self._selector.register(listener, _READ, lambda _: self._accept(listener, route))
        host, port = listener.getsockname()
        return host, port

    def _accept(self, listener: socket.socket, route: Route) -> None:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        _prepare(client)
        connection = RelayConnection(
            self, client, server=route.server, source=route.source, zookeeper=route.zookeeper
        )
        self._connections[connection] = [0, 0]
        connection.on_client = partial(self._on_client, connection)
        connection.on_upstream = partial(self._on_upstream, connection)
        if connection.refused:
            self._close(connection, reset=True)
            return
        connection.upstream_address = route.upstream
        self._update_events(connection)

    def _connect(self, connection: RelayConnection) -> None:
        upstream = socket.socket()
        _prepare(upstream)
        connection.upstream = upstream
        upstream.connect_ex(connection.upstream_address)
        self._update_events(connection)

    def _on_client(self, connection: RelayConnection, mask: int) -> None:
        if connection not in self._connections:
            return
        if mask & _READ and not connection.requests.receive(connection.client):
            self._close(connection)
            return
        if mask & _WRITE and not connection.answers.send(connection.client):
            self._close(connection)
            return
        if connection.refused:
            self._close(connection, reset=True)
            return
        if connection.upstream is None and mask & _READ:
            self._connect(connection)
        self._flush(connection)

    def _on_upstream(self, connection: RelayConnection, mask: int) -> None:
        upstream = connection.upstream
        if upstream is None or connection not in self._connections:
            return
        if not connection.connected:
            if upstream.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                self._close(connection)
                return
            connection.connected = True
        if mask & _READ and not connection.answers.receive(upstream):
            connection.answers.send(connection.client)  # what it sent before its end
            self._close(connection)
            return
        self._flush(connection)

    def _flush(self, connection: RelayConnection) -> None:
        """Write what can be written now, and wait until the rest can."""
        upstream = connection.upstream if connection.connected else None
        requests = connection.requests
        if upstream is not None and requests.has_output and not requests.send(upstream):
            self._close(connection)
            return
        if connection.answers.has_output and not connection.answers.send(connection.client):
            self._close(connection)
            return
        self._update_events(connection)

    def _update_events(self, connection: RelayConnection) -> None:
        masks = self._connections[connection]
        requests, answers = connection.requests, connection.answers
        events = (_READ if requests.can_read else 0) | (_WRITE if answers.has_output else 0)
        if masks[0] != events:
            self._set_events(connection.client, masks, 0, events, connection.on_client)
        if connection.upstream is not None:
            waits = not connection.connected or requests.has_output
            events = (_READ if answers.can_read else 0) | (_WRITE if waits else 0)
            if masks[1] != events:
                self._set_events(connection.upstream, masks, 1, events, connection.on_upstream)

    def _set_events(
        self,
        end: socket.socket,
        masks: list[int],
        side: int,
        events: int,
        on_event: Callable[[int], None],
    ) -> None:
        before, masks[side] = masks[side], events
        if not before:
            self._selector.register(end, events, on_event)
        elif not events:
            self._selector.unregister(end)
        else:
            self._selector.modify(end, events, on_event)

    def _close(self, connection: RelayConnection, *, reset: bool = False) -> None:
        masks = self._connections.pop(connection, None)
        if masks is None:
            return
        ends = (connection.client, connection.upstream)
        for end, mask in zip(ends, masks, strict=True):
            if mask and end is not None:
                self._selector.unregister(end)
        connection.close(reset=reset)


def _prepare(end: socket.socket) -> None:
    end.setblocking(False)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

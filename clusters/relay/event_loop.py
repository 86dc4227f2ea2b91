"""The event loop of the relay's process: sockets, commands from the harness, and timers.

The loop has one thread and one selector, so it needs no locks. The response to a command is sent
after the command has taken effect on every connection.
"""

import heapq
import itertools
import json
import os
import selectors
import socket
import time
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, Final

from highwater.clusters.relay.channel import Channel
from highwater.clusters.relay.connection import RelayConnection, Row
from highwater.clusters.relay.inspectors import PendingRequest
from highwater.clusters.relay.messages import MessageCatcher, MessageInHand, MessageRule, Side
from highwater.clusters.relay.peers import owner
from highwater.clusters.relay.request_log import RequestLog
from highwater.clusters.relay.rules import (
    ANY_CLIENT,
    COORDINATION,
    Link,
    Node,
    RelayRule,
    Route,
    Users,
    client_name,
    is_controller,
)

_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
_GATHER_S: Final = 0.02
_UNSENT_MAX: Final = 1 << 24
_BACKLOG: Final = 128
_URGENT: Final = frozenset(
    (
        "caught",
        "released",
        "sent",
        "dropped",
        "refused",
        "lost",
        "client-gone",
        "answered",
        "discarded",
        "repeated",
    )
)
"""Events of held messages that are reported at once."""


class Loop:
    """Forwards bytes until its input ends. The input ends when the harness ends.

    Args:
        orders: file descriptor from which commands are read, as JSON lines.
        reports: file descriptor to which reports are written, as JSON lines.
        clock: returns the monotonic time in seconds.

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
        self._catchers: dict[int, MessageCatcher] = {}
        self._in_hand: dict[int, MessageInHand] = {}
        self._repeats: list[tuple[RelayConnection, PendingRequest]] = []
        self._connections: dict[RelayConnection, list[int]] = {}
        self._timers: list[tuple[float, int, Channel]] = []
        self._numbers = itertools.count()
        self._connection_numbers = itertools.count(1)
        self._message_numbers = itertools.count(1)
        self._last_rows: dict[tuple[object, ...], Row] = {}
        self._watching = False
        self._recorded: tuple[frozenset[str], str] = (frozenset(), "")
        self._processes: dict[str, int] = {}
        self._upstreams: dict[tuple[Node, Users], tuple[str, int]] = {}
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
            while self._repeats:
                self._send_copy(*self._repeats.pop(0))
            if self._lines and self.clock() - self._gathered_at >= _GATHER_S:
                self._write_reports()

    # Methods for connections.

    def rules(self, source: Node, target: Node) -> list[RelayRule]:
        """Return the rules for one link. Rules for all clients or all controllers are included."""
        return [
            rule
            for link in itertools.product(_names(source), _names(target))
            for rule in self._links.get(link, [])
        ]

    def may_catch(self, side: Side, source: Node, target: Node) -> bool:
        """Return whether a rule for single messages may apply to traffic between these nodes."""
        return any(catcher.rule.covers(side, source, target) for catcher in self._catchers.values())

    def catch(
        self, source: Node, target: Node, side: Side, request: PendingRequest
    ) -> MessageInHand | None:
        """Return a held message for the first rule that applies. All matching rules count it."""
        acting = [
            catcher
            for catcher in self._catchers.values()
            if catcher.rule.covers(side, source, target)
            and catcher.catches(request.head, request.properties)
        ]
        if not acting:
            return None
        due = self.clock() + acting[0].rule.delay_s
        number = next(self._message_numbers)
        hand = MessageInHand(number, acting[0], frozenset((source, target)), due)
        self._in_hand[number] = hand
        return hand

    def let_go(self, hand: MessageInHand) -> None:
        """Remove a message from the list of held messages."""
        self._in_hand.pop(hand.number, None)

    def watches(self, *ends: Node) -> bool:
        """Return whether the relay holds a message between two nodes.

        While the relay holds the message, it reports all other messages between the two nodes.
        """
        return any(hand.ends == frozenset(ends) for hand in self._in_hand.values())

    def repeat(self, connection: RelayConnection, request: PendingRequest) -> None:
        """Send a request a second time, after the original, on a new connection of the relay."""
        self._repeats.append((connection, request))

    def request_log(self) -> RequestLog | None:
        """Return a new log for a client's requests; None if nothing must be recorded."""
        topics, group = self._recorded
        return RequestLog(topics, group, self._report) if topics else None

    def _send_copy(self, connection: RelayConnection, request: PendingRequest) -> None:
        copy = RelayConnection(
            self,
            next(self._connection_numbers),
            None,
            server=connection.server,
            source=connection.source,
            users=connection.users,
        )
        self._register(copy, connection.upstream_address)
        copy.send_copy(request)
        self._connect(copy)

    def schedule(self, channel: Channel, due: float) -> None:
        """Call the channel's ``release_due`` at the time ``due``."""
        heapq.heappush(self._timers, (due, next(self._numbers), channel))

    def note(self, row: Row) -> None:
        """Report an observation, unless the last of this kind, link and partition is equal."""
        urgent = row["kind"] == "held" or row.get("event") in _URGENT
        if not (urgent or self._watching):
            return
        if row["kind"] == "message":
            self._report({**row, "time_ns": time.monotonic_ns()})
            if urgent:
                self._write_reports()
            return
        key = tuple(row.get(name) for name in ("kind", "source", "target", "topic", "partition"))
        if not urgent and "topic" in row:
            if self._last_rows.get(key) == row:
                return
            self._last_rows[key] = row
        self._report({**row, "time_ns": time.monotonic_ns()})
        if urgent:
            self._write_reports()

    # Commands and reports.

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
        if verb == "clients":
            return {"clients": self._clients()}
        if verb == "count":
            return {"connections": len(self._connections)}
        self._follow(verb, order)
        return {}

    def _follow(self, verb: str, order: dict[str, Any]) -> None:
        """Execute a command whose response has no data."""
        if verb == "watch":
            self._watching = order["on"]
            self._last_rows.clear()
        if verb == "record":
            self._recorded = frozenset(order["topics"]), order["group"]
            self._processes.clear()
        if verb == "name":
            self._processes[client_name(order["client"])] = order["pid"]
        if verb == "add":
            self._rules[order["rule_id"]] = RelayRule.of(order["rule"])
        if verb == "catch":
            rule = MessageRule.of(order["rule"])
            self._catchers[order["rule_id"]] = MessageCatcher(order["rule_id"], rule)
        if verb == "drop":
            self._drop(order["rule_ids"], order["cause"])
        if verb == "pass":
            self._let_pass(order["rule_ids"], order["cause"], lose=order["lose"])
        if verb in {"add", "catch", "drop", "pass"}:
            self._apply_rules()

    def _drop(self, rule_ids: Collection[int], cause: str) -> None:
        for rule_id in rule_ids:
            self._rules.pop(rule_id, None)
            self._catchers.pop(rule_id, None)
        self._let_pass(rule_ids, cause, lose=False)

    def _let_pass(self, rule_ids: Collection[int], cause: str, *, lose: bool) -> None:
        for connection in list(self._connections):
            connection.on_release(rule_ids, cause, lose=lose)

    def _clients(self) -> list[str]:
        sources = {connection.source for connection in self._connections}
        return sorted(source for source in sources if isinstance(source, str))

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
        """Write reports without blocking: the relay must continue even if the harness is paused."""
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
            self._lines = self._lines or [""]  # the loop tries again later
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
        self._upstreams[route.server, route.users] = route.upstream
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
        of_clients = route.users != "nodes"
        connection = RelayConnection(
            self,
            next(self._connection_numbers),
            client,
            server=route.server,
            source=owner(client, self._processes) if of_clients else route.source,
            users=route.users,
            zookeeper=route.zookeeper,
            alias=route.alias,
        )
        self._register(connection, route.upstream)
        if connection.refused:
            self._close(connection, reset=True)
            return
        self._update_events(connection)

    def _register(self, connection: RelayConnection, upstream: tuple[str, int]) -> None:
        self._connections[connection] = [0, 0]
        connection.on_client = partial(self._on_client, connection)
        connection.on_upstream = partial(self._on_upstream, connection)
        connection.upstream_address = upstream

    def _connect(self, connection: RelayConnection) -> None:
        upstream = socket.socket()
        _prepare(upstream)
        connection.upstream = upstream
        upstream.connect_ex(self._address(connection))
        self._update_events(connection)

    def _address(self, connection: RelayConnection) -> tuple[str, int]:
        """Return the address of the connection's target, or of a ``misroute`` rule's target."""
        source = connection.source
        for rule in () if source is None else self.rules(source, connection.server):
            if rule.kind == "misroute":
                return self._upstreams[rule.to, connection.users]
        return connection.upstream_address

    def _on_client(self, connection: RelayConnection, mask: int) -> None:
        client = connection.client
        if client is None or connection not in self._connections:
            return
        if mask & _READ and not connection.requests.receive(client):
            self._close_client(connection)
            return
        if mask & _WRITE and not connection.answers.send(client):
            self._close_client(connection)
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
            if connection.client is not None:
                connection.answers.send(connection.client)  # responses sent before the target ended
            self._close(connection)
            return
        self._flush(connection)

    def _flush(self, connection: RelayConnection) -> None:
        """Write as many bytes as possible now. The selector wakes the loop to write the rest."""
        upstream, client = connection.upstream if connection.connected else None, connection.client
        requests, answers = connection.requests, connection.answers
        if upstream is not None and requests.has_output and not requests.send(upstream):
            self._close(connection)
            return
        if client is not None and answers.has_output and not answers.send(client):
            self._close_client(connection)
            return
        if connection.finished:
            self._close(connection)
            return
        self._update_events(connection)

    def _update_events(self, connection: RelayConnection) -> None:
        masks = self._connections[connection]
        requests, answers = connection.requests, connection.answers
        events = (_READ if requests.can_read else 0) | (_WRITE if answers.has_output else 0)
        if connection.client is not None and masks[0] != events:
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

    def _close_client(self, connection: RelayConnection) -> None:
        """Close a connection after its client has closed it, unless the relay holds a request."""
        masks, client = self._connections[connection], connection.client
        if client is None or not connection.on_client_gone():
            self._close(connection)
            return
        if masks[0]:
            self._selector.unregister(client)
            masks[0] = 0
        if connection.upstream is None:
            self._connect(connection)
        self._flush(connection)

    def _close(self, connection: RelayConnection, *, reset: bool = False) -> None:
        masks = self._connections.pop(connection, None)
        if masks is None:
            return
        ends = (connection.client, connection.upstream)
        for end, mask in zip(ends, masks, strict=True):
            if mask and end is not None:
                self._selector.unregister(end)
        connection.close(reset=reset)


def _names(node: Node) -> tuple[Node, ...]:
    """Return the names by which rules refer to a node: ``client:p0`` -> ``client:p0, client:*``."""
    if isinstance(node, str):
        return node, ANY_CLIENT
    return (node, COORDINATION) if node != COORDINATION and is_controller(node) else (node,)


def _prepare(end: socket.socket) -> None:
    end.setblocking(False)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

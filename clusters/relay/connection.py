"""One connection through the relay, from the node that opened it to its target."""

import socket
import struct
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any, Final, Protocol

from highwater.clusters.relay.channel import Channel, FrameInspector, InspectedFrame
from highwater.clusters.relay.inspectors import (
    AnswerInspector,
    OpaqueInspector,
    PendingRequest,
    RequestInspector,
    ZooKeeperRequestInspector,
    message_of,
)
from highwater.clusters.relay.messages import MessageInHand, Side
from highwater.clusters.relay.refusals import errors_of
from highwater.clusters.relay.request_log import RequestLog
from highwater.clusters.relay.rules import Node, RelayRule, Users

_RESET: Final = struct.pack("ii", 1, 0)

Row = dict[str, Any]
OnEvent = Callable[[int], None]


_LAST: Final = frozenset(("dropped", "lost", "refused"))
"""Events after which a message is no longer held."""


def _idle(mask: int) -> None:
    """Do nothing; the event loop sets the real callback."""


class Host(Protocol):
    """The part of the event loop that a connection uses."""

    @property
    def last_hw(self) -> dict[tuple[int, str, int], int]:
        """The last HW sent to each follower, by (follower, topic, partition)."""

    def rules(self, source: Node, target: Node) -> list[RelayRule]:
        """Return the rules for the messages from ``source`` to ``target``."""

    def note(self, row: Row) -> None:
        """Report an observation."""

    def schedule(self, channel: Channel, due: float) -> None:
        """Call the channel's ``release_due`` at the time ``due``."""

    def clock(self) -> float:
        """Return the monotonic time in seconds."""

    def may_catch(self, side: Side, source: Node, target: Node) -> bool:
        """Return whether a rule for single messages may apply to traffic between these nodes."""

    def catch(
        self, source: Node, target: Node, side: Side, request: PendingRequest
    ) -> MessageInHand | None:
        """Return a held message if a rule applies to a request, or to its response; else None."""

    def let_go(self, hand: MessageInHand) -> None:
        """Remove a message from the list of held messages."""

    def watches(self, *ends: Node) -> bool:
        """Return whether the relay holds a message between two nodes.

        While the relay holds the message, it reports all other messages between the two nodes.
        """

    def repeat(self, connection: "RelayConnection", request: PendingRequest) -> None:
        """Send a request a second time, on a new connection of the relay."""

    def request_log(self) -> RequestLog | None:
        """Return a new log for a client's requests; None if nothing must be recorded."""


class RelayConnection:
    """Two channels, one for each direction, and the nodes at their ends.

    Args:
        host: the event loop.
        number: number of the connection.
        client: the accepted socket; None if the relay itself sends the requests.
        server: number of the node that gets the requests.
        source: the sender of the requests. None if the address does not identify the sender; then
            the first request names the sender. For a tool it stays None, and no rule applies.
        users: the users of the address at which the relay accepted the connection.
        zookeeper: whether the protocol is ZooKeeper's.
        alias: between ZooKeepers, the address that replaces the sender's own address; otherwise
            None.
    """

    def __init__(
        self,
        host: Host,
        number: int,
        client: socket.socket | None,
        *,
        server: int,
        source: Node | None,
        users: Users = "nodes",
        zookeeper: bool = False,
        alias: str | None = None,
    ) -> None:
        self.number = number
        self.client = client
        self.upstream: socket.socket | None = None
        self.upstream_address = ("", 0)
        self.connected = False
        self.on_client: OnEvent = _idle
        self.on_upstream: OnEvent = _idle
        self.server = server
        self.source = source
        self.users = users
        self._host = host
        self._log = host.request_log() if users != "nodes" else None
        self._inspector: RequestInspector = (
            ZooKeeperRequestInspector(self) if zookeeper else RequestInspector(self)
        )
        if alias is None:
            self.requests = self._channel(self._inspector)
            self.answers = self._channel(AnswerInspector(self, self._inspector))
        else:
            self.requests = self._channel(OpaqueInspector(alias))
            self.answers = self._channel(OpaqueInspector())
        self.answers.discards = client is None
        self.apply_rules()

    @property
    def of_client(self) -> bool:
        """True if the requests come from a client and not from a node."""
        return isinstance(self.source, str) or self.users == "clients"

    @property
    def follower(self) -> int:
        """Number of the node that sends the requests; 0 if the node is unknown."""
        return self.source if isinstance(self.source, int) else 0

    def apply_rules(self) -> None:
        """Apply the current rules to both channels."""
        source, server, host = self.source, self.server, self._host
        if source is None:  # the first request names the source; a rule may apply to it
            self.requests.apply_rules((), catches=True)
        else:
            self.requests.apply_rules(
                host.rules(source, server), catches=host.may_catch("request", source, server)
            )
            self.answers.apply_rules(
                host.rules(server, source), catches=host.may_catch("answer", server, source)
            )

    @property
    def refused(self) -> bool:
        """True if a rule resets connections between the two nodes."""
        if self.source is None:
            return False
        ends = (self.source, self.server), (self.server, self.source)
        return any(rule.kind == "reset" for end in ends for rule in self._host.rules(*end))

    def set_source(self, source: Node) -> None:
        """Set the sender of the requests, which the first request names."""
        self.source = source
        self.apply_rules()

    @property
    def last_hw(self) -> dict[tuple[int, str, int], int]:
        """The last HW sent to each follower, by (follower, topic, partition)."""
        return self._host.last_hw

    def note(self, kind: str, source: Node, target: Node, **facts: object) -> None:
        """Report an observation about messages from ``source`` to ``target``."""
        self._host.note({"kind": kind, "source": source, "target": target, **facts})

    def on_request(self, request: PendingRequest, *, has_answer: bool) -> None:
        """Record a client's request when it is forwarded."""
        if self._log is not None:
            self._log.passed(request, ends=self._ends, has_answer=has_answer)

    def on_answer(self, request: PendingRequest, frame: bytearray) -> None:
        """Record the response to a client's request when the response is forwarded."""
        if self._log is not None:
            self._log.answered(request, frame, ends=self._ends)

    @property
    def _ends(self) -> Row:
        return {"source": self.source, "target": self.server, "connection": self.number}

    # Single messages.

    def catch(self, note: object) -> MessageInHand | None:
        """Return a held message if a rule applies to the inspected message; else None."""
        message = message_of(note)
        if message is None or self.source is None:
            return None
        side, request = message
        hand = self._host.catch(*self._link(side), side, request)
        if hand is not None:
            if side == "request":
                request.hand = hand
            self._note_message("caught", side, request, hand)
        return hand

    def on_message(self, inspected: InspectedFrame) -> None:
        """Report a forwarded message, if it was held or is related to a held message."""
        message, hand = message_of(inspected.note), inspected.hand
        if message is None:
            return
        side, request = message
        if hand is not None:
            self._note_message("sent", side, request, hand)
            self._host.let_go(hand)
            if hand.rule.action == "repeat" and self.client is not None:
                self._host.repeat(self, request)
        elif side == "answer" and request.hand is not None:
            event = "discarded" if self.client is None else "answered"
            cause = errors_of(inspected.frame, request.head)
            self._note_message(event, side, request, request.hand, cause)
        elif inspected.waited or (
            self.source is not None and self._host.watches(self.source, self.server)
        ):
            self._note_message("passed", side, request, None)

    def on_event(self, event: str, inspected: InspectedFrame, cause: str = "") -> None:
        """Report an event of a held message."""
        message = message_of(inspected.note)
        if message is not None and inspected.hand is not None:
            self._note_message(event, *message, inspected.hand, cause)
            if event in _LAST:
                self._host.let_go(inspected.hand)

    def answer_refused(self) -> None:
        """Send the relay's own responses to refused requests, in the order of the requests."""
        self.answers.insert_own()

    def on_release(self, rule_ids: Collection[int], cause: str, *, lose: bool = False) -> None:
        """Forward the messages that these rules hold, or with ``lose`` drop them and close."""
        for channel in (self.requests, self.answers):
            for inspected in channel.in_hand:
                hand = inspected.hand
                if hand is not None and hand.waits and hand.rule_id in rule_ids:
                    hand.waits = False
                    if lose:
                        hand.rule = replace(hand.rule, action="drop")
                    self.on_event("released", inspected, cause)

    def on_client_gone(self) -> bool:
        """Handle the end of the client's connection. Return False if nothing else is to be sent.

        If a request is held, close only the client's socket, and return True: the request must
        still reach the server. The client's later requests are lost.
        """
        if self.client is None or not self.requests.in_hand:
            return False
        self.client.close()
        self.client = None
        self.answers.discards = True
        for inspected in self.answers.in_hand:
            self.on_event("lost", inspected)
        for inspected in self.requests.keep_in_hand():
            self._inspector.forget(inspected.note)
        for inspected in self.requests.in_hand:
            self.on_event("client-gone", inspected)
        return True

    def send_copy(self, request: PendingRequest) -> None:
        """Send a copy of another connection's request. This connection must have no client."""
        copy = self._inspector.expect(request)
        self._note_message("repeated", "request", copy, copy.hand)
        self.requests.enqueue(copy.frame)

    @property
    def finished(self) -> bool:
        """True if a message was dropped, or if there is no client and no pending request."""
        if any(
            channel.ended and not channel.has_output for channel in (self.requests, self.answers)
        ):
            return True
        return self.client is None and not (
            self.requests.in_hand or self.requests.has_output or self._inspector.pending
        )

    def _link(self, side: Side) -> tuple[Node, Node]:
        source = 0 if self.source is None else self.source
        return (source, self.server) if side == "request" else (self.server, source)

    def _note_message(
        self,
        event: str,
        side: Side,
        request: PendingRequest,
        hand: MessageInHand | None,
        cause: str = "",
    ) -> None:
        seen = request.properties()
        place = None if hand is None else hand.rule.partition_of(seen)
        topic, partition = place or next(iter(seen.partitions), (None, None))
        decided = {(row.topic, row.partition): row.epoch for row in request.decided}
        self.note(
            "message",
            *self._link(side),
            event=event,
            message=None if hand is None else hand.number,
            rule=None if hand is None else hand.rule_id,
            action=None if hand is None else hand.rule.action,
            side=side,
            connection=self.number,
            place=request.place,
            api=request.head.api,
            version=request.head.version,
            correlation=request.head.correlation,
            transactional_id=seen.transactional_id,
            producer_id=seen.producer_id,
            epoch=decided.get((topic or "", partition or 0), seen.epoch),
            topic=topic,
            partition=partition,
            cause=cause or None,
        )

    def close(self, *, reset: bool = False) -> None:
        """Close both sockets. Held messages are lost."""
        if self._log is not None:
            self._log.close(ends=self._ends)
        for channel in (self.requests, self.answers):
            for inspected in channel.in_hand:
                self.on_event("lost", inspected)
        for end in (self.client, self.upstream):
            if end is not None:
                if reset:
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                end.close()

    def _channel(self, inspector: FrameInspector) -> Channel:
        def schedule(due: float) -> None:
            self._host.schedule(channel, due)

        framed = not isinstance(inspector, OpaqueInspector)
        channel = Channel(inspector, schedule, self._host.clock, framed=framed)
        return channel

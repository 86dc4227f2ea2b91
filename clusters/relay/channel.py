"""One direction of a connection: it inspects each frame, and forwards, delays or holds the frame.

No function of this module blocks. The event loop calls them when a socket is ready, or when a frame
must be sent.
"""

import random
import socket
import struct
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from highwater.clusters.relay.messages import MessageInHand
from highwater.clusters.relay.rules import RelayRule

_CHUNK: Final = 1 << 16
_SCRATCH: Final = memoryview(bytearray(_CHUNK))
_FRAME_MAX: Final = 1 << 28
_QUEUE_MAX: Final = 1 << 23
"""A channel that has this many bytes to deliver stops reading, like a full socket."""

_SIZE: Final = struct.Struct(">i")
_DICE: Final = random.Random()  # noqa: S311 - jitter is not a secret


class InspectedFrame(NamedTuple):
    """A frame that its inspector has decoded.

    Attributes:
        note: the result of ``FrameInspector.read``.
        hand: set if a rule for single messages applies to the frame.
        waited: whether the frame has waited behind a held message.
    """

    frame: bytearray
    note: object
    hand: MessageInHand | None = None
    waited: bool = False


class FrameInspector:
    """Decodes frames, and finds the rules for them. This base class decodes no frame."""

    def read(self, frame: bytearray) -> object:
        """Decode a complete frame. Return None if no rule or report needs the frame."""
        del frame
        return None

    def catch(self, note: object) -> MessageInHand | None:
        """Return a held message if a rule for single messages applies to the frame, else None."""
        del note
        return None

    def is_held(self, note: object, rules: Iterable[RelayRule]) -> bool:
        """Return whether one of these rules holds the frame."""
        del note, rules
        return False

    def may_overtake(self, note: object) -> bool:
        """Return whether the relay may forward the frame before earlier frames that it holds."""
        del note
        return False

    def refuse(self, inspected: InspectedFrame) -> bool:
        """Respond to a request with an error. Return True if the relay must drop the request."""
        del inspected
        return False

    def own_frame(self) -> bytearray | None:
        """Return a frame that the relay itself must send now, or None."""
        return None

    def on_passed(self, inspected: InspectedFrame) -> None:
        """Report a frame that the relay forwards now."""

    def on_event(self, event: str, inspected: InspectedFrame, cause: str = "") -> None:
        """Report an event of a held message, such as ``released``; ``cause`` is its reason."""


class Channel:
    """Forwards bytes from one socket to another, frame by frame.

    If no rule can apply to a frame, the channel forwards the bytes as they arrive, without a copy.
    Otherwise the channel first reads the complete frame.

    Args:
        inspector: the inspector of the channel's frames.
        schedule: requests a call of ``release_due`` at a time, in seconds of ``clock``.
        clock: returns the monotonic time in seconds.
        framed: whether frames begin with their size. Otherwise bytes that arrive together form a
            frame.

    Attributes:
        blocked: whether a rule stops all frames.
        discards: whether the channel discards frames, because they have no receiver.
        ended: whether a frame was dropped. The connection then closes after all earlier frames.
    """

    def __init__(
        self,
        inspector: FrameInspector,
        schedule: Callable[[float], None],
        clock: Callable[[], float],
        *,
        framed: bool = True,
    ) -> None:
        self._framed = framed
        self.blocked = self.discards = self.ended = False
        self._catches = False
        self._inspector = inspector
        self._schedule = schedule
        self._clock = clock
        self._slow: tuple[RelayRule, ...] = ()
        self._holds: tuple[RelayRule, ...] = ()
        self._partial = b""
        self._frame: bytearray | None = None
        self._received = self._forwarded = 0
        self._queue: deque[memoryview] = deque()
        self._queued = 0
        self._delayed: deque[tuple[float, bytearray]] = deque()
        self._held_frames: deque[InspectedFrame] = deque()
        self._busy_until = 0.0

    def apply_rules(self, rules: Iterable[RelayRule], *, catches: bool = False) -> None:
        """Set the rules for this direction, and forward all frames that the rules do not hold.

        Args:
            catches: whether a rule for single messages may apply. If so, the channel reads every
                frame completely.
        """
        rules = tuple(rules)
        self._catches = catches
        self.blocked = any(rule.kind == "cut" for rule in rules)
        self._slow = tuple(rule for rule in rules if rule.kind == "slow")
        self._holds = tuple(rule for rule in rules if rule.kind == "hold")
        self._route_again()
        if not self._slow:
            self._release_until(float("inf"))

    @property
    def in_hand(self) -> list[InspectedFrame]:
        """The held messages of this channel that it has not forwarded yet."""
        return [inspected for inspected in self._held_frames if inspected.hand is not None]

    def keep_in_hand(self) -> list[InspectedFrame]:
        """Remove and return the waiting frames that are not held messages themselves."""
        others = [inspected for inspected in self._held_frames if inspected.hand is None]
        self._held_frames = deque(self.in_hand)
        return others

    @property
    def can_read(self) -> bool:
        """True while the channel accepts more bytes."""
        return not (self.blocked or self.ended) and self._queued < _QUEUE_MAX

    @property
    def has_output(self) -> bool:
        """True while the channel has bytes to write."""
        return bool(self._queue) and not self.blocked

    def receive(self, inbox: socket.socket) -> bool:
        """Read the bytes that have arrived. Return False at the end of the stream."""
        try:
            while self.can_read:
                count = self._read(inbox)
                if not count:
                    return False
                if self._frame is None or count < _CHUNK:
                    return True
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            return False
        return True

    def _read(self, inbox: socket.socket) -> int:
        if self._frame is None:
            count = inbox.recv_into(_SCRATCH)
            if self._framed:
                self._split(_SCRATCH[:count])
            elif count:
                self._inspect(bytearray(_SCRATCH[:count]))
        else:
            count = inbox.recv_into(memoryview(self._frame)[self._received :])
            self._received += count
            self._extend(self._frame)
        return count

    def send(self, outbox: socket.socket) -> bool:
        """Write as many bytes as possible. Return False if the receiver has closed."""
        try:
            while self._queue:
                view = self._queue[0]
                sent = outbox.send(view)
                self._queued -= sent
                if sent < len(view):
                    self._queue[0] = view[sent:]
                    return True
                self._queue.popleft()
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            return False
        return True

    def release_due(self) -> None:
        """Forward the frames whose delay has ended."""
        now = self._clock()
        due = [
            inspected
            for inspected in self._held_frames
            if inspected.hand is not None and inspected.hand.waits and inspected.hand.due <= now
        ]
        for inspected in due:
            assert inspected.hand is not None
            inspected.hand.waits = False
            self._inspector.on_event("released", inspected, "time")
        if due:
            self._route_again()
        self._release_until(now)

    def _split(self, chunk: memoryview) -> None:
        """Split a chunk into frames. The last frame may be incomplete."""
        data = memoryview(self._partial + chunk) if self._partial else chunk
        while len(data) >= _SIZE.size:
            size = _SIZE.size + _SIZE.unpack_from(data)[0]
            if not _SIZE.size <= size <= _FRAME_MAX:
                raise ConnectionAbortedError(
                    "the bytes are neither Kafka's nor ZooKeeper's protocol"
                )
            if len(data) < size:
                self._frame = bytearray(size)
                self._frame[: len(data)] = data
                self._received, self._forwarded = len(data), 0
                self._partial = b""
                self._extend(self._frame)
                return
            self._inspect(bytearray(data[:size]))
            data = data[size:]
        self._partial = bytes(data)

    def _extend(self, frame: bytearray) -> None:
        """Process a long frame after more of its bytes have arrived."""
        waits = self._slow or self._holds or self._held_frames or self._delayed or self._catches
        if self._forwarded or not waits:
            self._enqueue(memoryview(frame)[self._forwarded : self._received])
            self._forwarded = self._received
        if self._received < len(frame):
            return
        self._frame = None
        if self._forwarded:
            self._inspector.on_passed(InspectedFrame(frame, self._inspector.read(frame)))
            self.insert_own()
        else:
            self._inspect(frame)

    def _inspect(self, frame: bytearray) -> None:
        self._take(frame)
        self.insert_own()

    def insert_own(self) -> None:
        """Process the relay's own frames that must be sent now, like frames from the socket."""
        while not self.ended and (frame := self._inspector.own_frame()) is not None:
            self._take(frame)

    def _take(self, frame: bytearray) -> None:
        if self.ended:
            return
        note = self._inspector.read(frame)
        hand = self._inspector.catch(note) if self._catches else None
        if hand is not None and hand.rule.action == "delay":
            self._schedule(hand.due)
        self._route_frame(InspectedFrame(frame, note, hand))

    def _route_again(self) -> None:
        held_frames, self._held_frames = self._held_frames, deque()
        for inspected in held_frames:
            self._route_frame(inspected)

    def _route_frame(self, inspected: InspectedFrame) -> None:
        """Hold a frame, delay it, or forward it."""
        hand = inspected.hand
        behind = self._held_frames and not self._inspector.may_overtake(inspected.note)
        if (
            behind
            or (hand is not None and hand.waits)
            or self._inspector.is_held(inspected.note, self._holds)
        ):
            waited = inspected.waited or bool(self.in_hand)
            self._held_frames.append(inspected._replace(waited=waited))
            return
        if self.ended:
            return
        if hand is not None and hand.rule.action == "drop":
            self.ended = True
            self._inspector.on_event("dropped", inspected)
            return
        if hand is not None and hand.rule.action == "refuse" and self._inspector.refuse(inspected):
            return
        self._inspector.on_passed(inspected)
        if not (self._slow or self._delayed):
            self._enqueue(memoryview(inspected.frame))
            return
        due = self._due(len(inspected.frame))
        self._delayed.append((due, inspected.frame))
        self._schedule(due)

    def _due(self, size: int) -> float:
        """Return the time at which a frame must be sent: never before an earlier frame."""
        now = self._clock()
        delay = sum(rule.delay_s + rule.jitter_s * _DICE.random() for rule in self._slow)
        rates = [rule.bytes_per_s for rule in self._slow if rule.bytes_per_s]
        self._busy_until = max(self._busy_until, now) + (size / min(rates) if rates else 0.0)
        last = self._delayed[-1][0] if self._delayed else 0.0
        return max(self._busy_until + delay, last)

    def _release_until(self, now: float) -> None:
        while self._delayed and self._delayed[0][0] <= now:
            self._enqueue(memoryview(self._delayed.popleft()[1]))

    def enqueue(self, frame: bytearray) -> None:
        """Send a frame that the relay itself has made."""
        self._enqueue(memoryview(frame))

    def _enqueue(self, view: memoryview) -> None:
        if self.discards:
            return
        self._queue.append(view)
        self._queued += len(view)

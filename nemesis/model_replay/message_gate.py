"""A gate on a link: the wire holds messages of some kinds there, and lets one pass at a time."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from highwater.clusters.core.interfaces import Network
from highwater.clusters.relay.messages import MessageRule
from highwater.harness.base.waiting import await_condition
from highwater.nemesis.context import ScheduleNotFollowedError

LIMIT_S: Final = 20.0
_POLL_S: Final = 0.005
_GONE: Final = ("sent", "dropped", "lost", "client-gone")

Row = Mapping[str, Any]


class MessageGate:
    """Holds every message that one of its rules is about, from now until ``open``.

    Args:
        says: the messages, for errors: ``fetches of broker 2 from broker 1``.
    """

    def __init__(self, network: Network, says: str, *rules: MessageRule) -> None:
        self.says = says
        self._catchers = [network.catch(rule) for rule in rules]

    def count(self, event: str) -> int:
        """Return how often an event has happened to its messages."""
        return sum(len(catcher.events(event)) for catcher in self._catchers)

    def in_hand(self) -> Sequence[Row]:
        """Return the messages that wait here, in the order in which they came."""
        waiting = []
        for catcher in self._catchers:
            gone = {row["message"] for row in catcher.events(*_GONE)}
            waiting += [row for row in catcher.events("caught") if row["message"] not in gone]
        return sorted(waiting, key=lambda row: row["time_ns"])

    def await_message(self, *, caught: int = 0) -> Row:
        """Return the message that waits here, once there is one.

        Args:
            caught: how many messages must have come so far, at least.

        Raises:
            WaitTimeoutError: none came.
            ScheduleNotFollowedError: more than one waits, so that not one alone can pass.
        """
        waiting, _ = await_condition(
            lambda: (self.in_hand(), self.count("caught")),
            lambda seen: bool(seen[0]) and seen[1] >= caught,
            what=f"one of the {self.says}",
            limit_s=LIMIT_S,
            every_s=_POLL_S,
        )
        if len(waiting) > 1:
            raise ScheduleNotFollowedError(f"{len(waiting)} of the {self.says} wait at once")
        return waiting[0]

    def let_pass(self) -> None:
        """Let the message in hand pass."""
        for catcher in self._catchers:
            catcher.let_pass()

    def lose(self) -> None:
        """Lose the messages in hand: their connections end, as if they had never been sent."""
        for catcher in self._catchers:
            catcher.let_pass(lose=True)

    def await_count(self, event: str, times: int) -> None:
        """Wait until an event has happened so often.

        Raises:
            WaitTimeoutError: it has not.
        """
        await_condition(
            lambda: self.count(event),
            lambda count: count >= times,
            what=f"{event} of the {self.says}",
            limit_s=LIMIT_S,
            every_s=_POLL_S,
        )

    def open(self) -> None:
        """Hold nothing any more."""
        for catcher in self._catchers:
            catcher.release("schedule")

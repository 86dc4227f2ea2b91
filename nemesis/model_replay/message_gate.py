"""A gate holds messages at the relay, and forwards them one at a time on request."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from highwater.clusters.relay.messages import MessageRule
from highwater.clusters.relay.network import Network
from highwater.harness.base.waiting import await_condition
from highwater.nemesis.context import ScheduleNotFollowedError

LIMIT_S: Final = 20.0
_POLL_S: Final = 0.005
_GONE: Final = ("sent", "dropped", "lost", "client-gone")

Row = Mapping[str, Any]


class MessageGate:
    """Holds every message that matches a rule of the gate, until ``open`` is called.

    Args:
        says: a name of the messages for error messages: ``fetches of broker 2 from broker 1``.
    """

    def __init__(self, network: Network, says: str, *rules: MessageRule) -> None:
        self.says = says
        self._catchers = [network.catch(rule) for rule in rules]

    def count(self, event: str) -> int:
        """Return how many messages at this gate had an event, such as ``caught``."""
        return sum(len(catcher.events(event)) for catcher in self._catchers)

    def in_hand(self) -> Sequence[Row]:
        """Return the messages that wait at this gate, in the order of arrival."""
        waiting = []
        for catcher in self._catchers:
            gone = {row["message"] for row in catcher.events(*_GONE)}
            waiting += [row for row in catcher.events("caught") if row["message"] not in gone]
        return sorted(waiting, key=lambda row: row["time_ns"])

    def await_message(self, *, caught: int = 0) -> Row:
        """Wait until a message waits at this gate, and return it.

        Args:
            caught: the number of messages that must have arrived at the gate in total.

        Raises:
            WaitTimeoutError: no message arrived.
            ScheduleNotFollowedError: several messages wait, so it is unclear which to forward.
        """
        waiting, _ = await_condition(
            lambda: (self.in_hand(), self.count("caught")),
            lambda seen: bool(seen[0]) and seen[1] >= caught,
            what=f"one of the {self.says}",
            limit_s=LIMIT_S,
            every_s=_POLL_S,
        )
        if len(waiting) > 1:
            raise ScheduleNotFollowedError(
                f"{len(waiting)} of the {self.says} wait at the same time"
            )
        return waiting[0]

    def let_pass(self) -> None:
        """Forward the waiting message."""
        for catcher in self._catchers:
            catcher.let_pass()

    def lose(self) -> None:
        """Drop the waiting messages, and close their connections."""
        for catcher in self._catchers:
            catcher.let_pass(lose=True)

    def await_count(self, event: str, times: int) -> None:
        """Wait until an event has happened at least ``times`` times.

        Raises:
            WaitTimeoutError: the event did not happen often enough in time.
        """
        await_condition(
            lambda: self.count(event),
            lambda count: count >= times,
            what=f"{event} of the {self.says}",
            limit_s=LIMIT_S,
            every_s=_POLL_S,
        )

    def open(self) -> None:
        """Forward all waiting messages, and hold no more messages."""
        for catcher in self._catchers:
            catcher.release("schedule")

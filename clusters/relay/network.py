"""Apply rules to the connections of a cluster, by topic and broker."""

import contextlib
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Final

from highwater.clusters.relay.client import Relay
from highwater.clusters.relay.messages import MessageRule
from highwater.clusters.relay.rules import CLIENT, COORDINATION, RelayRule
from highwater.harness.base.waiting import await_condition

_WAIT_S: Final = 0.01

Row = dict[str, Any]


class Network:
    """The connections through a cluster's relay. A link is one direction between two nodes.

    Args:
        relay: relay of the cluster.
        brokers: ids of the brokers.
        topic_id: returns a topic's id, or "" if Fetch requests contain names.
        controllers: node numbers of the ZooKeepers or KRaft controllers that connect through the
            relay.

    Attributes:
        nodes: the brokers, and ``COORDINATION``, which means all controllers.
    """

    def __init__(
        self,
        relay: Relay,
        brokers: frozenset[int],
        topic_id: Callable[[str], str],
        *,
        controllers: frozenset[int] = frozenset((COORDINATION,)),
    ) -> None:
        self.nodes = brokers | {COORDINATION}
        self.controllers = controllers
        self.brokers = brokers
        self.topic_id = topic_id
        self._relay = relay

    def under(self, *rules: RelayRule) -> AbstractContextManager[None]:
        """Apply rules to links during the ``with`` block. Then forward the held messages."""
        return self._relay.under(*rules)

    @contextlib.contextmanager
    def hw_held(self, topic: str, partition: int, *followers: int, above: int) -> Iterator[None]:
        """During the block, hold each Fetch response to a follower with a HW above ``above``."""
        names = frozenset(filter(None, (topic, self.topic_id(topic))))
        links = frozenset(
            (leader, follower)
            for leader in self.brokers
            for follower in followers
            if leader != follower
        )
        rule = RelayRule(
            kind="hold", links=links, what="hw", topics=names, partition=partition, above=above
        )
        with self._relay.under(rule):
            yield

    def held_messages(self, what: str) -> list[Row]:
        """Return the messages of one kind that the relay has held so far."""
        return [row for row in self._relay.held_messages() if row["what"] == what]

    def await_held(self, what: str, *targets: int, since_ns: int = 0, limit_s: float) -> None:
        """Wait until the relay has held a message of one kind to each node in ``targets``.

        Args:
            since_ns: messages before this time of the monotonic clock are ignored.

        Raises:
            WaitTimeoutError: no such message was sent to one of the nodes within the limit.
        """
        await_condition(
            lambda: {
                row["target"] for row in self.held_messages(what) if row["time_ns"] >= since_ns
            },
            lambda seen: seen >= set(targets),
            what=f"the wire to hold a {what} message to each of the nodes {sorted(targets)}",
            limit_s=limit_s,
            every_s=_WAIT_S,
        )

    def catch(self, rule: MessageRule) -> "CaughtMessages":
        """Apply a rule for single messages until ``release``. The rule also matches topic ids."""
        ids = {self.topic_id(topic) for topic in rule.topics} - {""}
        return CaughtMessages(self._relay, replace(rule, topics=rule.topics | ids))

    def clients(self) -> list[str]:
        """Return the clients that are connected through the relay."""
        return [name.removeprefix(CLIENT) for name in self._relay.clients()]

    def name_client(self, name: str, pid: int) -> None:
        """Give later connections of this process and its descendants the client ``name``."""
        self._relay.name_client(name, pid)

    def record_requests(self, topics: Collection[str], group: str) -> None:
        """Report to the watcher the requests that write to topics or commit offsets of the group.

        A call without topics stops these reports, and also forgets all ``name_client`` calls.
        """
        ids = {self.topic_id(topic) for topic in topics if topic} - {""}
        self._relay.record({*topics, *ids}, group)

    def watch(self, watcher: Callable[[Row], None] | None) -> None:
        """Call ``watcher`` for every message about replication, on the relay's own thread."""
        self._relay.watch(watcher)


class CaughtMessages:
    """The messages to which one rule applies."""

    def __init__(self, relay: Relay, rule: MessageRule) -> None:
        self._relay = relay
        self._number = relay.catch(rule)

    def events(self, *names: str) -> list[Row]:
        """Return the events so far, in order: all events, or only the events with these names."""
        rows = self._relay.events(self._number)
        return [row for row in rows if not names or row["event"] in names]

    @property
    def caught(self) -> int:
        """The number of messages to which the rule has applied so far."""
        return len(self.events("caught"))

    def await_event(self, event: str, *, limit_s: float, times: int = 1) -> None:
        """Wait until an event has happened ``times`` times to messages of the rule.

        Raises:
            WaitTimeoutError: the event has not happened often enough within the limit.
        """
        await_condition(
            lambda: len(self.events(event)),
            lambda count: count >= times,
            what=f"the wire (proxy) to report the event {event} of a message",
            limit_s=limit_s,
            every_s=_WAIT_S,
        )

    def let_pass(self, *, lose: bool = False) -> None:
        """Forward the held messages, or drop them. The rule still applies to later messages."""
        self._relay.let_pass(self._number, lose=lose)

    def release(self, cause: str = "order") -> None:
        """End the rule and forward held messages. A second call does nothing."""
        self._relay.drop(self._number, cause=cause)
